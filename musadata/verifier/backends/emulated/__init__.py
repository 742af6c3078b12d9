"""Executing CUDA C++ on a CPU: candidates really run on a machine with no GPU. It proves function, never speed.

How the pieces fit together, in the order in which a verifier meets them:

parent, once            `emulated_hook.prepare()` loads what is shared (built and cached at the first time) and puts a
                        `cuda:0` over host memory into this process. It is slow, safe to fork and idempotent: a fork
                        server runs it as its `setup`, before or after `import torch`.
child, per candidate    `emulated_hook.activate(compile, fault_fd=...)` is cheap. From then on `load_inline` and `load`
                        call `compile(sources)` with a `CandidateSources` and get the path of a library.
                        `configure(order="reverse", ...)` between runs, `take_records()` after each.
parent, on request      `artifacts.compile_sources(sources)` is a pure function of the sources and the toolchain: no
                        candidate's Python, contained compilers, a cache addressed by content.

What cannot be judged here (general PTX, cuBLAS, textures, ...) raises `Unsupported`; it is no mistake of the candidate.
"""
