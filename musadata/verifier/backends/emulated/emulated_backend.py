"""The emulated backend: CUDA C++ really executed, on the CPU. It proves function, never speed."""

import platform

from musadata.config import VerifierConfig
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import report_errors

_CHILD = "musadata.verifier.backends.emulated.emulated_hook"


def open_emulated(config: VerifierConfig) -> Backend:
    """The backend as the verifier sees it.

    Raises:
        MusadataError: there is no C++ compiler, or no folder to keep what it makes.
    """
    from musadata.verifier.backends.emulated.artifacts import compile_sources
    from musadata.verifier.compilation.build_cache import cache_folder
    from musadata.verifier.compilation.contained_run import CompileLimits
    from musadata.verifier.compilation.host_toolchain import find_toolchain

    toolchain = find_toolchain()
    limits = CompileLimits.of_seconds(config.compile_seconds)
    folder = cache_folder().resolve()
    return Backend(
        name="emulated",
        checks="full" if config.sanitize else "brief",
        device=f"emulated sm_90 on {platform.machine()}",
        driver="",
        toolchain=f"{toolchain.version}; torch {toolchain.torch_version}",
        child=_CHILD,
        setup=f"{_CHILD}:prepare",
        compile=report_errors(lambda sources: compile_sources(sources, lines=config.sanitize, limits=limits)),
        readable=(str(folder),),
        environment=(("MUSADATA_CACHE", str(folder)),),
    )
