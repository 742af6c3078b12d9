"""A trace as a sequence of operator calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from musadata.operators import column
from musadata.records import TensorFact, Trace

_IDLE: dict[str, str] = column("idle")
_BOOKKEEPING = frozenset({"detach", "alias", "lift_fresh"})


@dataclass(frozen=True)
class Call:
    """One dispatched operator with the facts of what it read and made."""

    operator: str
    operands: tuple[TensorFact, ...]
    outputs: tuple[TensorFact, ...]
    arguments: str

    @cached_property
    def packet(self) -> str:
        """The operator without `aten.`, its overload and a trailing underscore: `native_layer_norm`."""
        return _packet(self.operator)

    @property
    def is_view(self) -> bool:
        """Whether it only shows elements in another shape or order."""
        return is_view(self.packet)

    @property
    def is_idle(self) -> bool:
        """Whether it neither computes nor moves anything."""
        return self.packet in _IDLE

    @property
    def output(self) -> TensorFact:
        return self.outputs[0]

    @property
    def names(self) -> list[str]:
        """Names of the operands."""
        return [fact.name for fact in self.operands]


def is_view(packet: str) -> bool:
    """Whether an operator only shows elements in another shape or order."""
    return _IDLE.get(packet) == "view"


def count(fact: TensorFact) -> int:
    return prod(fact.shape)


def read_calls(trace: Trace) -> list[Call]:
    """The calls that an output depends on, in order. Bookkeeping (`detach`, counters of batches) is left out."""
    facts: dict[str, TensorFact] = {}
    calls: list[Call] = []
    previous: tuple[str, tuple[str, ...], str] | None = None
    for fact in trace.tensors:
        facts[fact.name] = fact
        if not fact.operator:
            continue
        if _packet(fact.operator) in _BOOKKEEPING and fact.role != "output" and fact.operands:
            facts[fact.name] = facts[fact.operands[0]]
            continue
        arguments = fact.arguments.removesuffix(", half_to_float=False")
        key = (fact.operator, fact.operands, arguments)
        if key == previous and _packet(fact.operator) in column("several"):
            calls[-1] = Call(fact.operator, calls[-1].operands, (*calls[-1].outputs, fact), arguments)
        else:
            operands = tuple(facts[name] for name in fact.operands if name in facts)
            calls.append(Call(fact.operator, operands, (fact,), arguments))
        previous = key
    return _needed(calls)


def _packet(operator: str) -> str:
    return operator.split(".")[1].rstrip("_")


def _needed(calls: Sequence[Call]) -> list[Call]:
    names: set[str] = set()
    kept: list[Call] = []
    for call in reversed(calls):
        if any(fact.name in names or fact.role == "output" for fact in call.outputs):
            names.update(fact.name for fact in call.operands)
            kept.append(call)
    return kept[::-1]
