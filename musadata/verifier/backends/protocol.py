"""A backend, which is a place where kernels run, as the verifier sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from musadata.verifier.compilation.built import Built, Compile

__all__ = ["Backend", "Built"]


@dataclass(frozen=True)
class Backend:
    """One place where kernels run.

    `child` names a module for use in the sandbox only, with `DEVICE` (PyTorch's name for it), `HAS_DRIVER` (whether a
    process has to make a context there), `activate`, `configure`, `guard_memory`, `poison_memory`, `snapshot_memory`,
    `changed_memory`, `begin_call`, `end_call` and `take_records`.
    `setup` names the function that the warm process runs once. `compile` runs in the trusted process and never sees
    Python. `port` rewrites a candidate's Python for the device.
    """

    name: str
    device: str
    driver: str
    toolchain: str
    child: str
    setup: str | None
    compile: Compile
    readable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    times: bool = False  # whether the times that it measures mean anything
    port: Callable[[str], str] = str
    clock: str = "cuda"  # the reference's device when it is timed
    identity: str = ""  # of the device, for the lock on it
    flush_bytes: int = 256 << 20  # written before each timed call: several times the L2 cache of any device so far
    checks: str = ""  # how closely its kernels' accesses are checked: nothing, brief, full; see `plan_calls`
    crosscheck: bool = False  # whether the emulator sees mistakes of kernels that go unnoticed there
    memory_mb: int = 0  # of the device; 0 where nothing is measured that is large
    seats: int = 0  # how many candidates' contexts fit in its memory at a time; 0: any number
    free_share: Callable[[], float] = lambda: 1.0  # of its memory: where a candidate finds none others may hold it
    is_lost: Callable[[], bool] = lambda: False  # asked when a candidate fails: whether the device stopped working
    preload: tuple[str, ...] = field(default=("torch", "musadata.verifier.sandboxed.execute"))
