"""Searching constructor arguments and inputs on which a mined module runs. Runs inside the sandbox."""

import inspect
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import torch

from musadata.dispatch import check_without_compiler
from musadata.mining.arguments.absent_packages import AbsentPackage
from musadata.mining.arguments.attempt_execution import TRANSIENT, AttemptRunner, Result
from musadata.mining.arguments.attempts import Attempt, shrunk, with_fewer_rows, with_init
from musadata.mining.arguments.branch_scales import open_branches
from musadata.mining.arguments.facts import find_facts
from musadata.mining.arguments.filling import cheap_filling
from musadata.mining.arguments.guesses import guess_arguments, modest
from musadata.mining.arguments.input_shapes import guess_inputs
from musadata.mining.arguments.normalize_examples import normalize_example
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.arguments.repairs.repair import repair
from musadata.mining.arguments.signatures import constructor_owner, constructor_signature, positional_form
from musadata.mining.arguments.solving import Trial, solve
from musadata.mining.arguments.task_sizes import fill_identities, improve_sizes
from musadata.mining.loss_reasons import loss_reason
from musadata.mining.pruning.proving import Pruned, prune_and_prove
from musadata.mining.reading.messages import ANY_INPUTS, NO_INPUTS
from musadata.mining.slicing.given_arguments import given_in_subclass, names_definitions
from musadata.mining.slicing.imports import without_imports
from musadata.mining.unrun_statements import mostly_unrun, watched_lines

MAX_TRIES = 240  # per module
WARM_UP_MODULE = Path(__file__).with_name("warm_up_module.txt")
MAX_AT_ONCE = 1 << 19  # elements of an example's inputs that are tried before smaller ones
MAX_SHOWN = 1 << 15  # elements of an example's inputs that are taken as they are
CEILINGS_AS_SHOWN = (MAX_SHOWN, 256, 128, 64, 32)
FEWER_ROWS = (8, 2, 1)
MAX_REPAIRED = 600  # corrections that wait to be tried
PER_GUESS = 40  # attempts at one family of guesses
PATIENCE = 12  # attempts that come no further before the sizes are solved for
EARLY_TRIES = 40  # for that
LAST_TRIES = 160  # for that, where all families of guesses failed
MAX_STARTS = 3  # failures from which the sizes are solved for
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
MAX_ABSENT = 3  # tries that use an absent package or name; others will use it as well


Hints = dict[str, dict[str, Any]]


def search_arguments(
    source: str,
    class_name: str,
    examples: list[dict[str, Any]],
    salt: str,
    hints: Hints | None = None,
    *,
    as_shown: bool = False,
) -> dict[str, Any]:
    """Arguments for the `Model` of `source`.

    Args:
        source: imports and definitions of a reference.
        class_name: what `Model` was called.
        examples: `musadata.mining.slicing.evidence.Example`s as plain dicts, best first.
        salt: varies the sizes from module to module.
        hints: classes by their names in the reference -> what `musadata.mining.slicing.drafting` knows of constructors.
        as_shown: prefer examples without changes.

    Returns:
        `init`, `inputs`: lists of expressions; `evidence`: where they come from; `tries`. Or `reason` and `detail`.
    """
    with cheap_filling():
        found, attempt = _search(source, examples, salt, hints or {}, as_shown=as_shown)
    if attempt is None or _run(source, attempt).ok:
        return found
    return _search(source, examples, salt, hints or {}, as_shown=as_shown)[0]  # its parameters matter


def search_pair(source: str, class_name: str, examples: list[dict[str, Any]], salt: str) -> dict[str, Any]:
    """`search_arguments` for a kernel's plain version, with the sizes and types of the examples as they are.

    A kernel refuses many sizes that its plain version takes: those that are no multiple of a warp, for one.
    """
    return search_arguments(source, class_name, examples, salt, as_shown=True)


def search_and_prune(
    source: str, class_name: str, examples: list[dict[str, Any]], salt: str, hints: Hints | None = None
) -> dict[str, Any]:
    """`search_arguments`, and `definitions`: `source` without the code that these arguments never execute."""
    try:
        return _search_and_prune(_by_position(source), class_name, examples, salt, hints)
    except AbsentPackage as error:  # where a signature is read, say
        return {"reason": "needs_package", "detail": str(error)}


def _search_and_prune(
    source: str, class_name: str, examples: list[dict[str, Any]], salt: str, hints: Hints | None
) -> dict[str, Any]:
    with cheap_filling():
        found, attempt = _search(source, examples, salt, hints or {})
        pruned = _pruned(source, attempt, class_name) if attempt is not None else None
    if pruned is None:
        return found
    for definitions in dict.fromkeys((without_imports(pruned.source), pruned.source)):
        seen: set[int] = set()
        with watched_lines(TRANSIENT, seen):
            result = _run(definitions, pruned.attempt)
        if not result.ok:
            continue
        unrun = mostly_unrun(definitions, pruned.attempt, seen)
        if unrun:
            return {"reason": "mostly_unrun", "detail": unrun}
        return {**found, "definitions": definitions, "init": list(pruned.attempt.init)}
    return {**_search(source, examples, salt, hints or {})[0], "definitions": source}


def _pruned(source: str, attempt: Attempt, class_name: str) -> Pruned:
    """The pruned source; `Model` makes its arguments itself where they need definitions of the source."""
    if names_definitions(source, attempt.init) and class_name != "Model":
        source = given_in_subclass(source, attempt.init, class_name)
        attempt = replace(attempt, init=())
    return prune_and_prove(source, attempt)


def _by_position(source: str) -> str:
    """The source with arguments that can be given by position; unchanged if it cannot be executed."""
    try:
        runner = AttemptRunner(source, 1)
        return positional_form(source, runner.load(), runner.space)
    except Exception:
        return source


def _run(source: str, attempt: Attempt) -> Result:
    """The result of an attempt in a new namespace with the module's own parameter initialization."""
    runner = AttemptRunner(source, 1)
    try:
        runner.load()
    except Exception as error:
        return Result(False, f"{type(error).__name__}: {error}"[:300])
    return runner.attempt(attempt)


def _search(
    source: str, examples: list[dict[str, Any]], salt: str, hints: Hints, *, as_shown: bool = False
) -> tuple[dict[str, Any], Attempt | None]:
    """The result of `search_arguments`, and its attempt."""
    runner = AttemptRunner(source, MAX_TRIES)
    try:
        model = runner.load()
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return _loss("import", message), None
    known, guessed = _parameters(runner.source, model, hints), hints.get("", {}).get("guessed", True)
    found, furthest = _find(
        runner, _families(runner, known, examples, as_shown, guessed), known, is_solved=not as_shown
    )
    if found is None:
        return {**_loss(furthest.stage, furthest.error), "tries": runner.tries}, None
    runner.max_tries = max(runner.max_tries, runner.tries + MAX_TRIES // 3)  # for the sizes of a task
    names = list(inspect.signature(model.forward).parameters)[1:]  # type: ignore[attr-defined]
    parameters = [item.name for item in known.init]
    found = fill_identities(runner, _disable_dropout(runner, found, model), parameters)
    if not as_shown or found.evidence != "test":
        found = improve_sizes(runner, found, names, salt, known.facts.unit)
        found = open_branches(runner, found, known.init)
    texts = [draw.text() for draw in found.draws]
    result = {"init": list(found.init), "inputs": texts, "evidence": found.evidence, "tries": runner.tries}
    return result, found


def _find(
    runner: AttemptRunner, families: Iterator[list[Attempt]], known: Parameters, *, is_solved: bool
) -> tuple[Attempt | None, Result]:
    """An attempt that works, and the first failure of those that came furthest in the code.

    `is_solved`: where no correction helps, solve for the sizes.
    """
    failures = [(Attempt((), ()), Result(False, _nothing_to_try(known)))]  # each came further than all before
    for family in families:
        found = _try_family(runner, family, failures, known, is_solved)
        if found is not None:
            return found, failures[-1][1]
        if runner.exhausted:
            break
    starts = [trial for trial in failures[: -MAX_STARTS - 1 : -1] if trial[1].stage == "forward"]
    if not is_solved or not starts:
        return None, failures[-1][1]
    found, further = _solve(runner, starts, known, LAST_TRIES)
    return found, [*failures, *further][-1][1]


def _nothing_to_try(known: Parameters) -> str:
    if not known.forward:
        return NO_INPUTS
    any_name = all(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.forward)
    return ANY_INPUTS if any_name else "nothing to try"


def _solve(
    runner: AttemptRunner, starts: list[Trial], known: Parameters, tries: int
) -> tuple[Attempt | None, list[Trial]]:
    def corrections(attempt: Attempt, result: Result) -> Iterator[Attempt]:
        return repair(attempt, result.error, result.line, known, result.operands)

    return solve(runner, starts, corrections, tries)


def _loss(stage: str, error: str) -> dict[str, Any]:
    reason = loss_reason(stage, error)
    is_name = reason in ("needs_package", "unresolved_name")
    absent = NO_MODULE.search(error)
    detail = absent[1] if absent else error.partition(": ")[2] if is_name else error
    return {"reason": reason, "detail": detail[:300]}


def _parameters(source: str, model: type, hints: Hints) -> Parameters:
    forward = inspect.signature(model.forward)  # type: ignore[attr-defined]
    facts = find_facts(source, hints, constructor_owner(model).__name__)
    own = list(constructor_signature(model).parameters.values())
    return Parameters(own, list(forward.parameters.values())[1:], facts, source)


def _families(
    runner: AttemptRunner, known: Parameters, examples: list[dict[str, Any]], as_shown: bool, guessed: bool
) -> Iterator[list[Attempt]]:
    """Groups of attempts, best evidence first. `guessed`: guesses at the constructor's arguments come last."""
    signature, forward = inspect.Signature(known.init), inspect.Signature(known.forward)
    partial: list[tuple[str, ...]] = []
    for example in examples:
        attempt = normalize_example(runner, example, signature, forward, half=as_shown)
        if attempt is not None and attempt.draws:
            ceilings = CEILINGS_AS_SHOWN if as_shown else (48, 24)
            smaller = [shrunk(attempt, ceiling) for ceiling in ceilings]
            if sum(draw.elements for draw in attempt.draws) <= MAX_AT_ONCE:
                smaller = [attempt, *smaller]
            if as_shown:
                smaller = [attempt, *(with_fewer_rows(attempt, count) for count in FEWER_ROWS), *smaller]
                smaller = [one for one in smaller if sum(draw.elements for draw in one.draws) <= MAX_SHOWN]
            yield list(dict.fromkeys([*smaller, attempt]))
        elif attempt is not None:
            partial += [modest(attempt.init, list(signature.parameters)), attempt.init]
    for init in dict.fromkeys([*partial, *(guess_arguments(signature, known.facts) if guessed else ())]):
        yield [Attempt(init, draws) for draws in guess_inputs(init, signature, forward, runner.source)]


def _try_family(
    runner: AttemptRunner, family: list[Attempt], failures: list[Trial], known: Parameters, is_solved: bool
) -> Attempt | None:
    """Try a family, with corrections of failed attempts, until one works or `PER_GUESS` attempts were made.

    Corrections of the attempt that got furthest in the code come first; every fourth attempt is a guess of the family.

    Args:
        failures: gets each attempt that comes further in the code than all before. Later ones that come as far are
            left out: they are often caused by the corrections.
    """
    guesses, repaired = deque(family), _Repaired()
    waiting: deque[Attempt] = deque()  # guesses that were not constructed, until a correction is
    tried: set[Attempt] = set()
    absent = stalled = 0
    while len(tried) < PER_GUESS and not runner.exhausted and (guesses or repaired):
        use_repaired = repaired and (len(tried) % 4 != 3 or not guesses)
        attempt = repaired.pop() if use_repaired else guesses.popleft()
        if attempt in tried:
            continue
        tried.add(attempt)
        result = runner.attempt(attempt)
        if result.ok:
            return attempt
        if result.stage == "init" and guesses and attempt.init == guesses[0].init:  # so would all others
            waiting, guesses = guesses, deque()
        elif result.stage != "init" and waiting and attempt.init != waiting[0].init:
            guesses, waiting = deque(with_init(item, attempt.init) for item in waiting), deque()
        stalled += 1
        if result.progress > failures[-1][1].progress:
            failures.append((attempt, result))
            stalled = 0
        absent += bool(result.place) and result.error.startswith((AbsentPackage.__name__, NameError.__name__))
        if result.stage == "lazy" or absent >= MAX_ABSENT:
            runner.tries = runner.max_tries
            break
        if stalled == PATIENCE and is_solved and failures[-1][1].stage == "forward":
            found, further = _solve(runner, failures[-1:], known, EARLY_TRIES)
            failures += further
            if found is not None:
                return found
        for rank, other in enumerate(repair(attempt, result.error, result.line, known, result.operands)):
            if len(repaired) >= MAX_REPAIRED:
                break
            useless = _is_degenerate(other) or runner.is_refused(other.init)
            fitting = with_init(attempt, other.init) if result.stage == "init" else other
            if fitting not in tried and not useless:
                repaired.push(fitting, result, rank)
    return None


def _is_degenerate(attempt: Attempt) -> bool:
    """Whether an input is a matrix of one element, which fits everywhere."""
    return any(len(draw.shape) > 1 and draw.elements == 1 for draw in attempt.draws)


class _Repaired:
    """Corrected attempts: those of the failure that came furthest first, then the first corrections of each failure."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, tuple[int, ...], int, int, int, Attempt]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, attempt: Attempt, failure: Result, rank: int) -> None:
        stage, place, layers = failure.progress
        deeper_first = (*(-instruction for instruction in place), 1)  # a failure inside of a call is further than at it
        further_first = (-stage, deeper_first, -layers)
        heappush(self._heap, (*further_first, rank, next(self._numbers), attempt))

    def pop(self) -> Attempt:
        return heappop(self._heap)[-1]


def _disable_dropout(runner: AttemptRunner, attempt: Attempt, model: type) -> Attempt:
    """The attempt with dropout disabled in the constructor, if that makes it repeatable."""
    if runner.attempt(attempt, twice=True).repeatable:
        return attempt
    parameters = list(inspect.signature(model.__init__).parameters.values())[1:]  # type: ignore[misc]
    places = [number for number, item in enumerate(parameters) if re.search(r"drop|^p$", item.name)]
    init = list(attempt.init)
    for place in places:
        while len(init) <= place:
            default = parameters[len(init)].default
            if default is inspect.Parameter.empty or not isinstance(
                default, (int, float, str, bool, tuple, type(None))
            ):
                return attempt
            init.append(repr(default))
        init[place] = "0.0"
    quiet = replace(attempt, init=tuple(init))
    result = runner.attempt(quiet, twice=True)
    return quiet if result.ok and result.repeatable else attempt


def warm_up() -> None:
    """Search once for a small module, so that later calls find imports, patterns and torch's kernels loaded.

    For the `setup` of a sandbox.
    """
    check_without_compiler()
    with torch.random.fork_rng(devices=[]):
        search_and_prune(WARM_UP_MODULE.read_text(encoding="utf-8"), "Model", [], "")
