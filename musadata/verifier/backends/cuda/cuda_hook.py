"""Inside the sandbox, on a real device: the replaced `load_inline`, and what a candidate launched and copied."""

import faulthandler
import os
from functools import partial
from typing import TYPE_CHECKING

from musadata.verifier.backends.device_records import Fault, Records
from musadata.verifier.backends.loaders import RequestLibrary
from musadata.verifier.backends.native import native_hook

if TYPE_CHECKING:
    from musadata.verifier.backends.cuda.out_of_bounds import OutOfBoundsWatch

DEVICE = "cuda"
HAS_DRIVER = True
_POISON = 0xFF  # NaN as a number, -1 as an integer
configure = partial(native_hook.configure, DEVICE)
end_call = native_hook.end_call
snapshot_memory, changed_memory = native_hook.snapshot_memory, native_hook.changed_memory


class _State:
    """What is known of this process's memory."""

    def __init__(self) -> None:
        self.pinned: tuple[int, int] | None = None  # see `_count_pinned`: when the call began
        self.watch: OutOfBoundsWatch | None = None  # once there is a context


_state = _State()


def prepare() -> None:
    """Import everything and load the bridge, but do not touch CUDA: a fork would not survive it."""
    import torch.utils.cpp_extension  # noqa: F401

    from musadata.verifier.backends.torch_abi.bridge import load_bridge
    from musadata.verifier.sandboxed.device_inputs import compile_ahead

    load_bridge()
    compile_ahead(os.environ.get("MUSADATA_ARCHITECTURE", ""))


def activate(compile: RequestLibrary, fault_fd: int = -1) -> None:
    """Make `load_inline` and `load` ask `compile` for the library."""
    import torch

    look_for_device()
    if fault_fd >= 0:
        faulthandler.enable(fault_fd)  # a crash in native code says which line of the candidate led there
    torch.backends.cudnn.allow_tf32 = (
        False  # as for the reference that it is compared with, see `device_oracle.exactly`
    )
    native_hook.activate(compile)


def look_for_device() -> None:
    """Ask the driver itself whether there is a device: NVML, asked before a fork, may know nothing in a cell."""
    import torch

    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    torch.cuda._device_count_nvml = lambda: -1
    torch.cuda.init()


def guard_memory(poison: int) -> None:
    """Have writes outside of all allocations reported by the next `take_records`."""
    from musadata.verifier.backends.cuda.out_of_bounds import OutOfBoundsWatch

    _state.watch = _state.watch or OutOfBoundsWatch()
    _state.watch.begin(poison)


def poison_memory() -> None:
    """Overwrite what earlier calls have left in memory that the next call may be given."""
    from musadata.verifier.backends.cuda.out_of_bounds import fill_free

    fill_free(_POISON)


def take_records() -> Records:
    """What happened since the last call."""
    messages = _state.watch.end() if _state.watch else []
    reports = [Fault("out_of_bounds", message=message) for message in messages]
    return native_hook.take_records(reports, _take_pinned_bytes())


def begin_call() -> None:
    """Forget what the verifier itself has read from the device: PyTorch does that through pinned memory too."""
    _state.pinned = _count_pinned()


def _take_pinned_bytes() -> int:
    """Bytes of memory that kernels and the host share which PyTorch has handed out since `begin_call`, or which it held
    then. Not their sum: a call may free what it got from an earlier one."""
    if _state.pinned is None:
        return 0
    (handed_out, _), (before, held) = _count_pinned(), _state.pinned
    _state.pinned = None
    return max(handed_out - before, held)


def _count_pinned() -> tuple[int, int]:
    """Bytes of pinned memory that PyTorch has ever handed out, and that it holds, free or not.

    What is in use is not known: in torch 2.11 `active_bytes.current` never falls.
    """
    import torch

    stats = torch.cuda.host_memory_stats()
    return stats.get("active_bytes.allocated", 0), stats.get("allocated_bytes.current", 0)
