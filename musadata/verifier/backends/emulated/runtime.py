"""The emulator's shared libraries, as Python sees them."""

import ctypes
from collections.abc import Mapping

from musadata.verifier.backends.device_records import Fault, Records, read_launches, read_rows
from musadata.verifier.backends.emulated.emulated_toolchain import Libraries
from musadata.verifier.backends.emulated.lines import find_line
from musadata.verifier.backends.emulated.streams import Order

_ORDERS = ("forward", "reverse", "random")
CHECKS = ("off", "brief", "full")
_ERRORS = {
    700: "an illegal memory access was encountered",
    716: "misaligned address",
    719: "unspecified launch failure",
}


class Runtime:
    """Loads the libraries into this process, with the device, and speaks to them."""

    def __init__(self, libraries: Libraries):
        self._runtime = ctypes.CDLL(str(libraries.runtime), mode=ctypes.RTLD_GLOBAL)
        self._device = ctypes.CDLL(str(libraries.device), mode=ctypes.RTLD_GLOBAL)
        # Found by name by sanitised artifacts; local, because nobody else may take it for the real sanitiser.
        self._checker = ctypes.CDLL(str(libraries.checker), mode=ctypes.RTLD_LOCAL)
        for name in (
            "musadata_take_launches",
            "musadata_take_faults",
            "musadata_take_reports",
            "musadata_changed_memory",
        ):
            getattr(self._runtime, name).restype = ctypes.c_char_p
        self._device.musadata_take_operators.restype = ctypes.c_char_p
        for name in ("musadata_device_peak", "musadata_device_live", "musadata_take_host_bytes"):
            getattr(self._runtime, name).restype = ctypes.c_size_t
        self._runtime.musadata_configure.argtypes = [ctypes.c_int, ctypes.c_uint64, *[ctypes.c_int] * 4]
        self._device.musadata_device_install()
        self._libraries = libraries
        self._counter: ctypes.CDLL | None = None
        self.order = Order(self._runtime)
        # One call of a forward, whose inputs are queued on PyTorch's current stream. Its end reports work that this
        # stream does not wait for.
        self.begin_call, self.end_call = self.order.begin_call, self.order.end_call

    def configure(
        self,
        *,
        order: str = "forward",
        seed: int = 0,
        poison: int = 0xFF,
        null_kernels: bool = False,
        check: str = "off",
        settled: bool = False,
        sampled: bool = False,
    ) -> None:
        """How kernels run from now on; also forgets sticky errors.

        Args:
            order: in which order the threads of a block, and the blocks, run: forward, reverse or random.
            seed: of the random order.
            poison: byte that fresh memory is filled with; -1 leaves it as the system gives it.
            null_kernels: kernels do nothing, but are checked and recorded.
            check: brief looks at the first accesses of each launch, and reports races that change a value and accesses
                out of bounds; full looks at all accesses, and reports everything that looks like a mistake.
            sampled: only the first, the middle and the last block along each axis of a grid run.
            settled: the program has been called like this before: report static variables that its host code changes.
        """
        kernels, seed = 2 if sampled else int(null_kernels), seed & (1 << 64) - 1
        self._runtime.musadata_configure(_ORDERS.index(order), seed, poison, kernels, CHECKS.index(check), int(settled))
        self.reset_errors()

    def load_counter(self) -> None:
        """Have accesses counted instead of checked in this process, by all candidates that it loads from now on."""
        self._counter = ctypes.CDLL(str(self._libraries.counter), mode=ctypes.RTLD_GLOBAL)
        self._counter.musadata_take_counts.restype = ctypes.c_char_p
        self._counter.musadata_count.argtypes = [ctypes.c_uint64, ctypes.c_char_p]

    def count_accesses(self, most: int, windows: Mapping[str, int]) -> None:
        """Count what kernels do from now on, as far as `most` accesses of threads. `windows`: by a kernel's name, the
        bytes of its widest vector type, whose components are one access."""
        assert self._counter is not None
        lines = "".join(f"{kernel}\t{size}\n" for kernel, size in windows.items())
        self._counter.musadata_count(most, lines.encode())

    def take_counts(self) -> str:
        """What was counted, a launch after the other; see `protocol.access_counts`."""
        assert self._counter is not None
        counts: bytes = self._counter.musadata_take_counts()
        return counts.decode("utf-8", "replace")

    def set_fault_descriptor(self, descriptor: int) -> None:
        self._runtime.musadata_set_fault_descriptor(descriptor)

    def reset_errors(self) -> None:
        self._runtime.musadata_reset_errors()

    def sticky_error(self) -> str:
        """A fault of an earlier kernel as `synchronize` reports it, or ""."""
        text = _ERRORS.get(self._runtime.musadata_last_error(0), "")
        return f"CUDA error: {text}" if text else ""

    def peak_bytes(self) -> int:
        return int(self._runtime.musadata_device_peak())

    def live_bytes(self) -> int:
        return int(self._runtime.musadata_device_live())

    def snapshot_memory(self) -> None:
        """Remember what the device and the candidates' variables hold; see `changed_memory`."""
        self._runtime.musadata_snapshot_memory()

    def changed_memory(self) -> tuple[str, str]:
        """(the first thing that has changed, its bytes before and now); nothing if nothing has."""
        rows = read_rows(self._runtime.musadata_changed_memory())
        return (rows[0][0], f"{rows[0][1]} becomes {rows[0][2]}") if rows else ("", "")

    def reset_peak(self) -> None:
        self._runtime.musadata_device_reset_peak()

    def take_records(self) -> Records:
        """What happened since the last call; starts afresh."""
        runtime = self._runtime
        launches = read_launches(runtime.musadata_take_launches())
        operators = {name: int(calls) for name, calls in read_rows(self._device.musadata_take_operators())}
        faults = [_fault(row) for row in read_rows(runtime.musadata_take_faults())]
        reports = [_fault(row) for row in read_rows(runtime.musadata_take_reports())]
        host_bytes = int(runtime.musadata_take_host_bytes())
        records = Records(launches, operators, faults, reports, host_bytes, peak_bytes=self.peak_bytes())
        self.reset_peak()
        return records


def _fault(row: list[str]) -> Fault:
    kind, kernel, where, message, library, offset, source, line = row
    found = find_line(library, int(offset)) if library else (source, int(line))
    return Fault(kind, kernel, where, message, *found)
