"""Inside the sandbox: how long a forward takes, a turn at a time, as the trusted side asks.

Events around each call; before it its inputs are written anew, with other values than the last time, and the L2 cache
is flushed, so nothing that was kept helps. What the candidate's own process says of its times is not believed as it is:
the trusted side holds it against the clock on the wall (`musadata.verifier.timing`).
"""

import importlib
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from musadata.sandbox import ask
from musadata.sandbox.child import describe_error
from musadata.verifier.model_state import tensors_of
from musadata.verifier.plain_values import decode
from musadata.verifier.structure import flatten
from musadata.verifier.tensors import pack, unpack_torch

_DRIVER_FOLDERS = (Path("/usr/local/nvidia/lib64"), Path("/usr/local/nvidia/lib"))  # beside the linker's own
_AHEAD_CYCLES = 600_000  # about 0.3 ms: the host queues a whole forward meanwhile, and no gap between kernels is left


class Stopwatch:
    """Milliseconds between two points of the device's work, or of the host's where `device` is "cpu"."""

    def __init__(self, device: str, flush_bytes: int):
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device=device) if flush_bytes else None
        module = None if device == "cpu" else getattr(torch, device)
        self._event = getattr(module, "Event", None)
        self._synchronize = getattr(module, "synchronize", lambda: None)
        self._sleep = getattr(torch._C, "_cuda_sleep", lambda cycles: None)

    def time(self, forward: Callable[[], Any], ahead: bool = False) -> tuple[float, Any]:
        """One call of `forward` with a cold cache: milliseconds, and its result. `ahead`: without the host's share."""
        if self._flush is not None:
            self._flush.zero_()
        if self._event is None:
            return _time_on_host(forward)
        if ahead:
            self._sleep(_AHEAD_CYCLES)
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        start.record()
        result = forward()
        end.record()
        self._synchronize()
        return float(start.elapsed_time(end)), result


def _time_on_host(forward: Callable[[], Any]) -> tuple[float, Any]:
    import time

    start = time.perf_counter()
    result = forward()
    return (time.perf_counter() - start) * 1e3, result


class Turns:
    """A model and the input sets that its calls go through in turn, in the same memory for all of them."""

    def __init__(self, model: Callable[..., Any], sets: Sequence[dict[str, torch.Tensor]], literals: Sequence[Any]):
        self._model = model
        self._sets = sets
        self._held = {name: torch.empty_like(value) for name, value in sets[0].items()}
        self._arguments = [
            self._held[str(number)] if literal is None else decode(literal["value"])
            for number, literal in enumerate(literals)
        ]
        self._call = 0

    def _forward(self) -> Any:
        return self._model(*self._arguments)

    def _fill(self, index: int) -> None:
        for name, value in self._sets[index].items():
            self._held[name].copy_(value)

    def measure(self, watch: Stopwatch, count: int, ahead: bool = False) -> list[float]:
        """Milliseconds of `count` calls; see `Stopwatch.time`."""
        times = []
        for _ in range(count):
            self._call += 1
            self._fill(self._call % len(self._sets))
            times.append(watch.time(self._forward, ahead)[0])
        return times

    def check(self, watch: Stopwatch, index: int) -> tuple[object, bytes]:
        """One more call like the timed ones: structure and packed values of its result."""
        self._fill(index)
        structure, leaves = flatten(watch.time(self._forward)[1])
        return structure, pack({str(number): leaf.detach().cpu() for number, leaf in enumerate(leaves)})

    def device_time(self, watch: Stopwatch, count: int) -> float:
        """Median milliseconds that the device is busy with one call."""
        self._fill(0)
        return statistics.median(watch.time(self._forward, ahead=True)[0] for _ in range(count))


def time_candidate(turns: Turns, watch: Stopwatch, set_ghost: Callable[[bool], None]) -> None:
    """Carry out what the trusted side asks until it says stop."""
    answer: dict[str, Any] = {"go": True}
    blobs: dict[str, bytes] = {}
    with torch.no_grad():
        while True:
            request = ask(answer, blobs)
            blobs = {}
            try:
                if "measure" in request:
                    answer = {"times": turns.measure(watch, request["measure"])}
                elif "check" in request:
                    structure, blobs["output"] = turns.check(watch, request["check"])
                    answer = {"structure": structure}
                elif "share" in request:
                    answer = _own_share(turns, watch, set_ghost, request["share"])
                else:
                    return
            except Exception as error:
                answer = {"error": describe_error(error)}


def _own_share(turns: Turns, watch: Stopwatch, set_ghost: Callable[[bool], None], count: int) -> dict[str, Any]:
    """Device time of a call, of one whose own kernels do nothing, and of none at all."""
    whole = turns.device_time(watch, count)
    empty = statistics.median(watch.time(lambda: None, ahead=True)[0] for _ in range(count))
    set_ghost(True)
    try:
        rest = turns.device_time(watch, count)
    finally:
        set_ghost(False)
    return {"whole": whole, "rest": rest, "empty": empty}


def serve_reference(device: str) -> None:
    """The baseline's process: prepares one reference after another and times it, until the trusted side says stop."""
    _make_caches_writable()
    if device != "cpu":
        importlib.import_module("musadata.verifier.cuda.device").look_for_device()
    watch: Stopwatch | None = None
    turns: Turns | None = None
    model: Any = None
    answer: dict[str, Any] = _describe_device(device)
    with torch.no_grad():
        while True:
            request = ask(answer)
            answer = {}
            try:
                if "prepare" in request:
                    turns = model = None
                    watch = watch or Stopwatch(device, int(request["flush_bytes"]))
                    model, turns = _prepare_reference(request, device)
                elif "measure" in request:
                    assert turns is not None and watch is not None
                    answer = {"times": turns.measure(watch, request["measure"], request["ahead"])}
                elif "traffic" in request:
                    assert turns is not None
                    answer = {"bytes": _least_traffic(model, turns)}
                else:
                    return
            except Exception as error:
                answer = {"error": describe_error(error)}


def _make_caches_writable() -> None:
    """torch.compile and Triton want folders to write to and, in a cell, no pool of helpers."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(Path.cwd() / name.lower())
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    drivers = [folder for folder in _DRIVER_FOLDERS if (folder / "libcuda.so.1").exists()]
    if drivers:
        os.environ.setdefault("TRITON_LIBCUDA_PATH", str(drivers[0]))


def _describe_device(device: str) -> dict[str, Any]:
    if device == "cpu":
        return {"ready": True}
    torch.empty(1, device=device)  # makes the context
    properties: Any = torch.cuda.get_device_properties(0)
    clock_khz, bits = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    return {"ready": True, "bytes_per_ms": 2.0 * clock_khz * bits / 8}


def _prepare_reference(request: dict[str, Any], device: str) -> tuple[Any, Turns]:
    from musadata.tracing.reference import load_reference

    torch.manual_seed(request["seed"])
    model: Any = load_reference(request["prepare"]).Model(*decode(request["init"])).to(device).eval()
    own = tensors_of(model)
    for name, value in unpack_torch(request["state"]).items():
        own[name].copy_(value)
    sets = unpack_sets(request, device)
    turns = Turns(torch.compile(model) if request["compiled"] else model, sets, request["literals"])
    turns.measure(Stopwatch(device, 0), len(sets))  # compiles, and loads what is loaded on first use
    return model, turns


def unpack_sets(request: dict[str, Any], device: str) -> list[dict[str, torch.Tensor]]:
    """The tensors of every input set that is timed, on the device."""
    return [
        {name: value.to(device) for name, value in unpack_torch(request[f"inputs{index}"]).items()}
        for index in request["sets"]
    ]


def _least_traffic(model: Any, turns: Turns) -> int:
    """Bytes that must be read: those elements of inputs and parameters on which the result depends.

    Counted by a gradient, which is zero where an element does not matter (rows that are never looked up); where
    there is no gradient nothing is counted, so that the figure is never too high.
    """
    tensors = [value for value in turns._arguments if isinstance(value, torch.Tensor)]
    watched = [t for t in [*tensors, *model.parameters()] if t.dtype.is_floating_point]
    states = [(t, t.requires_grad) for t in watched]
    try:
        with torch.enable_grad():
            for tensor in watched:
                tensor.requires_grad_(True)
            leaves = [leaf for leaf in flatten(model(*turns._arguments))[1] if leaf.requires_grad]
            weights = [torch.rand_like(leaf) + 0.5 for leaf in leaves]
            found = torch.autograd.grad(leaves, watched, weights, allow_unused=True) if leaves else ()
        return sum(
            int(torch.count_nonzero(gradient)) * gradient.element_size() for gradient in found if gradient is not None
        )
    finally:
        for tensor, state in states:
            tensor.requires_grad_(state)
