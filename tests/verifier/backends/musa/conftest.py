"""A verifier whose candidates are ported to MUSA, and compiled on the emulator with MUSA's names as CUDA's."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier, verifier
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.backends.emulated.artifacts import compile_sources
from musadata.verifier.backends.musa.port import NoCounterpart, port_sources
from musadata.verifier.backends.protocol import Backend, Built
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.sources import CandidateSources

ALIASES = Path(__file__).with_name("include")
CONFIG = VerifierConfig(backend=BackendType.EMULATED, input_sets=4)


def as_cuda(ported: CandidateSources) -> CandidateSources:
    """MUSA sources with the alias headers in front, as torch_musa puts its own there."""
    return replace(
        ported,
        cpp=tuple(_begin(text) for text in ported.cpp),
        cuda=tuple(_begin(text) for text in ported.cuda),
        defines=tuple(flag.replace("__MUSA_NO_", "__CUDA_NO_") for flag in ported.defines),
    )


def _begin(text: str) -> str:
    """This macro spells its argument out before an alias can take effect."""
    aliased = re.sub(r"(TORCH_LIBRARY_IMPL\(\w+, )PrivateUse1", r"\1CUDA", text)
    return f"#include <musa_runtime.h>\n#line 1\n{aliased}"


def compile_ported(sources: CandidateSources) -> Built:
    try:
        ported = as_cuda(port_sources(sources))
        return Built(path=str(compile_sources(ported, include=(ALIASES,))))
    except (NoCounterpart, Unsupported) as error:
        return Built(error=str(error), unsupported=True)
    except CompileError as error:
        return Built(error=str(error))


@pytest.fixture(scope="session")
def ported_verifier() -> Iterator[Verifier]:
    """Judges candidates after the port, as the emulated backend judges them before it."""

    def open_ported(config: VerifierConfig) -> Backend:
        return replace(open_backend(config), name="ported", compile=compile_ported)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifier, "open_backend", open_ported)
        opened = Verifier(CONFIG)
        opened.__enter__()
    try:
        yield opened
    finally:
        opened.__exit__()
