"""Where kernels run: what the verifier needs to know of each backend."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError


@dataclass(frozen=True)
class Built:
    """What compiling gave: a path, or the reason why there is none. `unsupported`: the backend's fault."""

    path: str = ""
    error: str = ""
    unsupported: bool = False


@dataclass(frozen=True)
class Backend:
    """One place where kernels run.

    `child` is a module with `activate`, `configure` and `take_records`, for use inside the sandbox only; `setup` names
    the function that the warm process runs once; `compile` runs in the trusted process and never sees Python.
    """

    name: str
    device: str
    driver: str
    toolchain: str
    child: str
    setup: str | None
    compile: Callable[[dict[str, Any]], Built]
    readable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    times: bool = False  # whether what it measures means anything
    preload: tuple[str, ...] = field(default=("torch", "musadata.verifier.execute"))


def open_backend(config: VerifierConfig) -> Backend:
    """The backend that the config asks for; `auto` takes a CUDA device if there is one.

    Raises:
        MusadataError: it is not there.
    """
    from musadata.verifier import emulated
    from musadata.verifier.cuda.backend import find_device, open_cuda

    kind = config.backend
    if kind is BackendType.CUDA or (kind is BackendType.AUTO and find_device() is not None):
        return open_cuda(config)
    if kind in (BackendType.AUTO, BackendType.EMULATED):
        return emulated.open_emulated(config)
    raise MusadataError(
        f"the backend {kind.value} cannot be used here yet", where="verifier.backend", remedy="use emulated or auto"
    )
