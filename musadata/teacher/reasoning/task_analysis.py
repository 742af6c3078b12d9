"""A task's traces, calls and planned kernels, from which the six steps are written, and phrases that state facts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import prod

from musadata.compiler.emission.candidate import Candidate
from musadata.records import Task, TensorFact, Trace
from musadata.teacher.reasoning.calls import Call, count, read_calls
from musadata.teacher.reasoning.kernel_facts import KernelFacts, facts_of

# Kernels that are written about one by one; a recurrent network repeats a few of them many times.
MOST_STAGES = 5
_MOST_CLAIMS = 12  # of a sentence
VARYING = re.compile(r"`(?!aten)[^`]*`|\d+(?:\.\d+)?|\([^()]*\)")  # in sentences that say the same


@dataclass(frozen=True)
class TaskAnalysis:
    """A task with its traces. The steps are about the first; the second shows what depends on sizes."""

    task: Task
    traces: tuple[Trace, ...]
    candidate: Candidate | None = None  # the answer; none without a lowering
    claims: dict[str, str] = field(default_factory=dict, compare=False)  # sentences that were stated, with expressions

    @property
    def trace(self) -> Trace:
        return self.traces[0]

    @property
    def other(self) -> Trace:
        return self.traces[1] if len(self.traces) > 1 else self.traces[0]

    @cached_property
    def calls(self) -> list[Call]:
        return read_calls(self.trace)

    @cached_property
    def facts(self) -> list[KernelFacts]:
        """The kernels of the answer; none without a lowering."""
        return facts_of(self.candidate, self.calls, self.trace, self.other) if self.candidate else []

    @cached_property
    def told(self) -> list[KernelFacts]:
        """The kernels that are written about one by one: the first of every kind."""
        found: dict[object, KernelFacts] = {}
        for facts in self.facts:
            found.setdefault(facts.kind, facts)
        return list(found.values())[:MOST_STAGES]

    @property
    def outputs(self) -> list[TensorFact]:
        return [fact for fact in self.trace.tensors if fact.role == "output"]

    def state(self, sentence: str, claims: Iterable[str]) -> str:
        """A sentence, with what it claims as expressions over the facts: see docs/grounding.md."""
        if claim := " and ".join(islice(unique(claims), _MOST_CLAIMS)):
            self.claims[sentence.removeprefix("- ")] = claim
        return sentence


def named(fact: TensorFact) -> str:
    """A tensor with its shape: `x` (8, 33)."""
    return f"`{fact.name}` {fact.shape}" if fact.shape else f"`{fact.name}` (a single number)"


def claims_of(fact: TensorFact, number: int = 1) -> list[str]:
    """What is claimed where a tensor's shape and elements are told, of the n-th set of shapes."""
    of = f'"{fact.name}", set={number}' if number > 1 else f'"{fact.name}"'
    return [f"shape({of}) == {fact.shape}", f"numel({of}) == {count(fact)}"]


def claims_of_work(trace: Trace, number: int = 1) -> list[str]:
    """What is claimed where the work and traffic of the n-th set of shapes are told."""
    of = f"set={number}" if number > 1 else ""
    return [f"flops({of}) == {trace.flops}", f"traffic({of}) == {trace.bytes}"]


def product_text(numbers: Sequence[int]) -> str:
    """A product with its result, `8 × 33 = 264`; a lone number as it is. Ones are left out."""
    factors = [number for number in numbers if number != 1]
    if len(factors) < 2:
        return str(prod(numbers))
    return f"{' × '.join(map(str, factors))} = {prod(factors)}"


def elements_text(fact: TensorFact) -> str:
    total = count(fact)
    return "1 element" if total == 1 else f"{product_text(fact.shape)} elements"


def join(parts: Sequence[str], last: str = "and") -> str:
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def unique(parts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(parts))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (heading, ["---"] * len(heading), *rows)
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
