"""What is expected of a candidate: the reference run in a process of its own, which no candidate ever shares."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from musadata.records import InputSpec
from musadata.rows import plain
from musadata.sandbox import Limits, Outcome, Sandbox
from musadata.verifier.protocol.tensors import Array, unpack
from musadata.verifier.protocol.tolerance import Tolerance
from musadata.verifier.protocol.variants import (
    INFINITE,
    InputSet,
)

if TYPE_CHECKING:
    pass

_CACHED_BYTES = 96 << 20


@dataclass(frozen=True)
class ExpectedSet:
    """The right answer for one input set, in the order of the result's tensors. `oracle` is in float64; `conditions`
    say how far it moves when inputs change by one unit in the last place, or at a step by how much it jumps."""

    plan: InputSet
    literals: tuple[Any, ...]  # per argument: its JSON-coded value, None for a tensor
    inputs: bytes
    structure: Any
    expected: tuple[Array, ...]
    oracle: tuple[Array, ...]
    conditions: tuple[Array, ...]
    tolerances: tuple[Tolerance, ...]
    handed_on: tuple[int, ...] = ()  # outputs that are an input, or a view of one

    @property
    def discriminating(self) -> bool:
        return self.plan.variant == INFINITE or any(tolerance.discriminating for tolerance in self.tolerances)


@dataclass(frozen=True)
class Expectation:
    """All that a verification needs of the reference."""

    init_arguments: Any
    parameters: tuple[str, ...]
    state: bytes
    sets: tuple[ExpectedSet, ...]


class BadReference(Exception):
    """The reference itself cannot be run, so nothing can be said about a candidate."""


class ReferenceRunner:
    """Runs references in a sandbox of their own and remembers the latest answers. Any number of threads may ask."""

    def __init__(self, sandbox: Sandbox, limits: Limits):
        self._sandbox = sandbox
        self._limits = limits
        self._cache: OrderedDict[str, Expectation] = OrderedDict()
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}  # so that nothing is computed twice at the same time

    def expect(
        self, source: str, shape_sets: Sequence[Sequence[InputSpec]], plans: Sequence[InputSet], seed: int
    ) -> Expectation:
        """The expected results for every planned input set.

        Raises:
            BadReference: it fails, takes too much, or gives nothing that can be compared.
        """
        arguments = [source, plain(shape_sets), [asdict(plan) for plan in plans], seed]
        key = hashlib.sha256(json.dumps(arguments).encode()).hexdigest()
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            found = self._recall(key)
            if found is None:
                found = self._run(arguments)
                self._remember(key, found)
        return found

    def _recall(self, key: str) -> Expectation | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _run(self, arguments: list[Any]) -> Expectation:
        outcome = self._sandbox.call(
            "musadata.verifier.sandboxed.oracle:run_reference", *arguments, limits=self._limits
        )
        if not outcome.ok:
            what = f"{outcome.error_type}: {outcome.message}" if outcome.error_type else outcome.message
            raise BadReference(f"The reference does not run ({outcome.status}): {what}"[:400])
        return _read_expectation(outcome)

    def _remember(self, key: str, expectation: Expectation) -> None:
        with self._lock:
            self._cache[key] = expectation
            self._turns.pop(key, None)
            while len(self._cache) > 1 and sum(map(_size, self._cache.values())) > _CACHED_BYTES:
                self._cache.popitem(last=False)


def _size(expectation: Expectation) -> int:
    arrays = [array for item in expectation.sets for array in (*item.expected, *item.oracle)]
    return len(expectation.state) + sum(len(a.raw) for a in arrays) + sum(len(s.inputs) for s in expectation.sets)


def _read_expectation(outcome: Outcome) -> Expectation:
    facts, files = outcome.value, outcome.files
    sets = []
    for index, item in enumerate(facts["sets"]):
        expected = unpack(files[f"expected{index}"])
        oracle = unpack(files[f"oracle{index}"])
        conditions = unpack(files[f"condition{index}"])
        order = sorted(expected, key=int)
        sets.append(
            ExpectedSet(
                plan=InputSet(**item["plan"]),
                literals=tuple(item["literals"]),
                inputs=files[f"inputs{index}"],
                structure=item["structure"],
                handed_on=tuple(item["handed_on"]),
                expected=tuple(expected[name] for name in order),
                oracle=tuple(oracle[name] for name in order),
                conditions=tuple(conditions[name] for name in order),
                tolerances=tuple(Tolerance(**tolerance) for tolerance in item["tolerances"]),
            )
        )
    return Expectation(facts["init"], tuple(facts["parameters"]), files["state"], tuple(sets))
