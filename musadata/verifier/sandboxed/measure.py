"""Inside the sandbox: timing a forward, one turn of several calls at a time, on command of the trusted side.

Events enclose each call. Before it the inputs are overwritten with other values than the last time and the L2 cache is
flushed, so that cached data and results do not help. The device starts a little later than the host (the lead), so that
it does not wait for the host: a host that is busy compiling does not make a reference look slow. The trusted side
checks the times that a candidate's process reports against the wall clock (`timing`).
"""

import importlib
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.message_encoding import ask_for
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.protocol.tensors import pack, unpack_torch
from musadata.verifier.sandboxed.device_inputs import FEW_ROUNDS
from musadata.verifier.sandboxed.device_models import (
    KEPT_SHARE,
    describe_failure,
    free_memory,
    lacks_room,
    load_kernels,
)
from musadata.verifier.sandboxed.device_oracle import DeviceOracle
from musadata.verifier.sandboxed.model_state import tensors_of
from musadata.verifier.sandboxed.plain_values import decode

_DRIVER_FOLDERS = (Path("/usr/local/nvidia/lib64"), Path("/usr/local/nvidia/lib"))  # beside the linker's own
_CYCLES_PER_MS = 2_000_000  # about, for a device that sleeps
_LEAD_MS = 0.3  # where the host is not known to need longer
_LONGEST_LEAD_MS = 0.5  # of a candidate: too short to be taken for hidden work
_LONGEST_LEAD_OF_REFERENCE_MS = 5.0
_FLUSH_MS = 0.05  # the lead that flushing the cache gives on any device
_CALLS_TO_LEARN = 8  # the time that the host needs


class Stopwatch:
    """Measures milliseconds of the device's work, or of the host's if `device` is "cpu".

    Attributes:
        host_ms: the time that the host needed to queue the last call.
    """

    def __init__(self, device: str, flush_bytes: int):
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device=device) if flush_bytes else None
        module = None if device == "cpu" else getattr(torch, device)
        self._event = getattr(module, "Event", None)
        self._synchronize = getattr(module, "synchronize", lambda: None)
        self._sleep = getattr(torch._C, "_cuda_sleep", lambda cycles: None)
        self.host_ms = 0.0

    def time(self, forward: Callable[[], Any], lead_ms: float = 0.0) -> tuple[float, Any]:
        """Milliseconds and result of one call of `forward` with a cold cache. The device starts `lead_ms` after the
        host."""
        if self._flush is not None:
            self._flush.zero_()
        if self._event is None:
            return _time_on_host(forward)
        if lead_ms:
            self._sleep(int(lead_ms * _CYCLES_PER_MS))
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        start.record()
        began = time.perf_counter()
        result = forward()
        self.host_ms = (time.perf_counter() - began) * 1e3
        end.record()
        self._synchronize()
        return float(start.elapsed_time(end)), result


def _time_on_host(forward: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = forward()
    return (time.perf_counter() - start) * 1e3, result


Fill = Callable[[int], None]  # overwrites a model's inputs for the call of this number


def hold_sets(
    sets: Sequence[dict[str, torch.Tensor]], literals: Sequence[messages.Literal | None]
) -> tuple[list[Any], Fill]:
    """Arguments that hold several input sets in turn, all in the same memory, and what changes them."""
    held = {name: torch.empty_like(value) for name, value in sets[0].items()}
    arguments = [
        held[str(number)] if literal is None else decode(literal.value) for number, literal in enumerate(literals)
    ]

    def fill(call: int) -> None:
        for name, value in sets[call % len(sets)].items():
            held[name].copy_(value)

    return arguments, fill


class Turns:
    """A model that is called with other inputs each time, in the same memory.

    Attributes:
        arguments: what it is called with; `fill` overwrites the tensors among them.
        led_ms: the sum of the leads of all calls of the last `measure`.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        arguments: list[Any],
        fill: Fill,
        longest_lead_ms: float = _LONGEST_LEAD_MS,
    ):
        self.led_ms = 0.0
        self.arguments = arguments
        self._longest_lead_ms = longest_lead_ms
        self._model = model
        self._fill = fill
        self._call = 0
        self._host_ms = float("inf")  # the least that queueing a call has taken

    def forward(self) -> Any:
        """One call with the arguments as they are."""
        return self._model(*self.arguments)

    def measure(self, watch: Stopwatch, count: int) -> list[float]:
        """Milliseconds of `count` calls; see `Stopwatch.time`."""
        times = []
        self.led_ms = 0.0
        for _ in range(count):
            self._call += 1
            self._fill(self._call)
            self.led_ms += self._lead_ms
            times.append(watch.time(self.forward, self._lead_ms)[0])
            if self._call <= _CALLS_TO_LEARN:
                self._host_ms = min(self._host_ms, watch.host_ms)
        return times

    @property
    def _lead_ms(self) -> float:
        """Twice the time that the host needs, as it may be busy; 0 until that is known, as a call that waits for the
        device would also wait for the lead."""
        if self._call <= _CALLS_TO_LEARN:
            return 0.0
        return min(max(2 * self._host_ms - _FLUSH_MS, 0.0), self._longest_lead_ms)

    def call(self, watch: Stopwatch, index: int) -> Any:
        """The result of one more call like the timed ones."""
        self._fill(index)
        return watch.time(self.forward)[1]

    def check(self, watch: Stopwatch, index: int) -> tuple[messages.Json, bytes]:
        """Structure and packed values of the result of one more call like the timed ones."""
        structure, leaves = flatten(self.call(watch, index))
        return structure, pack({str(number): leaf.detach().cpu() for number, leaf in enumerate(leaves)})

    def device_time(self, watch: Stopwatch, count: int) -> float:
        """Median milliseconds of device time of one call."""
        self._fill(0)
        return statistics.median(watch.time(self.forward, _LEAD_MS)[0] for _ in range(count))


def time_candidate(turns: Turns, watch: Stopwatch, set_null_kernels: Callable[[bool], None]) -> None:
    """Carry out the trusted side's commands until it sends `Stop`."""

    def carry_out(command: object) -> object:
        if isinstance(command, messages.MeasureTurn):
            return messages.TurnTimes(tuple(turns.measure(watch, command.count)))
        if isinstance(command, messages.CheckOutput):
            return messages.CheckedOutput(*turns.check(watch, command.position))
        assert isinstance(command, messages.MeasureShare)
        return measure_share(turns, watch, set_null_kernels, command.count)

    serve_commands(messages.TimingReady(), carry_out, messages.MeasureTurn, messages.CheckOutput, messages.MeasureShare)


def serve_commands(message: object, carry_out: Callable[[object], object], *kinds: type) -> None:
    """Send a message, carry out the command that answers it, send its result, and so on until the answer is `Stop`."""
    with torch.no_grad():
        while not isinstance(command := ask_for(message, messages.Stop, *kinds), messages.Stop):
            try:
                message = carry_out(command)
            except Exception as error:
                message = messages.Failure(describe_failure(error))


def measure_share(
    turns: Turns, watch: Stopwatch, set_null_kernels: Callable[[bool], None], count: int
) -> messages.DeviceTimes:
    """Device time of a call with null kernels, and of an empty call."""
    empty = statistics.median(watch.time(lambda: None, _LEAD_MS)[0] for _ in range(count))
    set_null_kernels(True)
    try:
        rest = turns.device_time(watch, count)
    finally:
        set_null_kernels(False)
    return messages.DeviceTimes(rest, empty)


def serve_reference(device: str) -> None:
    """The baseline's process: prepare and time references on command, until the trusted side sends `Stop`."""
    _make_caches_writable()
    if device != "cpu":
        importlib.import_module("musadata.verifier.backends.cuda.cuda_hook").look_for_device()
    baseline = _Baseline(device)
    serve_commands(
        _describe_device(device),
        baseline.carry_out,
        messages.PrepareReference,
        messages.MeasureTurn,
        messages.MeasureTraffic,
        *measures.ORACLE_COMMANDS,
    )


class _Baseline:
    """The reference that is being timed, if any."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._watch: Stopwatch | None = None
        self._prepared: tuple[Any, Turns] | None = None
        self._oracle: DeviceOracle | None = None  # of a reference at its measure size

    def carry_out(self, command: object) -> object:
        match command:
            case messages.PrepareReference():
                self._forget(command.flush_bytes)
                self._prepared = _prepare_reference(command, self._device)
                return messages.Prepared()
            case measures.PrepareMeasure():
                self._forget(command.flush_bytes)
                return self._prepare_measure(command)
            case measures.Release():
                return self._release(command)
        if self._prepared is None or self._watch is None:
            raise RuntimeError("no reference is prepared")
        model, turns = self._prepared
        match command:
            case messages.MeasureTurn():
                times = turns.measure(self._watch, command.count)
                return messages.TurnTimes(tuple(times), turns.led_ms)
            case messages.MeasureTraffic():
                return messages.Traffic(_least_traffic(model, turns))
        if self._oracle is None:
            raise RuntimeError("no reference is prepared at its measure size")
        return self._oracle.carry_out(command)

    def _prepare_measure(self, command: measures.PrepareMeasure) -> measures.MeasureReady:
        failure: Exception | None = None
        try:
            self._oracle = DeviceOracle(command, self._device)
            self._prepared = _time_at_measure_size(self._oracle, command, self._device)
            return self._oracle.describe()
        except Exception as error:
            failure = error.with_traceback(None)  # its frames hold what may be most of the device's memory
        self._oracle = None
        free_memory(self._device)
        raise failure

    def _forget(self, flush_bytes: int) -> None:
        """Free the memory of the reference before."""
        self._prepared = self._oracle = None
        self._watch = self._watch or Stopwatch(self._device, flush_bytes)
        free_memory(self._device, KEPT_SHARE)

    def _release(self, command: measures.Release) -> measures.Released:
        if self._oracle is not None:
            self._oracle.release()
        if not command.keep or lacks_room(self._device):
            self._prepared = self._oracle = None
        free_memory(self._device, KEPT_SHARE)
        return measures.Released(self._prepared is not None)


def _time_at_measure_size(oracle: DeviceOracle, request: measures.PrepareMeasure, device: str) -> tuple[Any, Turns]:
    forward = torch.compile(oracle.model) if request.compiled else oracle.model

    def fill(call: int) -> None:
        oracle.redraw(request.seed + call, rounds=FEW_ROUNDS)

    turns = Turns(forward, oracle.arguments, fill, _LONGEST_LEAD_OF_REFERENCE_MS)
    turns.measure(Stopwatch(device, 0), 1)  # compiles, and loads libraries on first use
    return oracle.model, turns


def _make_caches_writable() -> None:
    """Give torch.compile and Triton writable cache folders, and no pool of worker processes."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(Path.cwd() / name.lower())
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    drivers = [folder for folder in _DRIVER_FOLDERS if (folder / "libcuda.so.1").exists()]
    if drivers:
        os.environ.setdefault("TRITON_LIBCUDA_PATH", str(drivers[0]))


def _describe_device(device: str) -> messages.BaselineReady:
    if device == "cpu":
        return messages.BaselineReady()
    _load_libraries(device)
    properties: Any = torch.cuda.get_device_properties(0)
    clock_khz, bits = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    return messages.BaselineReady(2.0 * clock_khz * bits / 8)


def _load_libraries(device: str) -> None:
    """Make the context, and have PyTorch load what most references need on first use, before anybody waits for it."""
    load_kernels(device)
    with torch.no_grad():
        image = torch.zeros(1, 1, 8, 8, device=device)
        torch.nn.functional.conv2d(image, torch.zeros(1, 1, 3, 3, device=device))
        torch.mm(image[0, 0], image[0, 0])
    free_memory(device)


def _prepare_reference(request: messages.PrepareReference, device: str) -> tuple[Any, Turns]:
    from musadata.tasks.reference_loading import load_reference

    torch.manual_seed(request.seed)
    model: Any = load_reference(request.reference).Model(*decode(request.init)).to(device)
    own = tensors_of(model)
    for name, value in unpack_torch(request.state).items():
        own[name].copy_(value)
    packed = [request.inputs[str(position)] for position in range(len(request.inputs))]
    sets = [{name: value.to(device) for name, value in unpack_torch(data).items()} for data in packed]
    forward = torch.compile(model) if request.compiled else model
    turns = Turns(forward, *hold_sets(sets, request.literals), _LONGEST_LEAD_OF_REFERENCE_MS)
    turns.measure(Stopwatch(device, 0), len(sets))  # compiles, and loads libraries on first use
    return model, turns


def _least_traffic(model: Any, turns: Turns) -> int:
    """Bytes of those elements of inputs and parameters on which the result depends: they must be read.

    Counts non-zero elements of a gradient, which is zero for elements that do not matter (rows that are never looked
    up). Tensors without a gradient are not counted, so the figure is never too high.
    """
    tensors = [value for value in turns.arguments if isinstance(value, torch.Tensor)]
    watched = [t for t in [*tensors, *model.parameters()] if t.dtype.is_floating_point]
    states = [(t, t.requires_grad) for t in watched]
    try:
        with torch.enable_grad():
            for tensor in watched:
                tensor.requires_grad_(True)
            leaves = [leaf for leaf in flatten(model(*turns.arguments))[1] if leaf.requires_grad]
            weights = [torch.rand_like(leaf) + 0.5 for leaf in leaves]
            found = torch.autograd.grad(leaves, watched, weights, allow_unused=True) if leaves else ()
        return sum(
            int(torch.count_nonzero(gradient)) * gradient.element_size() for gradient in found if gradient is not None
        )
    finally:
        for tensor, state in states:
            tensor.requires_grad_(state)
