"""The samples of a task: honest candidates in different schedules, and conversations that start with a seeded fault.

All choices are drawn from the teacher's seed, the task and the sample's index. So the turns of a conversation agree,
although each is requested on its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from musadata.compiler.emission.candidate import MOST_CHARACTERS, Candidate, build_candidate
from musadata.compiler.emission.schedule_plan import PLANS, Plan
from musadata.compiler.faults import KINDS, FaultContext, FaultKind
from musadata.compiler.ir.captured_graph import Graph, parse_graph
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.scalar import GivenUnsupported

HOPELESS = 3  # times as long: no other plan is so much shorter


@dataclass(frozen=True)
class Attempt:
    """One answer: a candidate, and the fault that is in it, if any."""

    candidate: Candidate
    fault: FaultKind | None = None

    @property
    def source(self) -> str:
        return self.candidate.source


def read_graph(captured: Mapping[str, Any]) -> Graph:
    """The captured graph, with those constructor arguments left to the host that the kernels can do without knowing.

    Raises:
        Unsupported: the graph cannot be lowered.
    """
    known: list[str] = []
    while True:
        graph = parse_graph(captured, known)
        try:
            if graph.attributes:
                build_candidate(graph, PLANS[0])
        except Unsupported as reason:
            known += _unsupported_attributes(graph, reason)
            continue
        return graph


def _unsupported_attributes(graph: Graph, reason: Unsupported) -> list[str]:
    """The attribute that the reason names, or all integers: some lowering may need to know them."""
    if isinstance(reason, GivenUnsupported) and reason.name in graph.attributes:
        return [graph.attributes[reason.name]]
    integers = [size.attribute for size in graph.sizes if size.attribute]
    if not integers:
        raise reason
    return integers


class CandidateSet:
    """The structurally different candidates of one task, built on demand for the shapes that they are measured at.

    Raises:
        Unsupported: at those shapes the reference does something else than what the graph holds.
    """

    def __init__(
        self,
        graph: Graph,
        key: str,
        measured: Mapping[str, Sequence[int]] | None = None,
    ):
        self._graph = graph
        self._sizes = graph.sizes_for(measured) if measured else None
        if self._sizes and not all(condition.holds(self._sizes) for condition in graph.conditions):
            raise Unsupported("the graph depends on the input's sizes")
        self._key = key
        turn = _random(key, "plans").randrange(len(PLANS))
        plans = [*PLANS[turn:], *PLANS[:turn]]
        self._plans, self._shorter = iter(plans), iter([replace(plan, fast=False) for plan in plans])
        self._built: list[Candidate] = []

    def holds_for(self, outputs: Sequence[Sequence[Sequence[int]]]) -> bool:
        """Whether the graph's results have the given shapes, one list for each set of shapes, in any order.

        A slice with a literal end, say, has fewer elements where an axis is shorter, which its graph does not know.
        """
        sets = self._graph.hints()
        if len(sets) != len(outputs):
            return True
        results = [output.type.shape for output in self._graph.outputs]
        made = sorted(sorted(tuple(side.evaluate(known) for side in shape) for shape in results) for known in sets)
        given = sorted(sorted(tuple(shape) for shape in shapes) for shapes in outputs)
        return made == given or any(len(shapes) != len(results) for shapes in given)

    def candidate(self, number: int) -> Candidate:
        """The honest candidate of this number; numbers past the last different one start over.

        Raises:
            Unsupported: the graph cannot be lowered, or only to something that is too long to be read.
        """
        while len(self._built) <= number and (plan := self._next_plan()):
            built = build_candidate(self._graph, plan, self._sizes)
            if len(built.source) > HOPELESS * MOST_CHARACTERS:
                raise Unsupported("candidate too long to be read")
            is_new = built.shape not in [known.shape for known in self._built]
            is_alike = not self._built or built.names == self._built[0].names  # an analysis is about all of them
            if is_new and is_alike and len(built.source) <= MOST_CHARACTERS:
                self._built.append(built)
        if not self._built:
            raise Unsupported("candidate too long to be read")
        return self._built[number % len(self._built)]

    def _next_plan(self) -> Plan | None:
        """The next plan to try: shorter ones where all others make candidates that are too long to be read."""
        plan = next(self._plans, None)
        if plan is None and not any(built.plan.fast for built in self._built):
            plan = next(self._shorter, None)
        return plan

    def faulty(self, sample: int, honest: Sequence[Candidate]) -> list[Attempt]:
        """The conversation of a faulty sample: a program with one fault, and the same without it. `honest` are the
        task's candidates, the best one first; every second conversation is about that.

        Raises:
            Unsupported: no fault matters in any of them.
        """
        random = _random(self._key, "fault", str(sample))
        drawn = list(honest) if random.random() < 0.5 else random.sample(honest, len(honest))
        for kind in sorted(KINDS.values(), key=lambda kind: self._rank(kind, sample)):
            for candidate in drawn:
                if faulty := insert(kind, candidate, random):
                    return [Attempt(faulty, kind), Attempt(candidate)]
        raise Unsupported("no fault matters here")

    def mutants(self) -> Iterator[tuple[str, FaultKind]]:
        """Programs with one fault that running them can show, each kind at most once, in a seeded order.

        Raises:
            Unsupported: as `candidate`.
        """
        random = _random(self._key, "mutants")
        for kind in sorted(KINDS.values(), key=lambda kind: self._rank(kind, -1)):
            for number in range(len(PLANS)):
                faulty = insert(kind, self.candidate(number), random)
                if faulty is not None:
                    yield faulty.source, kind
                    break

    def _rank(self, kind: FaultKind, sample: int) -> float:
        """A seeded order of the kinds, in which each is first as often as its weight says."""
        return _random(self._key, str(sample), kind.name).expovariate(kind.weight)


def insert(kind: FaultKind, candidate: Candidate, random: Random) -> Candidate | None:
    """The candidate with a fault of this kind, or None where it would change nothing."""
    faulty = kind.insert(FaultContext(candidate, random))
    return None if faulty is None or faulty.source == candidate.source else faulty


def _random(*parts: str) -> Random:
    return Random(int.from_bytes(hashlib.sha256(":".join(parts).encode()).digest()[:8]))
