"""Proof sizes for a reference that comes alone, at any size. Runs inside the sandbox: `shrink` is the child's side.

Its sizes stand in its text as integers. They are replaced by smaller ones, those of one value together, until one call
is little enough work for any backend: each by the same power of itself, so that what is larger stays larger. The text
is executed on fake tensors alone until its sizes are small.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.rows import restore
from musadata.tasks.checked_reference import describe
from musadata.tasks.input_specs import infer_specs, own_spec
from musadata.tasks.made_inputs import find_made, find_unread
from musadata.tasks.operator_recording import tensors_in
from musadata.tasks.reference_loading import build_model, load_reference, set_seed
from musadata.tasks.sizing.constants import Constant, find_constants, find_parameters, replace_constants
from musadata.tasks.sizing.fake_execution import Cost, OperatorBudget, Unscalable, measure_cost, shapes_only
from musadata.tasks.sizing.inputs_text import write_inputs

ENOUGH_WORK = 1 << 18  # of one call: the emulator proves a candidate within a second
MOST_WORK = 1 << 24  # of a proof size; above, no candidate would end on the emulator
MOST_DRAWN = 1 << 26  # elements
_CERTAINLY_SMALL = 1 << 15  # the product of all sizes, the largest cubed; then nothing is loaded to find out more
_MOST_FAKE_OPERATORS = 4000
_WINDOW = 16
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
_DRAWS = 3
_FIXED = "sizes_are_fixed"
_STEP = 0.04  # of the power, when the first one gives too much work
_SHARES = (1.0, 0.7, 0.4)  # of it, in further rounds
_LAST_SHARE = 0.2  # beside sizes that stay as they are
_TRIALS = 8
_LEAST_HALVED = 4
_LITTLE_MORE = 1.6
_RISING = ("offsets", "segments")
_WHOLE_WARPS = 64
_SEEN_OF_RANGE = 0.9  # of the integers below a bound, in a few draws

_UNKNOWN = Cost(seconds=0.0, bytes=0, work=1 << 34, operators=0)  # of what is too much to be worked out

Values = dict[Constant, int]


@dataclass(frozen=True)
class _Trial:
    """A text with other sizes, and what one call of its model costs."""

    values: Values
    cost: Cost


class _Shrinking:
    """The search for smaller sizes of one text, of which some stay."""

    def __init__(
        self,
        source: str,
        kept: frozenset[Constant] = frozenset(),
        most_work: int = MOST_WORK,
        enough: int = ENOUGH_WORK,
        in_one_pass: bool = False,
    ):
        self._source, self._kept, self._most_work, self._enough = source, kept, most_work, enough
        self._in_one_pass = in_one_pass  # what scans: kernels that read a whole prefix end for lack of time
        self._constants = find_constants(source)
        self._sizes = [one for one in self._constants if not one.bounds]
        self._budget = OperatorBudget(_MOST_FAKE_OPERATORS)
        self._with_devices = self._leaves_unread = False
        self.work = self.least_work = 0  # of one call of the text as it is, and of the last of what `find` returns

    def find(self) -> list[Values]:
        """Other values for some of the text's integers; none if it is little work as it is.

        First uneven ones, then such as are as even as the text's own: a candidate may rely on that, and may have a path
        of its own for them. The constructor's arguments stay if the others suffice: parameters fix them,
        so that candidates may have them written into them.

        Raises:
            Unscalable: what the reference does depends on values, or no smaller sizes were found.
        """
        cost = self._own_cost()
        self._leaves_unread = cost.unread > 0
        self.work = self.least_work = cost.work - cost.scanned
        if cost.work <= self._enough:
            return [{}]
        own = _Trial({}, cost)
        found, budget = own, max(self._budget.left, _TRIALS * cost.operators)
        for fixed in dict.fromkeys((frozenset(self._of_parameters()), frozenset[int]())):
            self._budget.left = budget
            self._sizes = [
                one for one in self._constants if not one.bounds and one.value not in fixed and one not in self._kept
            ]
            found = self._shrink_evenly(own) or self._shrink_in_turn(own)
            if found.cost.work <= 2 * self._enough:
                break
        if self._kept:
            found = self._raise_cheap(found)
        if found.cost.work > self._most_work:
            raise Unscalable(_FIXED, "no smaller sizes of it were found that run")
        even = self._keep_apart(self._restore_others(found))
        uneven = self._make_uneven(even)
        self.least_work = even.cost.work - even.cost.scanned
        return [self._with_bounds(one.values) for one in ([uneven] if uneven is even else [uneven, even])]

    def _of_parameters(self) -> set[int]:
        """The values of the constructor's arguments, except for those of integers alone."""
        return {one.value for one in find_parameters(self._source)}

    def _own_cost(self) -> Cost:
        try:
            return self._cost(self._source)
        except Unscalable as why:
            if why.reason == "too_many_operators":  # loops over sizes, unrolled
                self._budget = OperatorBudget(5 * _MOST_FAKE_OPERATORS)
                return _UNKNOWN
        except Exception:  # it needs real tensors, or reads values
            self._with_devices = True
        try:
            return self._cost(self._source)
        except Unscalable:
            raise
        except Exception as error:  # whatever the reference raises
            raise Unscalable("does_not_run", f"without memory: {describe(error)}") from error

    def _shrink_evenly(self, own: _Trial) -> _Trial | None:
        """All sizes by the same power, which is guessed: the work is about a product of sizes."""
        power = math.log(self._enough) / math.log(own.cost.work)
        for _ in range(_TRIALS if self._sizes else 0):
            found = self._try({one: _even(one.value, power) for one in self._sizes})
            if found is None:
                return None
            if found.cost.work <= self._enough:
                return found
            power -= _STEP
        return None

    def _shrink_in_turn(self, own: _Trial) -> _Trial:
        """One size after the other, the largest first, some less than others; again and to less where that is too much
        work still."""
        best = own
        groups = _of_one_value(self._sizes)
        for share in (*_SHARES, *[_LAST_SHARE] * bool(self._kept)):
            before = best.values
            for together in (*groups, *((one,) for group in groups if len(group) > 1 for one in group)):
                power = share * math.log(self._enough) / math.log(own.cost.work)
                while power < 1 and all(best.values.get(one) == before.get(one) for one in together):
                    found = self._try(best.values | {one: _even(one.value, power) for one in together})
                    if found is not None and found.cost.work < best.cost.work:
                        best = found
                    power += 3 * _STEP
            if best.cost.work <= 2 * self._enough:
                break
        return best

    def _make_uneven(self, found: _Trial) -> _Trial:
        """Sizes that are no multiples of anything, where the reference accepts them."""
        for together in _of_one_value([one for one, value in found.values.items() if value % 2 == 0]):
            trial = self._try(found.values | {one: found.values[one] | 1 for one in together})
            if trial is not None and trial.cost.work <= 2 * self._enough:
                found = trial
        return found

    def _restore_others(self, found: _Trial) -> _Trial:
        """Integers that are no sizes, since the work is the same with them as they were, and small ones that may stay:
        they are often sizes of windows."""
        for one in list(found.values):
            trial = self._try({other: value for other, value in found.values.items() if other != one})
            most = 2 * self._enough if one.value <= _WINDOW else found.cost.work
            if trial is not None and trial.cost.work <= most:
                found = trial
        return found

    def _raise_cheap(self, found: _Trial) -> _Trial:
        """Sizes that have become smaller than what vectors divide are so no more, where that is little more work: the
        length of a head is, beside a sequence that stays."""
        most = max(2 * self._enough, int(_LITTLE_MORE * found.cost.work))
        for together in _of_one_value(list(found.values)):
            twos = min(together[0].value & -together[0].value, _WINDOW)
            while twos > found.values.get(together[0], twos):
                trial = self._try(found.values | dict.fromkeys(together, twos))
                if trial is not None and trial.cost.work <= most:
                    found = trial
                twos //= 2
        return found

    def _keep_apart(self, found: _Trial) -> _Trial:
        """Sizes that would equal an integer that stays are doubled: as many groups as channels are another case. Of two
        that would be equal the larger is doubled or the smaller halved: so is an image that is a square."""
        stay = {one.value for one in find_constants(self._source, least=2) if one not in found.values}
        groups = _of_one_value(list(found.values))
        for together in groups:
            if found.values[together[0]] in stay:
                doubled = found.values | {one: _near(one.value, 2 * found.values[one]) for one in together}
                trial = self._try_with_smaller(doubled, [group for group in groups if group != together])
                found = trial or found
        for larger, smaller in itertools.combinations(groups, 2):
            both = {found.values.get(group[0]) for group in (larger, smaller)}
            for group, factor in ((larger, 2.0), (smaller, 0.5)) if len(both) == 1 else ():
                trial = self._move(found, group, factor, stay)
                if trial is not None:
                    found = trial
                    break
        return found

    def _move(self, found: _Trial, group: tuple[Constant, ...], factor: float, stay: set[int]) -> _Trial | None:
        """With some sizes larger or smaller by a factor, unless others have that size, or it is too much work."""
        new = int(factor * found.values.get(group[0], 0))
        taken = stay | {value for one, value in found.values.items() if one not in group}
        if new in taken or not _LEAST_HALVED <= new < group[0].value:
            return None
        trial = self._try(found.values | {one: _near(one.value, new) for one in group})
        return trial if trial is not None and trial.cost.work <= 2 * self._enough else None

    def _try_with_smaller(self, values: Values, groups: list[tuple[Constant, ...]]) -> _Trial | None:
        """The text with these sizes, and with the largest of these groups halved while it is too much work."""
        for _ in range(_TRIALS):
            trial = self._try(values)
            if trial is None or trial.cost.work <= 2 * self._enough:
                return trial
            largest = max(groups, key=lambda group: values[group[0]], default=())
            if not largest or values[largest[0]] < _LEAST_HALVED:
                return None
            values = values | {one: _near(one.value, values[one] / 2) for one in largest}
        return None

    def _try(self, values: Values) -> _Trial | None:
        """The text with other sizes; None if it does not run with them, or the budget is spent."""
        changed = {one: value for one, value in values.items() if value != one.value}
        try:
            cost = self._cost(replace_constants(self._source, self._with_bounds(changed)))
        except Exception:  # the reference may raise anything; that is the answer
            return None
        return None if cost.unread and not self._leaves_unread else _Trial(changed, cost)

    def _with_bounds(self, values: Values) -> Values:
        """These sizes, and bounds of integers that are no larger than any size that they were equal to."""
        equal = {
            bound: [
                values.get(one, one.value) for one in self._constants if not one.bounds and one.value == bound.value
            ]
            for bound in self._constants
            if bound.bounds
        }
        return values | {bound: min(sizes) for bound, sizes in equal.items() if sizes and min(sizes) < bound.value}

    def _cost(self, source: str) -> Cost:
        set_seed(0)
        with shapes_only(self._with_devices):
            reference = load_reference(source)
            model = reference.Model(*reference.get_init_inputs())
            cost = measure_cost(model, list(reference.get_inputs()), self._budget)
        return replace(cost, work=cost.work - cost.scanned, scanned=0) if self._in_one_pass else cost


def _even(size: int, power: float) -> int:
    """About this power of the size, see `_near`; the size itself if that is not smaller."""
    return min(size, _near(size, size**power))


def _near(size: int, wanted: float) -> int:
    """A size near the wanted one that two divides as often as it does `size`, so that the same is left over by vectors,
    warps and blocks; a power of two for what whole warps divide, and where the wanted size is too small for that."""
    twos = size & -size
    if twos == size or twos >= _WHOLE_WARPS or wanted < 2 * twos:
        return 1 << max(1, round(math.log2(wanted)))
    return twos * max(3, 2 * round((wanted / twos - 1) / 2) + 1)


def _of_one_value(constants: Sequence[Constant]) -> list[tuple[Constant, ...]]:
    """Those of one value together, the largest first."""
    values = sorted({one.value for one in constants}, reverse=True)
    return [tuple(one for one in constants if one.value == value) for value in values]


def resize_reference(
    source: str, sizes: Sequence[Sequence[int]], most_work: int, enough: int = ENOUGH_WORK
) -> dict[str, Any]:
    """What `read_reference` returns for the text with some sizes of other values, [old, new], that stay; of one value
    all, or [old, new, number] one of them. The others are as large as makes about `enough` work of a call; there are no
    forms if it is more than `most_work`. `work`: of the last form."""
    constants = [one for one in find_constants(source) if not one.bounds]
    resized: dict[Constant, int] = {}
    for old, new, *number in sizes:
        alike = [one for one in constants if one.value == old]
        resized |= dict.fromkeys([alike[number[0]]] if number else alike, new)
    changed = replace_constants(source, resized)
    moved = zip(constants, (one for one in find_constants(changed) if not one.bounds), strict=False)
    kept = frozenset(now for before, now in moved if before in resized)
    shrinking = _Shrinking(changed, kept, most_work, enough, in_one_pass=True)
    try:
        found = shrinking.find()
        forms = [_form(changed, shrunk) for shrunk in found]
    except Unscalable as why:
        return {"forms": [], "measure": [], "reason": f"{why.reason}: {why.detail}".strip(": "), "work": 0}
    others = [[one.name, one.line, one.value, new] for one, new in resized.items() if new != one.value]
    forms = [{**form, "shrunk": form["shrunk"] + others} for form in forms]
    return {"forms": forms, "measure": [], "reason": "", "work": shrinking.least_work}


def read_reference(source: str) -> dict[str, Any]:
    """What judging a reference of any size needs, as plain values.

    Returns:
        `forms`, the better proof first, each with `reference`: the text at a proof size; `inputs`: its specs; `shrunk`:
        [name, line, old, new] of every size that was changed. `measure`: the specs of the text as it is, if it is
        larger than that, and the `work` of one call of it, if it scans in one pass. `reason`: why it is too large and
        cannot be shrunk, if there are no forms.
    """
    found: list[Values] = [{}]
    work = 0
    try:
        sizes = [one.value for one in find_constants(source)]
        if math.prod(sizes) * max(sizes, default=0) ** 2 > _CERTAINLY_SMALL:
            shrinking = _Shrinking(source)
            found = shrinking.find()
            work = shrinking.work
    except SyntaxError:
        pass  # loading it says where
    except Unscalable as why:
        if why.reason == _FIXED or _is_large(source):
            reason = f"{why.reason}: {why.detail}".strip(": ")
            return {"forms": [], "measure": _draw_own_specs(source), "reason": reason, "work": 0}
        found = _shrink_by_running(source) or found
    try:
        forms = [_form(source, shrunk) for shrunk in found]
    except Unscalable as why:
        if work > MOST_WORK or _is_large(source):
            return {"forms": [], "measure": _draw_own_specs(source), "reason": f"{why.reason}: {why.detail}", "work": 0}
        found = [{}]
        forms = [_form(source, {})]
    measure = _enlarge(source, forms[0]["inputs"], found[0]) if found[0] else []
    return {"forms": forms, "measure": measure, "reason": "", "work": work}


def _shrink_by_running(source: str) -> list[Values]:
    """Smaller sizes of large inputs, where operators depend on values so that only real tensors show what runs; none
    where it does not run with them, or is small."""
    parameters = {one.value for one in find_parameters(source)}
    sizes = [one for one in find_constants(source) if not one.bounds and one.value not in parameters]
    values = {one: _even(one.value, 0.5) for one in sizes}
    try:
        if sum(one.numel() for one in tensors_in(_fake_inputs(source))) <= ENOUGH_WORK:
            return []
        _form(source, values)
    except Exception:  # the reference may raise anything; that is the answer
        return []
    return [values]


def _form(source: str, shrunk: Values) -> dict[str, Any]:
    text = replace_constants(source, shrunk)
    changed = [[one.name, one.line, one.value, value] for one, value in shrunk.items()]
    reference = load_reference(text)
    model = build_model(reference, 0)
    specs = list(map(_with_range, _draw_specs(reference, model, text)))
    inputs = _keep_own(reference, model, text, specs, bool(shrunk))
    return {"reference": text, "inputs": inputs, "shrunk": changed}


def _with_range(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec in which a float of Python has a range: it may be another one."""
    try:
        value = float(spec["literal"]) if spec["kind"] == "literal" and "." in spec["literal"] else 0.0
    except ValueError:
        return spec
    if value == 0.0 or not math.isfinite(value):
        return spec
    return {**spec, "low": min(0.5 * value, 1.5 * value), "high": max(0.5 * value, 1.5 * value)}


def _keep_own(
    reference: ModuleType, model: torch.nn.Module, text: str, inputs: list[dict[str, Any]], shrunk: bool
) -> list[dict[str, Any]]:
    """The specs, in which `get_inputs` draws what is made of other tensors and, where the reference fails on others,
    integers and then all: spatial shapes, offsets and lengths agree with each other and with other inputs.

    Raises:
        Unscalable: it was `shrunk`, and fails on its own values, too.
    """
    if _runs(reference, model, inputs):
        return inputs
    if shrunk and not _accepts(model, reference.get_inputs):
        raise Unscalable(_FIXED, "values that inputs hold name places beyond smaller sizes")
    for kinds in (("integers", "choice", *_RISING), ("integers", "choice", *_RISING, "normal", "uniform", "bool")):
        own = [own_spec(one, at, text) if one["kind"] in kinds else one for at, one in enumerate(inputs)]
        if _runs(reference, model, own):
            return own
    return inputs


def _runs(reference: ModuleType, model: torch.nn.Module, inputs: list[dict[str, Any]]) -> bool:
    is_own = [spec["kind"] == "own" for spec in inputs]
    plain = [
        {**spec, "kind": "literal", "literal": "None"} if own else spec
        for spec, own in zip(inputs, is_own, strict=True)
    ]
    namespace = dict(vars(reference))
    exec(write_inputs([restore(InputSpec, spec) for spec in plain]), namespace)

    def get_inputs() -> list[Any]:
        values = zip(namespace["get_inputs"](), reference.get_inputs(), is_own, strict=True)
        return [given if own else drawn for drawn, given, own in values]

    return _accepts(model, get_inputs)


def _accepts(model: torch.nn.Module, get_inputs: Callable[[], list[Any]]) -> bool:
    set_seed(0)
    try:
        with torch.no_grad():
            for _ in range(_TRIALS):
                model(*get_inputs())
    except Exception:  # the reference may raise anything; that is the answer
        return False
    return True


def _draw_specs(reference: ModuleType, model: torch.nn.Module, text: str) -> list[dict[str, Any]]:
    """Specs of the arguments of `forward`, as plain values, from three draws of `get_inputs`."""
    draws = []
    for seed in range(_DRAWS):
        set_seed(seed)
        draws.append(list(reference.get_inputs()))
    specs = infer_specs(model, draws, find_made(reference.get_inputs, draws), text)
    whole = [isinstance(value, torch.Tensor) and value.dtype in _WHOLE for value in draws[0]]
    unread = find_unread(text)
    if any(is_whole and spec["name"] in unread for is_whole, spec in zip(whole, specs, strict=True)):
        # Offsets beside indices, an order of rows: only `get_inputs` shows what they mean, and which belong together.
        return [
            own_spec(spec, at, text) if is_whole else spec
            for at, (is_whole, spec) in enumerate(zip(whole, specs, strict=True))
        ]
    return specs


def _draw_own_specs(source: str) -> list[dict[str, Any]]:
    """The specs of a text that does not run at other sizes: its inputs alone are drawn at smaller ones, if they can."""
    with shapes_only():
        model = build_model(load_reference(source), 0)
    small = {one: _even(one.value, 0.5) for one in find_constants(source)}
    text = replace_constants(source, small)
    return _enlarge(source, _draw_specs(load_reference(text), model, text), small)


def _fake_inputs(source: str) -> list[Any]:
    with shapes_only():
        return list(load_reference(source).get_inputs())


def _is_large(source: str) -> bool:
    """Whether a draw of its inputs has more elements than a machine should hold for nothing."""
    try:
        return sum(one.numel() for one in tensors_in(_fake_inputs(source))) > MOST_DRAWN
    except Exception:  # then it is tried as it is, within the limits of the sandbox
        return False


def _enlarge(source: str, inputs: list[dict[str, Any]], shrunk: Values) -> list[dict[str, Any]]:
    """The specs of the text's own size: bounds of integers that are a size that was shrunk grow back with it."""
    sizes: dict[int, int] = {}
    for one, value in shrunk.items():
        sizes[value] = min(one.value, sizes.get(value, one.value))
    enlarged = []
    for spec, value in zip(inputs, _fake_inputs(source), strict=True):
        if isinstance(value, torch.Tensor):
            is_bound = spec["kind"] in ("integers", *_RISING)
            near = (one for one in sorted(sizes) if _SEEN_OF_RANGE * one <= spec["high"] <= one)
            high = sizes[found] if is_bound and (found := next(near, None)) else spec["high"]
            spec = {**spec, "shape": list(value.shape), "high": float(high)}
            spec |= {"literal": source} if spec["kind"] == "own" else {}
        enlarged.append(spec)
    return enlarged
