"""Executing CUDA C++ on a CPU: candidates really run on a machine with no GPU. It proves function, never speed.

How the pieces fit together, in the order in which a verifier meets them:

parent, once            `hook.prepare()` builds what is shared (cached; seconds the first time) and puts a `cuda:0` over
                        host memory into this process. Heavy, fork-friendly, idempotent: give it to a fork server as
                        `setup` (`emulated_hook:prepare`), before or after `import torch`.
child, per candidate    `hook.activate(compile, fault_fd=...)` is cheap. From then on `load_inline` and `load` call
                        `compile(sources)` with the plain dict of a `CandidateSources` and get the path of an artifact.
                        `hook.configure(order="reverse", ...)` between runs, `hook.take_records()` after each.
parent, on request      `artifacts.compile_sources(CandidateSources.from_dict(sources))` is a pure function of the
                        sources and the toolchain: no candidate Python, contained compilers, content-addressed cache.

Example of a child::

    hook.activate(lambda sources: ask({"compile": sources})["path"], fault_fd=write_end)
    hook.configure(order="forward", seed=0, poison=0xFF, null_kernels=False)
    ...import the candidate, run ModelNew on cuda tensors...
    records = hook.take_records()

What cannot be judged here (general PTX, cuBLAS, textures, ...) raises `Unsupported`, never blames the candidate.
"""
