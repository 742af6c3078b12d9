"""What a verification will do: which input sets are drawn, and in which order and mode the candidate is called."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from musadata.config import VerifierConfig
from musadata.records import InputSpec, Task
from musadata.verifier.protocol import variants
from musadata.verifier.protocol.messages import Call
from musadata.verifier.protocol.variants import InputSet

# Bytes that fill fresh memory: that of a `Call` by default makes NaN of floats and -1 of integers, this large numbers.
OTHER_POISON = 0x7B
SEED_POLICY = "sha256(secret, task, purpose, shape set, index); values from PCG64 bits"


@dataclass(frozen=True)
class Exercise:
    """What a candidate is judged against. `shapes` gives the sets of input shapes, and may take its time."""

    task_id: str
    reference: str
    shapes: Callable[[], list[tuple[InputSpec, ...]]]


def derive_seed(config: VerifierConfig, task_id: str, *purpose: object) -> int:
    """A seed that depends on the secret and on what it is for, never on global state."""
    text = "/".join(map(str, (config.seed, task_id, *purpose)))
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


def collect_shapes(task: Task, extra: Sequence[Sequence[InputSpec]]) -> list[tuple[InputSpec, ...]]:
    """The task's own set of shapes first, then the others, none twice."""
    return list(dict.fromkeys([tuple(task.inputs), *map(tuple, extra)]))


def plan_sets(config: VerifierConfig, task_id: str, shapes: Sequence[Sequence[InputSpec]]) -> list[InputSet]:
    """All input sets, the sets of shapes taking turns, so that nothing kept from the last call fits the next."""
    sets = [
        InputSet(shape, variant, derive_seed(config, task_id, "inputs", shape, index))
        for index in range(config.input_sets)
        for shape, variant in (
            (shape, variants.plan_variants(shape, config.input_sets)[index]) for shape in range(len(shapes))
        )
    ]
    # These are dropped by the reference's side where they prove nothing; see `run_reference`.
    sets += [
        InputSet(shape, variant, derive_seed(config, task_id, "inputs", shape, variant))
        for shape in reversed(range(len(shapes)))
        for variant in ((variants.TIES, variants.BELOW) if variants.can_tie(shapes[shape]) else ())
    ]
    smallest = min(range(len(shapes)), key=lambda shape: sum(math.prod(spec.shape) for spec in shapes[shape]))
    if variants.can_be_large(shapes[smallest]):
        sets.append(
            InputSet(smallest, variants.LARGE, derive_seed(config, task_id, "inputs", smallest, variants.LARGE))
        )
    return [*sets, InputSet(0, variants.INFINITE, derive_seed(config, task_id, "inputs", 0, 0))]


def plan_once(shapes: Sequence[int], checks: str = "") -> list[Call]:
    """Every set once. `shapes` holds each set's shape; a brief check of accesses sees the first set of each."""
    return [
        Call(index, f"output{index}", check=_after_first(checks) if shape in shapes[:index] else checks)
        for index, shape in enumerate(shapes)
    ]


def _after_first(checks: str) -> str:
    return "off" if checks == "brief" else checks


def plan_calls(shapes: Sequence[int], checks: str = "", unseen: int = 0) -> list[Call]:
    """Every set once, then the first again: threads in reverse order over other memory, inputs that are not contiguous,
    and a replay with null kernels. `unseen` calls precede the last plain one, for candidates that behave only at first.
    """
    rest, calls = _after_first(checks), plan_once(shapes, checks)
    settled = shapes[-1] == shapes[0]
    again = Call(0, "repeated", order="reverse", poison=OTHER_POISON, check=rest, settled=settled, unseen=unseen)
    calls.append(again)
    calls.append(Call(0, "strided", strided=True, check=rest))
    calls.append(Call(0, "null_replay", null_kernels=True, check=rest))
    return calls
