"""Inside the sandbox: run a candidate according to its plan and leave its outputs as files for the trusted side.

This code shares its process with the candidate and is not trusted: it reports facts and never judges.
"""

import contextlib
import hashlib
import importlib
import json
import linecache
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from musadata.dispatch import without_dynamo
from musadata.verifier.backends.device_records import Fault, Records
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.message_encoding import ask_for, encode
from musadata.verifier.protocol.pytree import BadStructure, flatten
from musadata.verifier.protocol.tensors import pack, unpack_torch
from musadata.verifier.sandboxed.device_models import (
    describe_failure,
    find_problem,
    free_memory,
    lacks_memory,
    load_kernels,
)
from musadata.verifier.sandboxed.dispatch_watch import DispatchWatch, count_moved_or_pinned
from musadata.verifier.sandboxed.integrity_guard import IntegrityGuard
from musadata.verifier.sandboxed.measure import Stopwatch, Turns, hold_sets, time_candidate
from musadata.verifier.sandboxed.measured_run import serve_measured
from musadata.verifier.sandboxed.model_state import construct_seeded, copy_state, tensors_of
from musadata.verifier.sandboxed.plain_values import decode
from musadata.verifier.sandboxed.reserved_memory import ReservedMemory, draw_reserved
from musadata.verifier.sandboxed.state_snapshot import Snapshot, take_snapshot

MODULE = "musadata_candidate"
FILE = "<candidate>"
_MOST_CHARACTERS = 300  # of an exception in one line
_UNSEEN_SECONDS = 0.03  # CPU time of this thread
_UNSEEN_WALL_SECONDS = 0.3  # where a device does the work, or other processes use the CPU


class OwnFailure(RuntimeError):
    """Our own code has failed; see `judge`."""


class CompilationFailed(RuntimeError):
    """The trusted side could not compile. It has recorded the reason, even if the candidate catches this exception."""


@dataclass
class _Run:
    """What stays the same or is collected over all calls of one candidate."""

    module: ModuleType
    model: torch.nn.Module
    backend: Any  # the module that its backend names as `child`
    plan: messages.Plan
    inputs: list[dict[str, torch.Tensor]]
    held: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict)  # device inputs per set of shapes
    outputs: list[tuple[str, list[torch.Tensor], bytes]] = field(default_factory=list)

    def synchronize(self) -> None:
        """Wait for the device."""
        getattr(torch, self.backend.DEVICE).synchronize()


def run_candidate(source: str, backend_name: str) -> dict[str, object]:
    """Import the candidate, build `ModelNew`, copy the state into it, and carry out the planned calls.

    `backend_name` is the backend's child module. The process asks for the plan after it has imported the candidate.
    Returns `CandidateFacts`, which are also written to the file `facts` before each call, so that they survive a crash.
    If the plan asks for timing, the results are judged first, and timed only if they are right.
    """
    backend = importlib.import_module(backend_name)
    fault_file = os.open("faults", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    backend.activate(compile_outside, fault_fd=fault_file)
    session = _Session(IntegrityGuard(FILE, sys.modules[__name__]))
    try:
        ask_for(messages.RequestContext(), messages.Proceed)
        if backend.HAS_DRIVER:
            load_kernels(backend.DEVICE)  # while the compiler may still be running
        ask_for(messages.ContextMade(), messages.Proceed)
        session.run(source, backend)
    except BaseException as error:
        session.facts = replace(session.facts, error=describe_failure(error))
    return encode(session.guard.check(session.facts))


@dataclass
class _Session:
    """One candidate's run, and the facts about it so far. `alive` is never freed: this process ends as soon as its
    facts are told. Processes that call PyTorch's convolutions on a device were seen to crash, perhaps in freeing."""

    guard: IntegrityGuard
    facts: messages.CandidateFacts = field(default_factory=messages.CandidateFacts)
    alive: list[object] = field(default_factory=list)

    def run(self, source: str, backend: ModuleType) -> None:
        """Import the candidate, and call it according to the plan if it has the reference's interface."""
        module = load_candidate(source)
        kind = getattr(module, "ModelNew", None)
        if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
            self.facts = replace(self.facts, interface=("ModelNew is not a subclass of torch.nn.Module.",))
            return
        plan = ask_for(messages.RequestPlan(), messages.Plan)
        if plan.reserved and not plan.sets:
            self._sample_over_reserved(kind, plan, backend)
            return
        if not plan.sets:  # it is only proven at its measure size
            ask_for(messages.RequestDevice(), messages.Proceed)
            self._have_measured(kind, None, backend)
            return
        init = decode(plan.init)
        model, initial = construct_seeded(lambda: kind(*init), plan.seed)
        self.facts = replace(self.facts, initial=initial)
        model = model.to(backend.DEVICE)
        problems = copy_state(model, unpack_torch(plan.state), set(plan.parameters)) if plan.state else []
        self.facts = replace(self.facts, interface=tuple(problems))
        if problems:
            return
        inputs = [unpack_torch(plan.inputs[str(index)]) for index in range(len(plan.sets))]
        run = _Run(module, model, backend, plan, inputs)
        self.alive.append(run)
        if plan.timed is None:
            self._call(run)
            return
        ask_for(messages.RequestDevice(), messages.Proceed)
        if not plan.timed.sets:
            self._call(run)
            run.held.clear()
            self._have_measured(kind, run, backend)
            return
        turns, watch = _get_ready(run, plan.timed)
        self._call(run)
        if isinstance(self._have_judged(run, messages.Proceed, messages.Stop), messages.Proceed):
            run.outputs.clear()
            time_candidate(turns, watch, lambda on: run.backend.configure(null_kernels=on))

    def _call(self, run: _Run) -> None:
        """Carry out the calls until one fails that must succeed."""
        for call in run.plan.calls:
            Path("facts").write_text(json.dumps(encode(self.facts)))
            made = _carry_out(run, call)
            if run.plan.sets[call.set].loaded:
                copy_state(run.model, unpack_torch(run.plan.state), set(run.plan.parameters))
            self.facts = replace(self.facts, calls=(*self.facts.calls, made))
            if made.error and not call.null_kernels and not call.may_refuse:
                break
        changed = tuple(name for name, leaves, data in run.outputs if _pack(leaves) != data)
        self.facts = replace(self.facts, changed_later=changed)
        if run.plan.reserved and len(self.facts.calls) == len(run.plan.calls):
            self.facts = self.guard.check(self.facts)
            Path("facts").write_text(json.dumps(encode(self.facts)))
            self.facts = replace(self.facts, reserved=_call_over_reserved(run.model, run.plan, run.backend))

    def _sample_over_reserved(self, kind: type[torch.nn.Module], plan: messages.Plan, backend: ModuleType) -> None:
        """The host code at the declared size, and then some blocks of what it launches, as far as that ends in time."""
        with torch.no_grad(), without_dynamo(), ReservedMemory():
            backend.configure(poison=-1)
            model = kind(*decode(plan.init)).to(backend.DEVICE)
        for sampled in (False, True):
            self.facts = replace(self.facts, reserved=_call_over_reserved(model, plan, backend, sampled))
            Path("facts").write_text(json.dumps(encode(self.facts)))
            if self.facts.reserved.error or self.facts.reserved.records.refused:
                break

    def _have_judged(self, run: _Run | None, *answers: type) -> object:
        """What the trusted side says to the calls that have been made."""
        self.facts = self.guard.check(self.facts)
        names = [call.name for call in run.plan.calls if Path(call.name).exists()] if run else []
        outputs = {name: Path(name).read_bytes() for name in (*names, "faults")}
        return ask_for(messages.JudgeRequest(self.facts, outputs), *answers)

    def _have_measured(self, kind: type[torch.nn.Module], run: _Run | None, backend: ModuleType) -> None:
        """Have the candidate judged, and if nothing is wrong with it proven and timed at the measure size."""
        answer = self._have_judged(run, messages.Stop, measures.MeasurePlan)
        if isinstance(answer, measures.MeasurePlan):
            if run is not None:
                run.outputs.clear()
            free_memory(backend.DEVICE)
            self.alive.append(serve_measured(kind, run.model if run else None, answer, backend))


def _get_ready(run: _Run, timed: messages.TimedSets) -> tuple[Turns, Stopwatch]:
    """Allocate all device memory before timing: allocation is slow while other processes make their contexts, and they
    all wait for a candidate that is being timed."""
    device = run.backend.DEVICE
    sets = [{name: value.to(device) for name, value in run.inputs[index].items()} for index in timed.sets]
    watch = Stopwatch(device, timed.flush_bytes)
    watch.time(lambda: None, lead_ms=0.1)
    return Turns(run.model, *hold_sets(sets, run.plan.sets[timed.sets[0]].literals)), watch


def import_candidate(source: str, backend: str) -> None:
    """Import the candidate and do no more, so that its sources are compiled."""
    importlib.import_module(backend).activate(compile_outside)
    load_candidate(source)


def compile_outside(sources: CandidateSources) -> str:
    """Have the trusted side compile; returns the path of the library."""
    answer = ask_for(messages.CompileRequest(sources), messages.Compiled, messages.Refused)
    if isinstance(answer, messages.Compiled):
        return answer.path
    assert isinstance(answer, messages.Refused)
    raise CompilationFailed(answer.reason)


def load_candidate(source: str) -> ModuleType:
    """Import a candidate under its own name and file."""
    module = ModuleType(MODULE)
    module.__file__ = FILE
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    sys.modules[MODULE] = module
    exec(compile(source, FILE, "exec"), module.__dict__)
    return module


def say_error(error: BaseException) -> str:
    """An exception in one line."""
    facts = describe_failure(error)
    return f"{facts.error_type}: {' '.join(facts.message.split())}"[:_MOST_CHARACTERS]


def _carry_out(run: _Run, call: messages.Call) -> messages.CallFacts:
    """Make one call of the forward; returns facts and writes the outputs to the file that the call names."""
    if str(call.set) in run.plan.states:
        try:
            run = replace(run, model=_model_of_set(run, call.set))
        except Exception as error:
            if not call.may_refuse:
                raise
            return messages.CallFacts(error=describe_failure(error))
    with _own_work():
        held = _fill(run, call.set, call.strided)
        values = _arguments(run.plan.sets[call.set].literals, held)
    run_unseen(run, values, call.unseen)
    _configure(run, call)
    run.backend.take_records()
    run.backend.guard_memory(call.poison)
    before = take_snapshot(run.module, run.model, held) if call.settled else None
    if before:
        run.backend.snapshot_memory()
    watch = DispatchWatch(keep=call.null_kernels)
    leaves: list[Any] = []
    facts = messages.CallFacts()
    try:
        run.backend.begin_call()
        with torch.no_grad(), watch:
            facts = _run_forward(run, values, leaves, run.plan.sets[call.set].updated)
        run.backend.end_call()
        run.synchronize()
    except Exception as error:
        facts = replace(facts, error=describe_failure(error))
    facts = replace(facts, records=_describe_records(run.backend.take_records(), watch))
    if before:
        changed = _find_changes(run, call, values, held, before, again=facts.error is None)
        facts = replace(facts, changed_state=changed)
    run.backend.configure(order="forward", seed=0, poison=0xFF, null_kernels=False)
    facts = replace(facts, written=tuple(watch.written()))
    if facts.error or facts.structure is None:
        return facts
    with _own_work():
        return _keep_outputs(run, call, facts, leaves, held)


def _model_of_set(run: _Run, index: int) -> torch.nn.Module:
    """A model of its own, with the state that the set is called with, so that what a model has made of its weights is
    kept; or the one of the other sets, so that it is not.

    Raises:
        Exception: whatever a program raises that does not take the arguments; ValueError if it has other state.
    """
    init, model = run.plan.sets[index].init, run.model
    if not run.plan.sets[index].loaded:
        arguments = decode(run.plan.init if init is None else init)
        model, _ = construct_seeded(lambda: type(run.model)(*arguments), run.plan.seed)
        model = model.to(run.backend.DEVICE)
    problems = copy_state(model, unpack_torch(run.plan.states[str(index)]), set(run.plan.parameters))
    if init is not None and problems:
        raise ValueError(problems[0])
    return model


@contextlib.contextmanager
def _own_work() -> Iterator[None]:
    """What fails here is our failure, and not the candidate's: but for errors of the device, which come late."""
    try:
        yield
    except Exception as error:
        if lacks_memory(error) or "CUDA" in str(error):
            raise
        raise OwnFailure(f"{type(error).__name__}: {error}") from error


def _keep_outputs(
    run: _Run, call: messages.Call, facts: messages.CallFacts, leaves: list[Any], held: dict[str, torch.Tensor]
) -> messages.CallFacts:
    """Check a call's outputs as objects, and write them to the file that the call names."""
    handed_on = run.plan.sets[call.set].handed_on
    leaves = [_own_copy(leaf) if at in handed_on else leaf for at, leaf in enumerate(leaves)]
    bad, changed = _check_leaves(run, leaves, held), _changed_inputs(held, run.inputs[call.set])
    data = _pack(leaves)
    Path(call.name).write_bytes(data)
    if not call.null_kernels:
        run.outputs.append((call.name, leaves, data))
    return replace(facts, bad=tuple(bad), changed_inputs=tuple(changed), digest=hashlib.sha256(data).hexdigest())


def _configure(run: _Run, call: messages.Call) -> None:
    modes: dict[str, Any] = {"check": call.check, "settled": call.settled} if call.check else {}
    modes |= {"sampled": True} if call.sampled else {}
    run.backend.configure(order=call.order, seed=call.seed, poison=call.poison, null_kernels=call.null_kernels, **modes)


def _run_forward(
    run: _Run, values: list[Any], leaves: list[torch.Tensor], updated: Sequence[str]
) -> messages.CallFacts:
    """One forward, and the nesting of its result, with buffers that are `updated`: a container of the candidate's own
    class may compute when it is read. Its tensors go into `leaves`."""
    result = run.model(*values)
    if updated:
        own = tensors_of(run.model)
        result = (result, [own[name] for name in updated])
    try:
        structure, found = flatten(result)
    except BadStructure as error:
        return messages.CallFacts(bad=(f"The forward's result cannot be compared: {error}.",))
    leaves += found
    return messages.CallFacts(structure=structure)


def run_unseen(run: _Run, values: list[Any], most: int) -> None:
    """Call a forward repeatedly, for some hundredths of a second, which must not change its later results.

    The number of calls depends on the machine. This changes no honest candidate's verdict, but a candidate that cheats
    after many calls may be detected on fast machines only.
    """
    host_end, end = time.thread_time() + _UNSEEN_SECONDS, time.perf_counter() + _UNSEEN_WALL_SECONDS
    with contextlib.suppress(Exception), torch.no_grad():  # a failure repeats in the call that is checked
        for _ in range(most):
            run.model(*values)
            run.synchronize()
            if time.thread_time() > host_end or time.perf_counter() > end:
                return


def _find_changes(
    run: _Run, call: messages.Call, values: list[Any], held: dict[str, torch.Tensor], before: Snapshot, again: bool
) -> tuple[str, ...]:
    """What the call changed in the program's state.

    `again`: the call may be repeated. Scratch memory then holds the same values again, while a counter on the device or
    in a tensor on the host has changed.
    """
    now = take_snapshot(run.module, run.model, held)
    changed = sorted(name for name, value in now.values.items() if before.values.get(name, value) != value)[:8]
    if again and (run.backend.changed_memory()[0] or now.contents != before.contents):
        _configure(run, call)
        run.backend.snapshot_memory()
        with torch.no_grad():
            run.model(*values)
        run.synchronize()
        what, how = run.backend.changed_memory()
        run.backend.take_records()
        if what:
            line = _line_of(what)
            changed.append(f"{what}{f' (line {line} of the program)' if line else ''}: {how},")
        elif take_snapshot(run.module, run.model, held).contents != now.contents:
            changed.append("values of the tensors that it keeps")
    return tuple(changed)


def _line_of(variable: str) -> int:
    """Where the program first has the last word of a C++ variable's name; 0 if it has not."""
    word = "" if variable.endswith("device memory") else (re.findall(r"\w+", variable) or [""])[-1]
    found = (number for number, text in enumerate(linecache.getlines(FILE), 1) if re.search(rf"\b{word}\b", text))
    return next(found, 0) if word else 0


def _with_line(report: Fault) -> Fault:
    return report if report.line or report.kind != "static_state" else replace(report, line=_line_of(report.message))


def _call_over_reserved(
    model: torch.nn.Module, plan: messages.Plan, backend: Any, sampled: bool = False
) -> messages.CallFacts:
    """The host code at the declared size: what it launches, which does nothing but for some blocks."""
    watch, facts = DispatchWatch(), messages.CallFacts()
    try:
        values = draw_reserved(plan.reserved, backend.DEVICE)
    except (ValueError, RuntimeError):  # the specs are none of that size, which is no fault of the candidate's
        return facts
    backend.configure(poison=-1, **{"sampled" if sampled else "null_kernels": True})
    try:
        backend.take_records()
        with torch.no_grad(), without_dynamo(), ReservedMemory(), watch:
            model(*values)
    except Exception as error:
        facts = replace(facts, error=describe_failure(error))
    facts = replace(facts, records=_describe_records(backend.take_records(), watch))
    backend.configure()
    return facts


def _describe_records(records: Records, watch: DispatchWatch) -> messages.CallRecords:
    """A call as the backend's module and the dispatch of PyTorch's operators have recorded it."""
    done = [launch for launch in records.kernels if not launch.error]
    return messages.CallRecords(
        operators=tuple(sorted(watch.besides_counters(str(name).replace("::", ".") for name in records.operators))),
        to_host=count_moved_or_pinned(records, watch),
        kernels=tuple(sorted({launch.name for launch in done})),
        launches=sum(launch.count for launch in done),
        parts=watch.parts,
        refused=tuple(launch for launch in records.kernels if launch.error)[:8],
        faults=tuple(records.faults[:8]),
        reports=tuple(map(_with_line, records.reports[:8])),
    )


def _fill(run: _Run, index: int, strided: bool) -> dict[str, torch.Tensor]:
    """The input set's values, in the same device tensors for all sets of the same shapes.

    A candidate whose cache is keyed by address or identity then returns old results.
    """
    if strided:
        return {name: _strided_copy(value, run.backend.DEVICE) for name, value in run.inputs[index].items()}
    shape = run.plan.sets[index].shape
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


def _arguments(literals: Sequence[messages.Literal | None], held: dict[str, torch.Tensor]) -> list[Any]:
    return [held[str(number)] if literal is None else decode(literal.value) for number, literal in enumerate(literals)]


def _own_copy(leaf: torch.Tensor) -> torch.Tensor:
    """A copy of a plain tensor, since the next call overwrites the inputs."""
    return leaf.clone() if type(leaf) is torch.Tensor else leaf


def _check_leaves(run: _Run, leaves: list[Any], held: dict[str, torch.Tensor]) -> list[str]:
    """What is wrong with the outputs as objects, whatever their values."""
    problems = []
    memory = {tensor.untyped_storage().data_ptr(): "an input" for tensor in held.values()}
    for _, earlier, _ in run.outputs:
        memory |= {tensor.untyped_storage().data_ptr(): "an earlier output" for tensor in earlier}
    memory.pop(0, None)
    for number, leaf in enumerate(leaves):
        problem = find_problem(leaf, run.backend.DEVICE)
        if problem:
            problems.append(f"Output {number} is {problem}.")
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
