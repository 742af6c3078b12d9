"""Pruning a reference and checking that its outputs stay bit-identical. Runs inside the sandbox."""

import ast
import contextlib
import random
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from musadata.dispatch import DispatchMode
from musadata.gc_freeze import gc_frozen
from musadata.mining.arguments.absent_packages import absent_packages
from musadata.mining.arguments.attempt_execution import HELPERS
from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.module_snapshots import MINED
from musadata.mining.pruning.branches import prune
from musadata.mining.pruning.constant_conditions import Observations
from musadata.mining.pruning.execution_watch import Log, instrument, paths_of
from musadata.mining.pruning.idle_methods import watch_entries, without_idle_methods
from musadata.mining.pruning.survey import Survey, defined_names
from musadata.mining.pruning.unused import drop_unused
from musadata.mining.reading.parsing import first_line
from musadata.mining.reading.results import tensors

MAX_TRIALS = 80  # of references without some registrations and the like, first all of them, then halves
MAX_PASSES = 4  # over all edits: what a function returns in every case decides on what its caller does
MAX_SETS = 3  # of inputs on which a candidate must behave alike, its own included
MAX_SHAPES = 4  # other ones that are tried for these
MAX_LARGE = 2  # further ones on which code is observed
LARGE = 32  # times a size, where inputs have no more elements than this then:
MAX_ELEMENTS = 1 << 15
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
            return _Reduction(Pruned(source, attempt)).run()
    except Exception:  # mined code may do anything, and a reference that cannot be pruned is kept as it is
        return Pruned(source, attempt)


class _Reduction:
    """Delta debugging: of what an edit proposes, shortest first, that is taken which behaves as the original does."""

    def __init__(self, original: Pruned):
        self._found, self._entered = original, set[str]()
        self._sets = [original.attempt, *islice(other_shapes(original.attempt), MAX_SHAPES)]
        self._seen = self._run(original.source, self._sets)
        if None in self._seen.runs or len(self._sets) > MAX_SETS:
            pairs = zip(self._sets, self._seen.runs, strict=True)
            self._sets = [one for one, run in pairs if run is not None][:MAX_SETS]
            self._seen = self._run(original.source, self._sets)
        self._observed = [*self._sets, *islice(other_shapes(original.attempt, LARGE), MAX_LARGE)]

    def run(self) -> Pruned:
        """The reference after all edits, until none changes it."""
        if self._sets[0] != self._found.attempt:  # it does not run
            return self._found
        self._drop_changes()
        for _ in range(MAX_PASSES):
            before = self._found
            for edit in (self._without_unexecuted, self._without_idle_methods):
                self._take(edit)
            if self._found == before:
                break
        return self._found

    def _take(self, edit: "Edit") -> None:
        for candidate in edit(self._found):
            if candidate == self._found or self._accept(candidate):
                return

    def _accept(self, candidate: Pruned) -> bool:
        """Whether a candidate behaves as the original does; it is what is gone on with then."""
        entered, self._entered = self._entered, set()
        try:
            sets = [replace(one, init=candidate.attempt.init) for one in self._sets]
            if self._run(candidate.source, sets).equals(self._seen):
                self._found = candidate
                return True
        except Exception:
            pass
        self._entered = entered
        return False

    def _run(self, source: str, sets: Sequence[Attempt], log: Log | None = None) -> Behaviour:
        with watch_entries(FILE) as entered:
            found = behaviour(source, replace(self._found.attempt, init=sets[0].init), sets, log)
        self._entered |= entered
        return found

    def _drop_changes(self) -> None:
        """Drop registrations and later assignments that make no difference: all of them, then halves."""
        source = self._found.source
        waiting = [[(first_line(node), node.end_lineno or 0) for node in ast.parse(source).body if _is_change(node)]]
        dropped = list[tuple[int, int]]()
        for _ in range(MAX_TRIALS):
            part = waiting.pop() if waiting else []
            text = _without_lines(source, [*dropped, *part])
            if part and self._accept(replace(self._found, source=text)):
                dropped += part
            elif len(part) > 1:
                waiting += [part[: len(part) // 2], part[len(part) // 2 :]]

    def _without_unexecuted(self, found: Pruned) -> Iterator[Pruned]:
        """Without code that no run executes, and without what nothing reads then."""
        tree = ast.parse(found.source)
        survey = Survey(tree)
        log = Log(paths_of(survey))
        sets = [replace(one, init=found.attempt.init) for one in self._observed]
        self._run(instrument(found.source, survey), sets, log)
        yield from _candidates(prune(found.source, Observations(tree, survey, log)), found.attempt)

    def _without_idle_methods(self, found: Pruned) -> Iterator[Pruned]:
        """Without methods that no run enters, and without what nothing reads then."""
        text = without_idle_methods(found.source, self._entered)
        yield from _candidates(text, found.attempt) if text != found.source else ()


Edit = Callable[[Pruned], Iterator[Pruned]]


def _is_change(node: ast.stmt) -> bool:
    imports = isinstance(node, (ast.Import, ast.ImportFrom))
    return not imports and not defined_names(node) and getattr(node, "name", "") != "Model"


def _without_lines(source: str, spans: Sequence[tuple[int, int]]) -> str:
    gone = {number for first, last in spans for number in range(first, last + 1)}
    return "".join(line for number, line in enumerate(source.splitlines(keepends=True), 1) if number not in gone)


def _candidates(source: str, attempt: Attempt) -> Iterator[Pruned]:
    """Candidates for the pruned text, shortest first."""
    tried = set()
    for objects in (2, 1, 0):
        with contextlib.suppress(SyntaxError):
            count = len(attempt.draws)
            text, init = drop_unused(source, attempt.init, count, objects=objects)
            if text not in tried:
                yield Pruned(text, replace(attempt, init=init))
            tried.add(text)
    yield Pruned(source, attempt)


def behaviour(
    source: str,
    attempt: Attempt,
    sets: Sequence[Attempt],
    log: Log | None = None,
) -> Behaviour:
    """Construct a reference and run it on every set of inputs."""
    space: dict[str, Any] = {"__name__": MINED, **(log.space() if log else {})}
    with warnings.catch_warnings(), torch.no_grad(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        with absent_packages(source):
            exec(compile(source, FILE, "exec", dont_inherit=True), space)
        _seed(0)
        model = space["Model"](*[eval(text, {**HELPERS, **space}) for text in attempt.init])
        model.eval()  # not what it returns, which need not be the model
        runs = []
        for number, one in enumerate(sets):
            if log is not None:
                log.begin(number)
            runs.append(_run(model, one, space, record=not number))
            if log is not None:
                log.end(failed=runs[-1] is None)
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


def other_shapes(attempt: Attempt, times: int = 1) -> Iterator[Attempt]:
    """Variants of the attempt in which all dimensions of one size are changed together: a little, or by far.

    `times`: how many times as large they are. What is done for large inputs alone is seen by these.
    """
    with contextlib.suppress(ValueError):
        values, first = attempt.values(), attempt.init_count()
        shaped = [place for place in range(first, len(values)) if place not in attempt.bound_slots()]
        for size in dict.fromkeys(values[place] for place in shaped):
            grown = times * size if times > 1 else size + 1 + size // 4
            changed = [grown if place in shaped and value == size else value for place, value in enumerate(values)]
            variant = attempt.with_values(tuple(changed))
            if times == 1 or sum(draw.elements for draw in variant.draws) <= MAX_ELEMENTS:
                yield variant
