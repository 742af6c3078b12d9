"""Pruning a reference and checking that its outputs stay bit-identical. Runs inside the sandbox."""

import ast
import contextlib
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from musadata.dispatch import DispatchMode
from musadata.gc_freeze import gc_frozen
from musadata.mining.arguments.absent_packages import absent_packages
from musadata.mining.arguments.attempt_execution import HELPERS, tensors
from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.module_snapshots import MINED
from musadata.mining.pruning.branches import prune
from musadata.mining.pruning.constant_conditions import Observations
from musadata.mining.pruning.execution_watch import Log, instrument
from musadata.mining.pruning.idle_classes import (
    has_class_tables,
    without_idle_classes,
    without_idle_entries,
    without_metaclasses,
    without_own_defaults,
)
from musadata.mining.pruning.idle_methods import watch_entries, without_idle_methods, without_unread_properties
from musadata.mining.pruning.mentions import WORD
from musadata.mining.pruning.registries import Registries
from musadata.mining.pruning.structure import paths_of
from musadata.mining.pruning.survey import Survey, defined_names
from musadata.mining.pruning.unused import drop_unused
from musadata.mining.reading.parsing import first_line

MAX_TRIALS = 80  # of references without some registrations and the like, first all of them, then halves
MAX_PASSES = 2  # after the first: what a function returns in every case decides on what its caller does
MAX_REGISTRIES = 4  # that are tried one by one, where not all of them can be tables
MAX_SETS = 3  # of inputs, the reference's own included
FILE = "<pruned>"


class Operators(DispatchMode):
    """The aten operators that are dispatched, with the shapes that they make, but for those that only tell Python a
    number: a condition on what the model holds, `if self.is_ready:`, is one of the code that goes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[int, ...]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not torch.ops.aten._local_scalar_dense.default:
            self.found.append((str(func), tuple(result.shape) if isinstance(result, torch.Tensor) else ()))
        return result


@dataclass
class Run:
    """The operators of one call, if they were recorded, and its outputs."""

    operators: list[tuple[str, tuple[int, ...]]]
    outputs: list[torch.Tensor]


@dataclass
class Behaviour:
    """A model's state after all calls, and one call for each set of inputs, None if it fails."""

    state: dict[str, torch.Tensor]
    runs: list[Run | None]

    def equals(self, other: "Behaviour") -> bool:
        """Bit for bit."""
        if list(self.state) != list(other.state) or not _all_equal(self.state.values(), other.state.values()):
            return False
        return len(self.runs) == len(other.runs) and all(map(_same_run, self.runs, other.runs))


def _same_run(run: Run | None, other: Run | None) -> bool:
    if run is None or other is None:
        return run is other
    return run.operators == other.operators and _all_equal(run.outputs, other.outputs)


def _all_equal(first: Collection[torch.Tensor], second: Collection[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(map(_equal, first, second))


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))


@dataclass(frozen=True)
class Pruned:
    """A pruned reference, and the attempt on which its behaviour is unchanged."""

    source: str
    attempt: Attempt


def prune_and_prove(source: str, attempt: Attempt) -> Pruned:
    """The reference without code that its arguments never execute, and then without code that nothing reads.

    Unchanged if nothing can be removed, or if the rest fails or behaves differently.
    """
    try:
        with gc_frozen(len(source)):
            found = _pruned(_without_idle_classes(_without_idle_changes(source, attempt), attempt), attempt)
            found = _without_registries(found)
            for _ in range(MAX_PASSES if found.source != source else 0):
                before, found = found, _pruned(found.source, found.attempt)
                if found == before:
                    break
            return found
    except Exception:  # mined code may do anything, and a reference that cannot be pruned is kept as it is
        return Pruned(source, attempt)


def _without_idle_changes(source: str, attempt: Attempt) -> str:
    """The reference without registrations and later assignments that make no difference to its behaviour."""
    changes = [(first_line(node), node.end_lineno or 0) for node in ast.parse(source).body if _is_change(node)]
    if not changes:
        return source
    sets = [attempt, *other_shapes(attempt)][:MAX_SETS]
    seen = behaviour(source, attempt, sets)
    waiting, dropped = [changes], list[tuple[int, int]]()
    for _ in range(MAX_TRIALS):
        part = waiting.pop() if waiting else []
        if part and _behaves(Pruned(_without_lines(source, [*dropped, *part]), attempt), sets, seen):
            dropped += part
        elif len(part) > 1:
            waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
    return _without_lines(source, dropped)


def _without_registries(pruned: Pruned) -> Pruned:
    """The reference with tables in place of its registries: of all of them, or of those that allow it."""
    registries = Registries(ast.parse(pruned.source))
    sets = [pruned.attempt, *other_shapes(pruned.attempt)][:MAX_SETS]
    if not registries.possible:
        return pruned
    seen = behaviour(pruned.source, pruned.attempt, sets, prepare=registries.watch)
    names = list(registries.tables)
    for chosen in [names, *([name] for name in names[: MAX_REGISTRIES if len(names) > 1 else 0])]:
        text = registries.replaced(pruned.source, chosen)
        candidate = replace(pruned, source=text)
        if text != pruned.source and _behaves(candidate, sets, seen):
            return candidate
    return pruned


def _without_idle_classes(source: str, attempt: Attempt) -> str:
    cuts: list[Callable[[str], str]] = [without_metaclasses, without_own_defaults, without_idle_classes]
    if has_class_tables(source):
        with watch_entries(FILE) as entered:
            behaviour(source, attempt, [attempt])
        cuts.append(partial(without_idle_entries, entered=entered))
    for cut in cuts:
        text = cut(source)
        if text != source and _behaves(Pruned(text, attempt), [attempt], behaviour(source, attempt, [attempt])):
            source = text
    return source


def _is_change(node: ast.stmt) -> bool:
    imports = isinstance(node, (ast.Import, ast.ImportFrom))
    return not imports and not defined_names(node) and getattr(node, "name", "") != "Model"


def _without_lines(source: str, spans: Sequence[tuple[int, int]]) -> str:
    gone = {number for first, last in spans for number in range(first, last + 1)}
    return "".join(line for number, line in enumerate(source.splitlines(keepends=True), 1) if number not in gone)


def _pruned(source: str, attempt: Attempt, *, again: bool = False) -> Pruned:
    """`again`: a second pass over a pruned reference, in which tables may have fewer readers."""
    sets = [attempt, *other_shapes(attempt)][:MAX_SETS]
    tree = ast.parse(source)
    survey = Survey(tree)
    log = Log(paths=paths_of(tree, survey))
    with watch_entries(FILE) as entered:
        log.text = instrument(source, survey)
        seen = behaviour(log.text, attempt, sets, log)
    left = prune(source, Observations(tree, survey, log))
    for candidate in _candidates(left, attempt) if seen.runs[0] is not None else ():
        if candidate.source == source:
            break
        if (now_entered := _entered_alike(candidate, sets, seen)) is not None:
            opened = {
                name for number, keys in log.tables.items() if keys is None for name in survey.table_names(number)
            }
            more = not again and not opened.isdisjoint(WORD.findall(candidate.source))
            if more:
                return _pruned(candidate.source, candidate.attempt, again=True)
            return _without_idle_methods(candidate, now_entered, sets, seen)
    return _without_idle_methods(Pruned(source, attempt), entered, sets, seen)


def _without_idle_methods(pruned: Pruned, entered: set[str], sets: Sequence[Attempt], seen: Behaviour) -> Pruned:
    """The reference without methods that no set of inputs enters, and without what nothing reads then."""
    if seen.runs[0] is None:
        return pruned
    fewer = without_unread_properties(pruned.source)
    for text in (without_idle_methods(fewer, entered), without_idle_methods(pruned.source, entered)):
        for candidate in _candidates(text, pruned.attempt) if text != pruned.source else ():
            now_entered = _entered_alike(candidate, sets, seen)
            if now_entered is not None:  # what it named may be idle now
                return _without_idle_methods(candidate, now_entered, sets, seen)
    return pruned


def _candidates(source: str, attempt: Attempt) -> Iterator[Pruned]:
    """Candidates for the pruned text, shortest first."""
    tried = set()
    for objects, placement in ((2, True), (1, True), (0, True), (0, False)):
        with contextlib.suppress(SyntaxError):
            count = len(attempt.draws)
            text, init = drop_unused(source, attempt.init, count, placement=placement, objects=objects)
            if text not in tried:
                yield Pruned(text, replace(attempt, init=init))
            tried.add(text)
    yield Pruned(source, attempt)


def _behaves(candidate: Pruned, sets: Sequence[Attempt], seen: "Behaviour") -> bool:
    init = candidate.attempt.init
    try:
        return behaviour(candidate.source, candidate.attempt, [replace(one, init=init) for one in sets]).equals(seen)
    except Exception:
        return False


def _entered_alike(candidate: Pruned, sets: Sequence[Attempt], seen: "Behaviour") -> set[str] | None:
    """The functions that a candidate enters, if it behaves as seen; else None."""
    with watch_entries(FILE) as entered:
        return entered if _behaves(candidate, sets, seen) else None


def behaviour(
    source: str,
    attempt: Attempt,
    sets: Sequence[Attempt],
    log: Log | None = None,
    prepare: Callable[[dict[str, Any]], None] | None = None,
) -> Behaviour:
    """Construct a reference and run it on every set of inputs.

    `prepare`: what is done with the names that it binds before it is constructed.
    """
    space: dict[str, Any] = {"__name__": MINED, **(log.space() if log else {})}
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        with absent_packages(source):
            exec(compile(source, FILE, "exec", dont_inherit=True), space)
        if prepare is not None:
            prepare(space)
        _seed(0)
        model = space["Model"](*[eval(text, {**HELPERS, **space}) for text in attempt.init])
        model.eval()  # not what it returns, which need not be the model
        if log is not None:
            log.constructed(model)
        runs = [_run(model, one, space, record=not number) for number, one in enumerate(sets)]
        return Behaviour(model.state_dict(), runs)


def _run(model: Any, attempt: Attempt, space: dict[str, Any], *, record: bool) -> Run | None:
    _seed(1)
    inputs = [
        eval(draw.literal, {**HELPERS, **space}) if draw.kind == "literal" else draw.draw(torch)
        for draw in attempt.draws
    ]
    operators = Operators()
    try:
        with operators if record else contextlib.nullcontext():
            outputs = tensors(model(*inputs))
    except Exception:
        return None
    return Run(operators.found, outputs)


def _seed(seed: int) -> None:
    """Seed every generator that constructors and `forward` draw from, or two runs would never be equal."""
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)  # `torch.manual_seed` spends a millisecond on devices


def other_shapes(attempt: Attempt) -> Iterator[Attempt]:
    """Variants of the attempt in which all dimensions of one size are changed together."""
    with contextlib.suppress(ValueError):
        values, first = attempt.values(), attempt.init_count()
        shaped = [place for place in range(first, len(values)) if place not in attempt.bound_slots()]
        for size in dict.fromkeys(values[place] for place in shaped):
            changed = [size + 1 + size // 4 if place in shaped and value == size else value
                       for place, value in enumerate(values)]  # fmt: skip
            yield attempt.with_values(tuple(changed))
