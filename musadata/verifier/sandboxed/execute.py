"""Inside the sandbox: run a candidate as its plan says, and leave its outputs as files for the trusted side.

Everything here is only as trustworthy as the process that it shares with the candidate: it reports, it never judges.
"""

import contextlib
import hashlib
import importlib
import json
import linecache
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from musadata.sandbox import ask
from musadata.sandbox.child import describe_error
from musadata.verifier.backends.device_records import Records
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol.pytree import BadStructure, flatten
from musadata.verifier.protocol.tensors import DTYPES, pack, unpack_torch
from musadata.verifier.sandboxed.audit import Audit
from musadata.verifier.sandboxed.dispatch_watch import BUILTIN, DispatchWatch
from musadata.verifier.sandboxed.measure import Stopwatch, Turns, time_candidate
from musadata.verifier.sandboxed.model_state import copy_state
from musadata.verifier.sandboxed.plain_values import decode
from musadata.verifier.sandboxed.state_snapshot import Snapshot, take_snapshot

MODULE = "musadata_candidate"
FILE = "<candidate>"
_UNSEEN_SECONDS = 0.03  # of this thread's processor
_UNSEEN_WALL_SECONDS = 0.3  # where a device does the work, or others have the processor
_BYTES_PER_VALUE = 4  # as far as C++ tells


class CompilationFailed(RuntimeError):
    """The trusted side could not compile; it knows why and will not ask what became of this exception."""


def _watched() -> list[tuple[Any, str]]:
    """What a candidate must leave as it is."""
    tensor = ("copy_", "cpu", "cuda", "clone", "detach", "contiguous", "__eq__", "data_ptr")
    functions = ("allclose", "equal", "empty", "empty_like", "zeros", "from_numpy", "no_grad", "Tensor")
    places: list[tuple[Any, tuple[str, ...]]] = [
        (torch, functions),
        (torch.Tensor, tensor),
        (torch.nn.Module, ("__call__", "named_parameters", "named_buffers", "cuda", "eval")),
        (torch.cuda, ("Event", "synchronize")),
        (torch.cuda.Event, ("record", "elapsed_time")),
        (json, ("dumps", "loads")),
        (os, ("write",)),
        (sys.modules[__name__], ("pack",)),
        (threading, ("active_count",)),
    ]
    return [(place, name) for place, names in places for name in names]


def _python_operators() -> list[str]:
    """PyTorch's own operators that have an implementation in Python, as "aten/clone/CUDA"."""
    return sorted(name for name in torch.library._impls if name.split("/")[0] in BUILTIN)


class IntegrityGuard:
    """Functions as they were before the candidate was imported."""

    def __init__(self) -> None:
        self._originals = [(place, name, getattr(place, name)) for place, name in _watched()]
        self._operators = frozenset(_python_operators())
        self._audit = Audit(FILE)

    def check(self, facts: dict[str, Any]) -> None:
        facts["tampered"] = [
            f"{getattr(place, '__name__', place)}.{name}"
            for place, name, original in self._originals
            if getattr(place, name, None) is not original
        ]
        facts["tampered"] += [name for name in _python_operators() if name not in self._operators]
        facts["threads"] = max(self._audit.threads, threading.active_count() - 1)


@dataclass
class _Run:
    """What one candidate's run carries from call to call."""

    module: ModuleType
    model: torch.nn.Module
    backend: Any  # the module that its backend names as `child`
    inputs: list[dict[str, torch.Tensor]]
    literals: list[list[Any]]
    shapes: list[int]
    handed_on: list[list[int]]  # by input set: outputs that may be an input
    held: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)  # device inputs per set of shapes
    outputs: list[tuple[str, list[torch.Tensor], bytes]] = field(default_factory=list)


def run_candidate(source: str, backend_name: str) -> dict[str, Any]:
    """Import the candidate, build `ModelNew`, copy the state into it, and carry out the planned calls.

    `backend_name` is the backend's module. The plan is asked for once the candidate is imported: the constructor
    arguments, the parameters' names, the state and the inputs, per input set its literals and its set of shapes;
    `calls` are carried out in order. Returns facts; `facts` is also left as a file after each step, so that a crash
    does not take them all. A plan that is timed shows its results first, and goes on if they are found good.
    """
    facts: dict[str, Any] = {"reached": "import", "calls": []}
    backend = importlib.import_module(backend_name)
    fault_file = os.open("faults", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    backend.activate(_compile, fault_fd=fault_file)
    guard = IntegrityGuard()
    try:
        ask({"context": "wanted"})  # returns when few others are making theirs
        torch.empty(1, device=backend.DEVICE)  # makes the context, while the compiler may still be running
        ask({"context": "made"})
        module = _import_model(source, facts)
        if module is not None:
            plan = ask({"plan": True})
            run = _prepare(module, plan, backend, facts)
            if run is not None:
                _follow(run, plan["plan"], facts, guard)
    except BaseException as error:
        facts["error"] = describe_error(error)
    guard.check(facts)
    return facts


def _follow(run: _Run, plan: dict[str, Any], facts: dict[str, Any], guard: IntegrityGuard) -> None:
    """Carry out the calls, and have the candidate timed if they turn out well."""
    if plan["timed"]:
        ask({"enter": True})  # returns when no other candidate is being timed on this device
        turns, watch = _get_ready(run, plan["timed"])
    for call in plan["calls"]:
        _note(facts, "call")
        facts["calls"].append(_carry_out(run, call))
        if "error" in facts["calls"][-1] and not call["null_kernels"] and not call["strided"]:
            break
    facts["changed_later"] = [name for name, leaves, data in run.outputs if _pack(leaves) != data]
    if plan["timed"]:
        guard.check(facts)
        names = [call["name"] for call in plan["calls"] if Path(call["name"]).exists()]
        request = ask({"judge": facts}, {name: Path(name).read_bytes() for name in [*names, "faults"]})
        if "time" in request:
            _note(facts, "time")
            run.outputs.clear()
            time_candidate(turns, watch, lambda null_kernels: run.backend.configure(null_kernels=null_kernels))


def _get_ready(run: _Run, timed: dict[str, Any]) -> tuple[Turns, Stopwatch]:
    """All that takes memory on the device: there is none to be had quickly while others make their contexts, and who is
    timed holds them all up."""
    device = run.backend.DEVICE
    sets = [{name: value.to(device) for name, value in run.inputs[index].items()} for index in timed["sets"]]
    watch = Stopwatch(device, timed["flush_bytes"])
    watch.time(lambda: None, lead_ms=0.1)
    return Turns(run.model, sets, run.literals[timed["sets"][0]]), watch


def import_candidate(source: str, backend: str) -> None:
    """Only import the candidate, so that its sources get compiled."""
    importlib.import_module(backend).activate(_compile)
    _load(source)


def _compile(sources: CandidateSources) -> str:
    """Have the trusted side compile; gives the path of the artifact."""
    answer = ask({"compile": sources.to_dict()})
    if "path" not in answer:
        raise CompilationFailed(answer["error"])
    return str(answer["path"])


def _note(facts: dict[str, Any], reached: str) -> None:
    facts["reached"] = reached
    Path("facts").write_text(json.dumps(facts))


def _import_model(source: str, facts: dict[str, Any]) -> ModuleType | None:
    _note(facts, "import")
    module = _load(source)
    _note(facts, "construct")
    kind = getattr(module, "ModelNew", None)
    if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
        facts["interface"] = ["ModelNew is not a subclass of torch.nn.Module."]
        return None
    return module


def _prepare(module: ModuleType, answer: dict[str, Any], backend: ModuleType, facts: dict[str, Any]) -> _Run | None:
    plan = answer["plan"]
    torch.manual_seed(plan["seed"])
    model = module.ModelNew(*decode(plan["init"])).to(backend.DEVICE).eval()
    state = unpack_torch(answer["state"])
    facts["interface"] = copy_state(model, state, set(plan["parameters"]))
    if facts["interface"]:
        return None
    inputs = [unpack_torch(answer[f"inputs{index}"]) for index in range(len(plan["sets"]))]
    literals = [item["literals"] for item in plan["sets"]]
    shapes, handed_on = ([item[key] for item in plan["sets"]] for key in ("shape", "handed_on"))
    return _Run(module, model, backend, inputs, literals, shapes, handed_on)


def _load(source: str) -> ModuleType:
    module = ModuleType(MODULE)
    module.__file__ = FILE
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    sys.modules[MODULE] = module
    exec(compile(source, FILE, "exec"), module.__dict__)
    return module


def _carry_out(run: _Run, call: dict[str, Any]) -> dict[str, Any]:
    """One call of the forward: facts about it; its outputs go to the file that the call names."""
    index = call["set"]
    held = _fill(run, index, call["strided"])
    values = _arguments(run, index, held)
    modes = {key: call[key] for key in ("order", "seed", "poison", "null_kernels")}
    if call["check"]:
        modes |= {"check": call["check"], "settled": call["settled"]}
    run_unseen(lambda: (run.model(*values), getattr(torch, run.backend.DEVICE).synchronize()), call["unseen"])
    run.backend.configure(**modes)
    run.backend.take_records()
    run.backend.guard_memory(call["poison"])
    facts: dict[str, Any] = {"set": index}
    kept = take_snapshot(run.module, run.model, held) if call["settled"] else None
    if kept:
        run.backend.snapshot_memory()
    watch = DispatchWatch(keep=call["null_kernels"])
    leaves: list[Any] = []
    try:
        run.backend.begin_call()
        with torch.no_grad(), watch:
            facts |= _run_forward(run, values, leaves)
        run.backend.end_call()
        getattr(torch, run.backend.DEVICE).synchronize()
    except Exception as error:
        facts["error"] = describe_error(error)
    facts["records"] = _plain_records(run.backend.take_records(), watch)
    if kept:
        now = take_snapshot(run.module, run.model, held)
        changed = sorted(name for name, value in now.values.items() if kept.values.get(name, value) != value)
        facts["counts"] = changed[:8]
        if "error" not in facts and _counts_in_memory(run, values, held, (kept, now), modes):
            facts["counts"].append("what it keeps in memory")
    run.backend.configure(order="forward", seed=0, poison=0xFF, null_kernels=False)
    facts["written"] = watch.written()
    if "error" in facts or "structure" not in facts:
        return facts
    leaves = [_own_copy(leaf) if at in run.handed_on[index] else leaf for at, leaf in enumerate(leaves)]
    facts["bad"] = _check_leaves(run, leaves, held)
    facts["changed_inputs"] = _changed_inputs(held, run.inputs[index])
    data = _pack(leaves)
    Path(call["name"]).write_bytes(data)
    facts["digest"] = hashlib.sha256(data).hexdigest()
    if not call["null_kernels"]:
        run.outputs.append((call["name"], leaves, data))
    return facts


def _run_forward(run: _Run, values: list[Any], leaves: list[torch.Tensor]) -> dict[str, Any]:
    """One forward, and the nesting of its result: a container of the candidate's own class may compute when it is read.
    Its tensors go into `leaves`."""
    result = run.model(*values)
    try:
        structure, found = flatten(result)
    except BadStructure as error:
        return {"bad": [f"The forward's result cannot be compared: {error}."]}
    leaves += found
    return {"structure": structure}


def run_unseen(forward: Callable[[], Any], most: int) -> None:
    """Call a forward again and again, for some hundredths of a second: it must not matter.

    How often depends on the machine. No honest verdict does; of who counts its calls, the one that waits longest may be
    found out on a fast machine only.
    """
    host_end, end = time.thread_time() + _UNSEEN_SECONDS, time.perf_counter() + _UNSEEN_WALL_SECONDS
    with contextlib.suppress(Exception), torch.no_grad():  # what goes wrong now, will in the call that is looked at
        for _ in range(most):
            forward()
            if time.thread_time() > host_end or time.perf_counter() > end:
                return


def _counts_in_memory(
    run: _Run, values: list[Any], held: dict[str, torch.Tensor], kept: tuple[Snapshot, Snapshot], modes: dict[str, Any]
) -> bool:
    """Whether the very same call, made once more, changes again what the program keeps on the device or in tensors on
    the host, of which `kept` tells before and after the last: scratch would stay as it is."""
    before, now = kept
    if not run.backend.memory_changed() and now.contents == before.contents:
        return False
    run.backend.configure(**modes)
    run.backend.snapshot_memory()
    with torch.no_grad():
        run.model(*values)
    getattr(torch, run.backend.DEVICE).synchronize()
    changed: bool = run.backend.memory_changed()
    run.backend.take_records()
    return changed or take_snapshot(run.module, run.model, held).contents != now.contents


def _plain_records(records: Records, watch: DispatchWatch) -> dict[str, Any]:
    launches = [launch for launch in records.kernels if not launch.error]
    refused = [asdict(launch) for launch in records.kernels if launch.error]
    counted = watch.to_host + _values(records.host_bytes)
    return {
        "operators": sorted({str(name).replace("::", ".") for name in records.operators} | watch.operators),
        "to_host": max(counted, _values(records.pinned_bytes)),  # copies may go through pinned memory
        "kernels": sorted({launch.name for launch in launches}),
        "launches": sum(launch.count for launch in launches),
        "parts": watch.parts,
        "refused": refused[:8],
        "faults": [asdict(fault) for fault in records.faults[:8]],
        "reports": [asdict(report) for report in records.reports[:8]],
    }


def _values(size: int) -> int:
    return -(-size // _BYTES_PER_VALUE)


def _fill(run: _Run, index: int, strided: bool) -> dict[str, torch.Tensor]:
    """The input set's values, in the same device tensors for all sets of the same shapes: a cache keyed by address or
    identity then answers with old results."""
    if strided:
        return {name: _strided_copy(value, run.backend.DEVICE) for name, value in run.inputs[index].items()}
    shape = run.shapes[index]
    if shape not in run.held:
        device = run.backend.DEVICE
        run.held[shape] = {name: torch.empty_like(value, device=device) for name, value in run.inputs[index].items()}
    for name, value in run.inputs[index].items():
        run.held[shape][name].copy_(value)
    return run.held[shape]


def _strided_copy(value: torch.Tensor, device: str) -> torch.Tensor:
    """The same values in another layout: transposed, or every second element of a larger tensor."""
    if value.dim() >= 2 and value.shape[-1] > 1 and value.shape[-2] > 1:
        turned = torch.empty_like(value.transpose(-1, -2), device=device, memory_format=torch.contiguous_format)
        return turned.transpose(-1, -2).copy_(value)
    if value.dim() == 0:
        return torch.empty_like(value, device=device).copy_(value)
    wide = torch.empty((*value.shape[:-1], 2 * value.shape[-1]), dtype=value.dtype, device=device)
    return wide[..., ::2].copy_(value)


def _arguments(run: _Run, index: int, held: dict[str, torch.Tensor]) -> list[Any]:
    literals = run.literals[index]
    return [
        held[str(number)] if literal is None else decode(literal["value"]) for number, literal in enumerate(literals)
    ]


def _own_copy(leaf: torch.Tensor) -> torch.Tensor:
    """A plain tensor apart from the inputs, which the next call fills anew."""
    return leaf.clone() if type(leaf) is torch.Tensor else leaf


def _check_leaves(run: _Run, leaves: list[Any], held: dict[str, torch.Tensor]) -> list[str]:
    """What is wrong with the outputs as objects, whatever their values."""
    problems = []
    memory = {tensor.untyped_storage().data_ptr(): "an input" for tensor in held.values()}
    for _, earlier, _ in run.outputs:
        memory |= {tensor.untyped_storage().data_ptr(): "an earlier output" for tensor in earlier}
    memory.pop(0, None)
    for number, leaf in enumerate(leaves):
        if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
            problems.append(f"Output {number} is a {type(leaf).__name__}, not a plain tensor.")
        elif leaf.layout != torch.strided or str(leaf.dtype).removeprefix("torch.") not in DTYPES:
            problems.append(f"Output {number} is not a dense tensor.")
        elif leaf.device.type != run.backend.DEVICE:
            problems.append(f"Output {number} is on {leaf.device.type}, not on the device of the inputs.")
        elif leaf.numel() and leaf.untyped_storage().data_ptr() in memory:
            problems.append(f"Output {number} shares its memory with {memory[leaf.untyped_storage().data_ptr()]}.")
    return problems


def _changed_inputs(held: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> list[int]:
    return [int(name) for name, value in given.items() if _pack([held[name]]) != _pack([value])]


def _pack(leaves: list[Any]) -> bytes:
    plain = [leaf.detach() for leaf in leaves]
    return pack({str(number): _to_host(leaf) for number, leaf in enumerate(plain)})


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu() if tensor.device.type != "cpu" else tensor
