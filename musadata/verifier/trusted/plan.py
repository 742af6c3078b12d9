"""The plan of a verification: the input sets that are drawn, and the order and mode of the candidate's calls."""

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from musadata.config import VerifierConfig
from musadata.records import InputSpec, Task
from musadata.verifier.protocol import variants
from musadata.verifier.protocol.messages import Call
from musadata.verifier.protocol.variants import InputSet

# The bytes that fill fresh memory: the default of `Call` gives NaN, -1 and true, the others large numbers and false.
OTHER_POISON = 0x7B
ZERO_POISON = 0x00
_FEWER = 8  # times as few elements as the task's own set of shapes
SEED_POLICY = "sha256(secret, task, purpose, shape set, index); values from PCG64 bits"


@dataclass(frozen=True)
class MeasureSet:
    """What shows on a device that a candidate is fast: one set of large inputs. `reference` may have been made with
    other sizes than that of the proof sets."""

    reference: str
    specs: tuple[InputSpec, ...]


@dataclass(frozen=True)
class Exercise:
    """What a candidate is judged against. `shapes` returns the sets of input shapes and may be slow, and so may
    `measure`, which returns None where there is no measure set. `checked`: for the emulator's cross-check where there
    are no proof sets. `as_constructed`: judge by the state that both constructors give after the same seed, as
    KernelBench's harness does, and not by one that is copied by name. `derived`: further sets of shapes, see
    `DERIVED`; may be slow. `brief`: only what shows whether sizes matter. `alone`: set where the device memory did not
    suffice beside other candidates; called before the candidate is measured, when none of our memory is kept for
    others."""

    task_id: str
    reference: str
    shapes: Callable[[], list[tuple[InputSpec, ...]]]
    measure: Callable[[], MeasureSet | None] = lambda: None
    checked: tuple[tuple[InputSpec, ...], ...] = ()
    alone: Callable[[], None] | None = None
    as_constructed: bool = False
    derived: Callable[[], list[tuple[InputSpec, ...]]] = list
    brief: bool = False


def derive_seed(config: VerifierConfig, task_id: str, *purpose: object) -> int:
    """A seed that depends on the secret, the task and its purpose only."""
    text = "/".join(map(str, (config.seed, task_id, *purpose)))
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


def collect_shapes(task: Task, extra: Sequence[Sequence[InputSpec]]) -> list[tuple[InputSpec, ...]]:
    """The task's own set of shapes, then the others, without repeats."""
    return list(dict.fromkeys([tuple(task.inputs), *map(tuple, extra)]))


def plan_sets(
    config: VerifierConfig, task_id: str, shapes: Sequence[Sequence[InputSpec]], derived: int = 0, brief: bool = False
) -> list[InputSet]:
    """All input sets. One comes again at once, hardly changed; then the sets of shapes alternate, so that nothing that
    a call keeps fits the next one. Of a set of shapes that is there for its one long size or its many elements, one is
    drawn, and of those that are `derived`, which have the next numbers. Where one set of shapes is far smaller than the
    task's own, all but the usual variants is drawn of it. `brief`: see `Exercise`."""
    count, full, main = config.input_sets, _drawn_in_full(shapes), _main(shapes)
    usual, full = ([0, main], [main]) if main else (full, full)

    def draw_set(shape: int, variant: str, last: object) -> InputSet:
        return InputSet(shape, variant, derive_seed(config, task_id, "inputs", shape, last))

    order = sorted(range(len(shapes)), key=lambda shape: shape not in (0, main))
    sets = [
        draw_set(shape, variants.plan_variants(shape, count)[index], index)
        for index in range(count)
        for shape in (usual if index else order)
    ]
    first = next(at for at, one in enumerate(sets) if one.shape == main)
    seen, others = sets[: first + 1], sets[first + 1 :]
    further = [draw_set(len(shapes) + number, variants.DERIVED, 0) for number in range(derived)]
    if brief:
        return [*seen, *further, *others, draw_set(main, variants.UPDATED, variants.UPDATED)]
    sets = [*seen, *(replace(seen[-1], variant=variant) for variant in variants.PERTURBED), *further, *others]
    smallest = min(full, key=lambda shape: _elements(shapes[shape]))
    rows = [
        (main, variants.FIRST),
        *((shape, variants.EACH) for shape in reversed(full)),
        (smallest, variants.SMALLEST),
    ]
    for shape, names in rows:  # `run_reference` drops those that prove nothing
        drawn = [draw_set(shape, name, name) for name in names]
        # The same once more takes the next seed.
        sets += [replace(one, seed=one.seed + names[:at].count(one.variant)) for at, one in enumerate(drawn)]
    return [*sets, draw_set(0, variants.INFINITE, 0)]


def _elements(shape: Sequence[InputSpec]) -> int:
    return sum(math.prod(spec.shape) for spec in shape)


def _main(shapes: Sequence[Sequence[InputSpec]]) -> int:
    """The set of shapes of which most input sets are drawn: the task's own, unless the last, see `tracing.shorten`, is
    far smaller in every size that differs."""
    own, last = shapes[0], shapes[-1]
    if [len(one.shape) for one in own] != [len(one.shape) for one in last]:
        return 0
    pairs = [pair for old, new in zip(own, last, strict=True) for pair in zip(old.shape, new.shape, strict=True)]
    is_shorter = all(new <= old for old, new in pairs) and _FEWER * _elements(last) <= _elements(own)
    return len(shapes) - 1 if is_shorter else 0


def _drawn_in_full(shapes: Sequence[Sequence[InputSpec]]) -> list[int]:
    """The task's own sets of shapes: the first two, and others none of whose sizes is over three times as long as
    theirs in the same place, and without more than three times as many elements. 263 rows of two elements are few
    elements, but as many blocks of threads as 263 long ones."""

    def largest(shape: Sequence[InputSpec]) -> int:
        return max((math.prod(spec.shape) for spec in shape), default=0)

    def sizes(shape: Sequence[InputSpec]) -> dict[tuple[int, int], int]:
        return {(at, axis): size for at, spec in enumerate(shape) for axis, size in enumerate(spec.shape)}

    usual, modest = [sizes(shape) for shape in shapes[:2]], 3 * max(map(largest, shapes[:2]))
    return [
        index
        for index, shape in enumerate(shapes)
        if index < 2
        or (
            largest(shape) <= modest
            and all(size <= 3 * max(one.get(place, 0) for one in usual) for place, size in sizes(shape).items())
        )
    ]


def plan_once(shapes: Sequence[int], checks: str = "", derived: Collection[int] = ()) -> list[Call]:
    """One call for each input set, of which a candidate may refuse those that are `derived`. `shapes` are their sets of
    shapes; a brief check covers the first call of each."""
    return [
        Call(
            index,
            f"{'derived' if index in derived else 'output'}{index}",
            order="reverse" if index % 2 else "forward",
            may_refuse=index in derived,
            check=_after_first(checks) if shape in shapes[:index] else checks,
        )
        for index, shape in enumerate(shapes)
    ]


def _after_first(checks: str) -> str:
    return "off" if checks == "brief" else checks


def plan_calls(shapes: Sequence[int], checks: str = "", unseen: int = 0, derived: Collection[int] = ()) -> list[Call]:
    """Every set once, then the first again: threads in reverse order over other memory, inputs that are not contiguous,
    and a replay with null kernels. `unseen` calls precede the last plain one, for candidates that behave only at first.
    Of each set of shapes, the first set again over zeros: a flag that no thread writes is true in all other memory.
    """
    rest, calls = _after_first(checks), plan_once(shapes, checks, derived)
    settled = shapes[-1] == shapes[0]
    again = Call(0, "repeated", order="reverse", poison=OTHER_POISON, check=rest, settled=settled, unseen=unseen)
    calls.append(again)
    calls.append(Call(0, "strided", strided=True, may_refuse=True, check=rest))
    often = [shape for shape in dict.fromkeys(shapes) if shapes.count(shape) > 1 or len(shapes) == len(set(shapes))]
    calls += [Call(shapes.index(one), f"zeros{one}", poison=ZERO_POISON, check=rest) for one in often]
    calls.append(Call(0, "null_replay", null_kernels=True, check=rest))
    return calls
