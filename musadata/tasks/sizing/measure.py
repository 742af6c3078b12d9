"""The measure size of a task: what keeps an H200 busy. Runs inside the sandbox: `examine` is the child's side."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from musadata.errors import Rejection
from musadata.records import InputSpec
from musadata.rows import restore
from musadata.tasks import examination
from musadata.tasks.checked_reference import describe
from musadata.tasks.fingerprints.results import hash_results
from musadata.tasks.operator_recording import tensors_in
from musadata.tasks.reference_loading import build_model, load_reference, set_seed
from musadata.tasks.sizing.fake_execution import (
    TWO_DEVICES,
    Cost,
    OneDevice,
    OperatorBudget,
    Unscalable,
    call_on_device,
    measure_cost,
    record_branches,
    shapes_only,
)
from musadata.tasks.sizing.inputs_text import replace_inputs, write_inputs
from musadata.tasks.sizing.shrinking import MOST_WORK
from musadata.tasks.sizing.sizes import FreeSize, Specs, find_free, size_at

LEAST_SECONDS, MOST_SECONDS = 0.2e-3, 20e-3  # of one eager call, by the roofline
_WANTED_SECONDS = 0.4e-3  # what is aimed at: well inside, and small enough to judge many a minute
MOST_BYTES = 4_000_000_000  # inputs, outputs and the largest intermediate
_MOST_FAKE_OPERATORS = 6000  # of all fake executions of a reference, at 30 to 60 µs each
_TRIALS_TO_GROW = 6  # that a reference of many operators has in any case
_ALWAYS_SMALL = 1 << 24  # bytes and FLOPs that a real execution may take
# How far sizes grow in each round, until the work is enough: people take many rows before they take endless ones.
_CAPS = (
    {"batch": 64, "channels": 128, "spatial": 128, "other": 2048},
    {"batch": 1024, "channels": 512, "spatial": 512, "other": 8192},
    {"batch": 1 << 16, "channels": 2048, "spatial": 2048, "other": 1 << 17},
    {"batch": 1 << 28, "channels": 1 << 28, "spatial": 1 << 14, "other": 1 << 28},
)
_LEAST_GAIN = 1.02
_LEAST = 3  # what a size of a proof set is halved to
_OTHER_DEVICE = "other_device"
_RANGES = frozenset({"integers", "offsets", "segments"})

TryCost = Callable[[Specs], Cost | None]


def examine(source: str, seed: int, max_elements: int, name: str = "") -> dict[str, Any]:
    """What `examination.examine` finds; of a reference that passes every filter also what `find_measure` finds.

    One that makes tensors on another device than its inputs' is dropped as well.
    """
    facts = examination.examine(source, seed, max_elements, name)
    if "reason" in facts:
        return facts
    found = find_measure(facts["reference"], facts["inputs"])
    reason, _, detail = found["note"].partition(": ")
    if reason == _OTHER_DEVICE:
        return {"reason": reason, "detail": detail}
    return facts | found | {"results": hash_results(facts["reference"])}


def find_measure(source: str, inputs: list[dict[str, Any]]) -> dict[str, Any]:
    """The measure size of a reference whose proof size is `inputs`, as plain values.

    Returns:
        `{"measure": specs, "note": "", "reference": text}`, the text with a `get_inputs` of that size; without specs
        the note says why, and with them where they are less work than wanted. `inputs`, a smaller proof size, is there
        where the given one is more work than the emulator does.
    """
    specs = tuple(restore(InputSpec, spec) for spec in inputs)
    try:
        proof, measure, note = _find(source, specs)
        text = replace_inputs(source, measure)
    except Rejection as why:
        return {"measure": [], "note": f"{why.reason}: {why.detail}".strip(": "), "reference": source}
    except Exception as error:  # whatever the reference raises at other sizes
        return {"measure": [], "note": f"does not run on fake tensors: {describe(error)}", "reference": source}
    found: dict[str, Any] = {"measure": list(map(dataclasses.asdict, measure)), "note": note, "reference": text}
    return found if proof == specs else found | {"inputs": list(map(dataclasses.asdict, proof))}


class Subject:
    """A reference's model, and what a call of it costs at any size."""

    def __init__(self, source: str):
        self.reference = load_reference(source)
        self.model = build_model(self.reference, 0)
        set_seed(0)
        self._examples = list(self.reference.get_inputs())
        self._branches: tuple[bool, ...] = ()
        self._shapes = self.model
        self._with_devices = False
        self.budget = OperatorBudget(_MOST_FAKE_OPERATORS)

    def begin(self, specs: Specs) -> Cost:
        """The cost at the proof size. It shows which kind of tensors is needed, and how the reference branches.

        Raises:
            Unscalable: its operators depend on values.
        """
        try:
            with self.shapes_only():
                self._shapes = build_model(self.reference, 0)
                return self.cost(specs)
        except Exception:  # it holds real tensors, or reads values
            self._shapes, self._with_devices = self.model, True
        try:
            with self.shapes_only():
                return self.cost(specs)
        except Unscalable as why:
            if why.reason != "depends_on_values":
                raise
        self._branches = record_branches(self.model, self._examples)
        with self.shapes_only():
            return self.cost(specs)

    def require_one_device(self, specs: Specs) -> None:
        """Call it as a device would be used: tensors that a forward makes without naming one are on the CPU.

        Raises:
            Rejection: they meet others.
        """
        if self._with_devices or _holds_plain_tensors(self._shapes):
            self._require_moved()
            return
        with self.shapes_only():
            values = self._values(specs)
        torch.nn.Module.to(self._shapes, "meta")  # `torch.Tensor(2, 3)` makes parameters on the CPU in any case
        try:
            with torch.no_grad(), OneDevice():
                self._shapes(*values)
        except RuntimeError as error:
            if "device" in str(error):
                raise Rejection(_OTHER_DEVICE, describe(error)) from error

    def _require_moved(self) -> None:
        """`require_one_device` for one that reads values, or holds tensors that do not move with it."""
        try:
            call_on_device(build_model(self.reference, 0), self._examples)
        except RuntimeError as error:
            if TWO_DEVICES.search(str(error)):
                raise Rejection(_OTHER_DEVICE, describe(error)) from error
        except Exception:  # whatever a call raises that depends on values: it does not tell
            return

    def shapes_only(self) -> AbstractContextManager[None]:
        """What `cost` runs under."""
        return shapes_only(self._with_devices)

    def cost(self, specs: Specs) -> Cost:
        """The cost at a size."""
        return measure_cost(self._shapes, self._values(specs), self.budget, self._branches)

    def _values(self, specs: Specs) -> list[Any]:
        """Arguments of these shapes; literals come from the examples."""
        return [
            torch.empty(spec.shape, dtype=getattr(torch, spec.dtype)) if spec.kind != "literal" else example
            for spec, example in zip(specs, self._examples, strict=True)
        ]

    def try_cost(self, specs: Specs) -> Cost | None:
        """The cost at a size; None if the reference does not accept it, and once the budget is spent."""
        if any(spec.kind == "offsets" and math.prod(spec.shape) > spec.high - spec.low for spec in specs):
            return None
        try:
            return self.cost(specs)
        except Exception:  # the reference may raise anything; that is the answer
            return None

    def runs(self, specs: Specs) -> bool:
        """Whether it runs on real values, among them the largest indices, and returns finite ones."""
        namespace = dict(vars(self.reference))
        set_seed(0)
        try:
            exec(write_inputs(specs), namespace)
            values = namespace["get_inputs"]()
            for value, spec in zip(values, specs, strict=True):
                if spec.kind == "integers":
                    value.flatten()[-1:] = int(spec.high) - 1
            with torch.no_grad():
                outputs = tensors_in(self.model(*values))
            return all(bool(torch.isfinite(one).all()) for one in outputs)
        except Exception:  # the reference may raise anything; that is the answer
            return False


def _holds_plain_tensors(model: torch.nn.Module) -> bool:
    """Whether a module has tensors that are neither parameters nor buffers."""
    return any(isinstance(value, torch.Tensor) for module in model.modules() for value in vars(module).values())


def _find(source: str, specs: Specs) -> tuple[Specs, Specs, str]:
    """The proof size, the measure size, and a note on that."""
    subject = Subject(source)
    cost = subject.begin(specs)
    subject.require_one_device(specs)

    def accepts(trial: Specs) -> bool:
        """More operators than before are a loop over a size, unrolled: no size that a kernel would have. Another
        number of rows than the batch has were folded by accident: `x.view(-1, 800)`."""
        found = subject.try_cost(trial)
        if found is None or found.operators > cost.operators or len(found.rows) != len(cost.rows):
            return False
        if found.unread > cost.unread == 0:
            return False
        old, new = _batch(specs), _batch(trial)
        return all(now == new for was, now in zip(cost.rows, found.rows, strict=True) if was == old)

    with subject.shapes_only():
        free = find_free(specs, accepts)
    free = _prove(subject, specs, free)
    if not free:
        raise Unscalable("sizes_are_fixed", "its parameters or literals fix every size of its inputs")
    subject.budget.left = max(subject.budget.left, _TRIALS_TO_GROW * cost.operators)
    with subject.shapes_only():
        grown = _grow(subject.try_cost, specs, cost, free)
    return _shrink(subject, specs, cost, free), *grown


def _prove(subject: Subject, specs: Specs, free: Sequence[FreeSize]) -> list[FreeSize]:
    """The free sizes with which the reference also runs on real values: fake ones do not show an index out of range.

    Bounds of integers that follow from a size are found on the way.
    """
    proved: list[FreeSize] = []
    for one in free:
        for bounds in (*_possible_bounds(specs, one), frozenset[int]()):
            trial = replace(one, bounds=bounds)
            if _runs_or_is_large(subject, trial.resize(specs, one.next_size)):
                proved.append(trial)
                break
    together = specs
    for one in proved:
        together = one.resize(together, one.next_size)
    return proved if _runs_or_is_large(subject, together) else proved[:1]


def _runs_or_is_large(subject: Subject, specs: Specs) -> bool:
    with subject.shapes_only():
        cost = subject.try_cost(specs)
    return cost is None or max(cost.work, cost.bytes) > _ALWAYS_SMALL or subject.runs(specs)


def _batch(specs: Specs) -> int:
    return next((spec.shape[0] for spec in specs if spec.kind != "literal" and len(spec.shape) > 1), -1)


def _possible_bounds(specs: Specs, free: FreeSize) -> list[frozenset[int]]:
    """The arguments whose integers may be bounded by a size: indices, and offsets, which may equal it."""
    near = [
        index for index, spec in enumerate(specs) if spec.kind in _RANGES and spec.high in (free.size, free.size + 1)
    ]
    return [frozenset(near), *(frozenset([index]) for index in near)] if near else []


def _elements(specs: Specs) -> int:
    return sum(math.prod(spec.shape) for spec in specs)


def _grow(try_cost: TryCost, specs: Specs, cost: Cost, free: Sequence[FreeSize]) -> tuple[Specs, str]:
    """The size that is aimed at, or the largest below it, and a note where that is less work than wanted."""
    order = sorted(free, key=lambda one: (one.size == 1, not one.batch))
    current = specs
    for one in order:  # uneven sizes are for proofs
        if one.powers and one.size > 1:
            current = one.resize(current, 1 << (one.size - 1).bit_length())
    found = _try(try_cost, current)
    current, cost = (current, found) if found else (specs, cost)
    for caps in _CAPS:
        for one in order:
            if cost.seconds < _WANTED_SECONDS:
                current, cost = _grow_one(try_cost, current, cost, one, caps[_role(one)])
    if current == specs:
        raise Unscalable("too_many_operators", "its operators are too many to be tried at several sizes")
    if cost.seconds < LEAST_SECONDS:
        return current, f"no more than {1000 * cost.seconds:.2g} ms of work at any size"
    return current, ""


def _shrink(subject: Subject, specs: Specs, cost: Cost, free: Sequence[FreeSize]) -> Specs:
    """The specs with free sizes halved, as far as the reference runs, until a call is no more than `MOST_WORK`."""
    for one in free:
        size = one.size
        while cost.work > MOST_WORK and one.powers and size > _LEAST:
            size = max(_LEAST, size // 2)
            trial = one.resize(specs, size)
            with subject.shapes_only():
                found = subject.try_cost(trial)
            if found is None or found.operators != cost.operators or not subject.runs(trial):
                break
            specs, cost = trial, found
    return specs


def _role(free: FreeSize) -> str:
    return "batch" if free.batch else "spatial" if free.spatial else "channels" if free.channels else "other"


def _grow_one(try_cost: TryCost, current: Specs, cost: Cost, free: FreeSize, cap: int) -> tuple[Specs, Cost]:
    """The specs with one size as large as is wanted, and as its cap and the memory allow.

    One that adds no work stays: of such an input a part is read, `x[:, 0]`.
    """
    old = size_at(current, min(free.places))
    enough = old * _WANTED_SECONDS / max(cost.seconds, 1e-12)  # at the least: some work grows faster than sizes
    sizes = [size for size in free.sizes(cap) if size > old]
    sizes = [size for size in sizes if size < 2 * enough] or sizes[-1:]
    best = None
    for size in sizes:
        trial = free.resize(current, size)
        found = _try(try_cost, trial)
        if found is None:
            continue
        if best is not None and found.seconds < _WANTED_SECONDS:
            break
        best = trial, found
        if found.seconds < 2 * _WANTED_SECONDS:
            break
    return best if best and best[1].seconds > _LEAST_GAIN * cost.seconds else (current, cost)


def _try(try_cost: TryCost, specs: Specs) -> Cost | None:
    """The cost at a size; None where the reference does not accept it or it is too large."""
    if _elements(specs) > MOST_BYTES:
        return None
    cost = try_cost(specs)
    return cost if cost and cost.seconds <= MOST_SECONDS and cost.bytes <= MOST_BYTES else None
