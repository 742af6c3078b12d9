"""Where kernels run: what the verifier needs to know of each backend."""

from collections.abc import Callable
from dataclasses import dataclass, field

from musadata.verifier.compilation.built import Built, Compile

__all__ = ["Backend", "Built"]


@dataclass(frozen=True)
class Backend:
    """One place where kernels run.

    `child` is a module with `DEVICE` (PyTorch's name for it), `activate`, `configure` and `take_records`, for use in
    the sandbox only; `setup` names the function that the warm process runs once; `compile` runs in the trusted process
    and never sees Python; `port` rewrites a candidate's Python for the device.
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
    times: bool = False  # whether what it measures means anything
    port: Callable[[str], str] = str
    clock: str = "cuda"  # the reference's device when it is timed
    identity: str = ""  # of the device, for the lock on it
    flush_bytes: int = 256 << 20  # written before each timed call: several times the L2 cache of any device so far
    checks: str = ""  # how closely its kernels' accesses are checked: nothing, brief, full; see `plan_calls`
    crosscheck: bool = False  # whether kernels get away with mistakes there that the emulator sees
    seats: int = 0  # how many candidates' contexts its memory has room for at a time; 0: as many as ask
    is_full: Callable[[], bool] = lambda: False  # asked when a candidate finds no memory: whether others hold it
    is_lost: Callable[[], bool] = lambda: False  # asked when a candidate fails: whether the device has stopped to work
    preload: tuple[str, ...] = field(default=("torch", "musadata.verifier.sandboxed.execute"))
