"""The musa backend as the verifier sees it."""

from pathlib import Path

from musadata.config import VerifierConfig
from musadata.verifier.backends.musa.python_port import port_python
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.built import report_errors

_DEVICE = "musadata.verifier.backends.musa.musa_hook"
_DEVICE_FILES = ("mtgpu*", "dri/*", "musa*")  # the driver's own, and DRM's


def open_musa(config: VerifierConfig) -> Backend:
    """The backend on this machine's first device; it judges and does not time.

    Raises:
        MusadataError: no toolkit, no torch_musa, or no device.
    """
    from musadata.verifier.backends.musa.mcc import compile_ported, find_musa
    from musadata.verifier.backends.musa.port import port_sources
    from musadata.verifier.compilation.build_cache import cache_folder
    from musadata.verifier.compilation.contained_run import CompileLimits
    from musadata.verifier.compilation.host_toolchain import find_toolchain

    musa, toolchain = find_musa(), find_toolchain()
    limits = CompileLimits.of_seconds(config.compile_seconds, memory_mb=16384)
    cache = cache_folder().resolve()
    shown = [str(cache), str(Path(musa.compiler).resolve().parents[1]), "/sys", str(toolchain.torch_root.parents[1])]
    files = sorted({path for form in _DEVICE_FILES for path in Path("/dev").glob(form)})
    return Backend(
        name="musa",
        device=musa.device,
        driver="",
        toolchain=f"{musa.version}; {musa.architecture}; {toolchain.version}; torch {toolchain.torch_version}",
        child=_DEVICE,
        setup=f"{_DEVICE}:prepare",
        compile=report_errors(lambda sources: compile_ported(port_sources(sources), find_musa(), limits)),
        readable=tuple(shown),
        devices=tuple(str(path) for path in files if path.is_char_device()),
        environment=(("MUSADATA_CACHE", str(cache)),),
        port=port_python,
        crosscheck=True,
    )
