"""The emulated backend: CUDA C++ really executed, on the CPU. It proves function, never speed."""

import platform
from collections.abc import Callable
from typing import Any

from musadata.config import VerifierConfig
from musadata.verifier.backends.protocol import Backend, Built

_CHILD = "musadata.verifier.backends.emulated.emulated_hook"


def open_emulated(config: VerifierConfig) -> Backend:
    """The backend as the verifier sees it.

    Raises:
        MusadataError: there is no C++ compiler, or no folder to keep what it makes.
    """
    from musadata.verifier.backends.torch_abi.host_toolchain import cache_folder, find_toolchain

    toolchain = find_toolchain()
    folder = cache_folder().resolve()
    return Backend(
        name="emulated",
        checks="full" if config.sanitize else "brief",
        device=f"emulated sm_90 on {platform.machine()}",
        driver="",
        toolchain=f"{toolchain.version}; torch {toolchain.torch_version}",
        child=_CHILD,
        setup=f"{_CHILD}:prepare",
        compile=_compiler(config),
        readable=(str(folder),),
        environment=(("MUSADATA_CACHE", str(folder)),),
    )


def _compiler(config: VerifierConfig) -> Callable[[dict[str, Any]], Built]:
    from musadata.verifier.backends.emulated import artifacts
    from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
    from musadata.verifier.compilation.sources import CandidateSources

    limits = artifacts.CompileLimits(seconds=max(1, round(config.compile_seconds)))

    def compile_sources(sources: dict[str, Any]) -> Built:
        try:
            parsed = CandidateSources.from_dict(sources)
            artifact = artifacts.compile_sources(parsed, lines=config.sanitize, limits=limits)
        except Unsupported as error:
            return Built(error=str(error), unsupported=True)
        except CompileError as error:
            return Built(error=str(error))
        except (KeyError, TypeError, ValueError):
            return Built(error="The sources cannot be read.")
        return Built(path=str(artifact.path))

    return compile_sources
