"""Executing CUDA C++ on a CPU: candidates really run on a machine with no GPU. It proves function, never speed.

How the pieces fit together, in the order in which a verifier meets them:

parent, once            `prepare()` builds what is shared (cached; seconds the first time) and puts a `cuda:0` over host
                        memory into this process. Heavy, fork-friendly, idempotent: give it to a fork server as `setup`
                        (`"musadata.verifier.emulation:prepare"`), before or after `import torch`.
child, per candidate    `activate(compile, fault_fd=...)` is cheap. From then on `load_inline` and `load` call
                        `compile(sources)` with the plain dict of a `CandidateSources` and get the path of an artifact.
                        `configure(order="reverse", ...)` between runs, `take_records()` after each.
parent, on request      `compile_sources(CandidateSources.from_dict(sources))` is a pure function of the sources and
                        the toolchain: no candidate Python, contained compilers, content-addressed cache.

Example of a child::

    emulation.activate(lambda sources: ask({"compile": sources})["path"], fault_fd=write_end)
    emulation.configure(order="forward", seed=0, poison=0xFF, ghost=False)
    ...import the candidate, run ModelNew on cuda tensors...
    records = emulation.take_records()

What cannot be judged here (general PTX, cuBLAS, textures, ...) raises `Unsupported`, never blames the candidate.
"""

from musadata.verifier.emulation.artifacts import Artifact, CompileLimits, compile_sources
from musadata.verifier.emulation.errors import CompileError, Unsupported
from musadata.verifier.emulation.hook import activate, configure, prepare, take_records
from musadata.verifier.emulation.sources import CandidateSources

DEVICE = "cuda"  # what PyTorch calls it

__all__ = [
    "DEVICE",
    "Artifact",
    "CandidateSources",
    "CompileError",
    "CompileLimits",
    "Unsupported",
    "activate",
    "compile_sources",
    "configure",
    "prepare",
    "take_records",
]
