"""Choosing the backend that a config asks for."""

from musadata.config import DEVICE_BACKENDS, BackendType, VerifierConfig
from musadata.verifier.backends.cuda.cuda_backend import find_device, open_cuda
from musadata.verifier.backends.emulated.emulated_backend import open_emulated
from musadata.verifier.backends.musa.musa_backend import open_musa
from musadata.verifier.backends.protocol import Backend

_EMULATED = "musadata.verifier.backends.emulated.emulated_backend"
_CUDA = "musadata.verifier.backends.cuda.cuda_backend"
# Kind -> the modules of the backends that may be opened: verdicts depend on them, on those of others they do not.
BACKENDS = {
    BackendType.AUTO: (_CUDA, _EMULATED),
    BackendType.CUDA: (_CUDA,),
    BackendType.EMULATED: (_EMULATED,),
    BackendType.MUSA: ("musadata.verifier.backends.musa.musa_backend",),
}


def open_backend(config: VerifierConfig) -> Backend:
    """The backend that the config asks for; `auto` takes a CUDA device if there is one.

    Raises:
        MusadataError: it is not there.
    """
    kind = config.backend
    if kind is BackendType.MUSA:
        return open_musa(config)
    if kind is BackendType.CUDA or (kind is BackendType.AUTO and find_device() is not None):
        return open_cuda(config)
    return open_emulated(config)


def check_backend(config: VerifierConfig) -> None:
    """Find now whether the device that the config asks for is there.

    Raises:
        MusadataError: it is not.
    """
    if config.backend in DEVICE_BACKENDS:
        open_backend(config)
