"""The samples of a task: honest candidates in different schedules, and conversations that start with a seeded fault.

All choices are drawn from the teacher's seed, the task and the sample's index. So the turns of a conversation agree,
although each is requested on its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from musadata.compiler.emission.candidate import MOST_CHARACTERS, Candidate, build_candidate
from musadata.compiler.emission.schedule_plan import DRAFT, PLANS, Plan
from musadata.compiler.faults import KINDS, FaultContext, FaultKind
from musadata.compiler.ir.captured_graph import Graph, parse_graph
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.compiler.ir.scalar import GivenUnsupported

HOPELESS = 3  # times as long: no other plan is so much shorter


@dataclass(frozen=True)
class Story:
    """How a share of the conversations with faults goes: so many answers have one. Either each of them is another
    program, in another schedule or with other kernels, or faults are mended where they are."""

    share: float
    failures: int
    rewrites: bool


STORIES = (
    Story(0.12, 1, rewrites=False),
    Story(0.05, 2, rewrites=False),  # the first fault does not compile, and hides the other one
    Story(0.48, 1, rewrites=True),
    Story(0.22, 2, rewrites=True),
    Story(0.13, 8, rewrites=True),  # more than anybody asks for: it fails
)


@dataclass(frozen=True)
class Attempt:
    """One answer: a candidate, and the faults that are still in it, in the order in which they show."""

    candidate: Candidate
    faults: tuple[FaultKind, ...] = ()

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
        self, graph: Graph, key: str, measured: Mapping[str, Sequence[int]] | None = None, reference: str = ""
    ):
        self._graph = graph
        self._sizes = graph.sizes_for(measured) if measured else None
        if self._sizes and not all(condition.holds(self._sizes) for condition in graph.conditions):
            raise Unsupported("the graph depends on the input's sizes")
        self._key, self._reference = key, reference
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
        """The conversation of a faulty sample, up to the first answer without a fault; see `STORIES`. `honest` are the
        task's candidates, the best one first.

        Raises:
            Unsupported: no fault matters in any of them.
        """
        random = _random(self._key, "fault", str(sample))
        story = random.choices(STORIES, [story.share for story in STORIES])[0]
        kinds = sorted(KINDS.values(), key=lambda kind: self._rank(kind, sample))
        known = [*self._drafts(honest), *reversed(honest)]
        attempts = self._rewritten(known, kinds, story, random) if story.rewrites and known[1:] else []
        return attempts or self._in_place(random.sample(honest, len(honest)), kinds, story, random)

    def _drafts(self, honest: Sequence[Candidate]) -> list[Candidate]:
        """How somebody begins who thinks operator by operator, if that is another program."""
        with suppress(Unsupported):
            draft = build_candidate(self._graph, DRAFT, self._sizes)
            if len(draft.source) <= MOST_CHARACTERS and draft.shape not in [one.shape for one in honest]:
                return [draft]
        return []

    def _rewritten(
        self, known: Sequence[Candidate], kinds: Sequence[FaultKind], story: Story, random: Random
    ) -> list[Attempt]:
        """A better program with each answer, though only the last one has no fault; empty where none fits."""
        attempts: list[Attempt] = []
        left = known
        for kind in kinds:
            faulty = (insert(kind, one, random, self._reference) for one in left[:-1] or left)
            place, found = next(((place, one) for place, one in enumerate(faulty) if one), (0, None))
            if found:
                attempts.append(Attempt(found, (kind,)))
                left = left[place + 1 :] or known[:-1]
            if len(attempts) == story.failures:
                break
        return attempts and [*attempts, Attempt(known[-1])]

    def _in_place(
        self, honest: Sequence[Candidate], kinds: Sequence[FaultKind], story: Story, random: Random
    ) -> list[Attempt]:
        """A program that stays the same but for one fault less with each answer."""
        for kind in kinds:
            for candidate in honest:
                if faulty := insert(kind, candidate, random, self._reference):
                    single = [Attempt(faulty, (kind,)), Attempt(candidate)]
                    shows_late = kind.compiles and not kind.cheats  # a fault that does not compile can hide it
                    return self._doubled(single, kinds, random) if story.failures > 1 and shows_late else single
        raise Unsupported("no fault matters here")

    def mutants(self) -> Iterator[tuple[str, FaultKind]]:
        """Programs with one fault that running them can show, each kind at most once, in a seeded order.

        Raises:
            Unsupported: as `candidate`.
        """
        random = _random(self._key, "mutants")
        shown = [kind for kind in KINDS.values() if kind.compiles and not kind.cheats]
        for kind in sorted(shown, key=lambda kind: self._rank(kind, -1)):
            for number in range(len(PLANS)):
                faulty = insert(kind, self.candidate(number), random)
                if faulty is not None:
                    yield faulty.source, kind
                    break

    def _rank(self, kind: FaultKind, sample: int) -> float:
        """A seeded order of the kinds, in which each is first as often as its weight says."""
        return _random(self._key, str(sample), kind.name).expovariate(kind.weight)

    def _doubled(self, single: list[Attempt], kinds: Sequence[FaultKind], random: Random) -> list[Attempt]:
        """Put a fault that does not compile in front of one that does."""
        first = single[0]
        for kind in kinds:
            faulty = None if kind.compiles else insert(kind, first.candidate, random)
            if faulty is not None:
                return [Attempt(faulty, (kind, *first.faults)), *single]
        return single


def insert(kind: FaultKind, candidate: Candidate, random: Random, reference: str = "") -> Candidate | None:
    """The candidate with a fault of this kind, or None where it would change nothing."""
    faulty = kind.insert(FaultContext(candidate, random, reference))
    return None if faulty is None or faulty.source == candidate.source else faulty


def _random(*parts: str) -> Random:
    return Random(int.from_bytes(hashlib.sha256(":".join(parts).encode()).digest()[:8]))
