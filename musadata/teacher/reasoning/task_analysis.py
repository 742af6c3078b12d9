"""A task's traces, calls and planned kernels, from which the six steps are written, and phrases that state facts."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import prod

from musadata.compiler.emission.candidate import Candidate
from musadata.records import Task, TensorFact, Trace
from musadata.teacher.reasoning.kernel_facts import KernelFacts, facts_of
from musadata.teacher.reasoning.kernel_plan import Call, Stage, count, read_calls
from musadata.teacher.reasoning.planned_kernels import stages_of_kernels

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
    def stages(self) -> list[Stage]:
        return self._plan(self.calls)

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

    def _plan(self, calls: list[Call]) -> list[Stage]:
        return stages_of_kernels(calls, self.candidate) if self.candidate else [Stage(tuple(calls), None)]

    @cached_property
    def distinct(self) -> list[tuple[Stage, Stage | None]]:
        """The first kernel of every kind and size, each with its counterpart on the other set of shapes, if known."""
        twins = self._plan(read_calls(self.other))
        same = [stage.operators for stage in twins] == [stage.operators for stage in self.stages]
        found: dict[tuple[object, ...], tuple[Stage, Stage | None]] = {}
        for index, stage in enumerate(self.stages):
            if not stage.moves_nothing:
                found.setdefault(_sort_of(stage), (stage, twins[index] if same else None))
        return list(found.values())[:MOST_STAGES]

    @cached_property
    def repeated(self) -> list[tuple[Stage, Stage]]:
        """Kernels with the operators and ranks of one of the distinct ones, with that one."""
        first = {_sort_of(stage): stage for stage, _ in self.distinct}
        others = [stage for stage in self.stages if _sort_of(stage) in first]
        return [(stage, first[_sort_of(stage)]) for stage in others if stage is not first[_sort_of(stage)]]

    @property
    def outputs(self) -> list[TensorFact]:
        return [fact for fact in self.trace.tensors if fact.role == "output"]

    def state(self, sentence: str, claims: Iterable[str]) -> str:
        """A sentence, with what it claims as expressions over the facts: see docs/grounding.md."""
        if claim := " and ".join(islice(unique(claims), _MOST_CLAIMS)):
            self.claims[sentence.removeprefix("- ")] = claim
        return sentence


def _sort_of(stage: Stage) -> tuple[object, ...]:
    return stage.operators, tuple(len(fact.shape) for fact in stage.lead.operands)


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


def row_of(call: Call) -> tuple[int, int, int]:
    """For a call that runs over axes: number of rows, elements per row, step between neighbours in a row."""
    fact = call.source
    if call.is_class_loss and len(call.operands) > 1:
        return 1, count(call.operands[1]), 1  # of every row, only the element that its class selects
    inner = [fact.shape[axis] for axis in call.axes]
    length = prod(inner)
    step = fact.stride[call.axes[-1]] if call.axes else 1
    return count(fact) // max(1, length), length, step


def is_whole(call: Call) -> bool:
    """Whether a reduction leaves no axis, whatever the sizes."""
    return len(call.axes) == len(call.source.shape)


def group_row(call: Call) -> tuple[int, int]:
    """For a normalisation: how many groups have statistics of their own, and how many elements each."""
    fact = call.source
    if call.packet == "native_group_norm":
        groups = call.integers("group")[0] * fact.shape[0]
    elif call.packet in ("native_layer_norm", "_fused_rms_norm"):
        groups = row_of(call)[0]
    else:
        groups = fact.shape[1] if len(fact.shape) > 1 else 1
    return groups, count(fact) // max(1, groups)
