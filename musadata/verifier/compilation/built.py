"""The result of a backend's `compile`: a library, or the reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.sources import CandidateSources


@dataclass(frozen=True)
class Built:
    """The path of a library, or an error. `unsupported`: the backend cannot compile it, whoever wrote it."""

    path: str = ""
    error: str = ""
    unsupported: bool = False


Compile = Callable[[CandidateSources], Built]


def report_errors(compile_sources: Callable[[CandidateSources], Path]) -> Compile:
    """`compile_sources` with `CompileError` and `Unsupported` returned instead of raised."""

    def compile_reported(sources: CandidateSources) -> Built:
        try:
            return Built(path=str(compile_sources(sources)))
        except Unsupported as error:
            return Built(error=str(error), unsupported=True)
        except CompileError as error:
            return Built(error=str(error))

    return compile_reported
