"""What a verification will do: which input sets are drawn, and in which order and mode the candidate is called."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from musadata.config import VerifierConfig
from musadata.records import InputSpec, Task
from musadata.verifier.variants import INFINITE, InputSet, plan_variants

# Bytes that fill fresh memory: the first makes NaN of floats and -1 of integers, the second large numbers.
POISON, OTHER_POISON = 0xFF, 0x7B
SEED_POLICY = "sha256(secret, task, purpose, shape set, index); values from PCG64 bits"


@dataclass(frozen=True)
class Call:
    """One call of the candidate's forward. `order`: of threads and blocks. `ghost`: its kernels do nothing.
    `strided`: its inputs are not contiguous; it may refuse them, but not silently take them for what they are not."""

    set: int
    name: str  # of the file with its outputs
    order: str = "forward"
    seed: int = 0
    poison: int = POISON
    ghost: bool = False
    strided: bool = False

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def derive_seed(config: VerifierConfig, task: Task, *purpose: object) -> int:
    """A seed that depends on the secret and on what it is for, never on global state."""
    text = "/".join(map(str, (config.seed, task.task_id, *purpose)))
    return int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


def collect_shapes(task: Task, extra: Sequence[Sequence[InputSpec]]) -> list[tuple[InputSpec, ...]]:
    """The task's own set of shapes first, then the others, none twice."""
    return list(dict.fromkeys([tuple(task.inputs), *map(tuple, extra)]))


def plan_sets(config: VerifierConfig, task: Task, shapes: int) -> list[InputSet]:
    """All input sets, the sets of shapes taking turns, so that nothing kept from the last call fits the next."""
    sets = [
        InputSet(shape, variant, derive_seed(config, task, "inputs", shape, index))
        for index in range(config.input_sets)
        for shape, variant in ((shape, plan_variants(shape, config.input_sets)[index]) for shape in range(shapes))
    ]
    # Dropped by the reference's side where it fails on infinities, or answers with finite values only.
    return [*sets, InputSet(0, INFINITE, derive_seed(config, task, "inputs", 0, 0))]


def plan_calls(sets: Sequence[object]) -> list[Call]:
    """Every set once, then the first again: threads in reverse order over other memory, inputs that are not contiguous,
    and a ghost replay."""
    calls = [Call(index, f"output{index}") for index in range(len(sets))]
    calls.append(Call(0, "repeated", order="reverse", poison=OTHER_POISON))
    calls.append(Call(0, "strided", strided=True))
    calls.append(Call(0, "ghost", ghost=True))
    return calls
