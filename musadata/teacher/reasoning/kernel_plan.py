"""A trace as a sequence of operator calls, and a plan of kernels for them."""

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import TypeVar

from musadata.operators import column
from musadata.records import TensorFact, Trace

Text = TypeVar("Text")


class CallKind(StrEnum):
    """What kind of loop an operator is."""

    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"
    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    SCAN = "scan"
    LOOKUP = "lookup"
    PLACEMENT = "placement"
    VIEW = "view"
    FILL = "fill"
    OTHER = "other"


_KIND_OF = {name: CallKind(kind) for name, kind in column("kind").items()}
_LIGHT = frozenset({CallKind.ELEMENTWISE, CallKind.LOOKUP, CallKind.PLACEMENT, CallKind.VIEW, CallKind.FILL})
_BOOKKEEPING = frozenset({"detach", "alias", "lift_fresh"})
# They write to computed places.
SCATTERS = frozenset({"scatter", "scatter_add", "index_add", "index_put"})


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

    @cached_property
    def kind(self) -> CallKind:
        if self.packet in ("max", "min") and self.operator.endswith(".other"):
            return CallKind.ELEMENTWISE
        if self.packet in column("loss") and self.argument("reduction") == "0":
            return CallKind.ELEMENTWISE
        if self.packet in _KIND_OF:
            return _KIND_OF[self.packet]
        return CallKind.ELEMENTWISE if _is_pointwise(self.operator) else CallKind.OTHER

    @property
    def output(self) -> TensorFact:
        return self.outputs[0]

    @property
    def source(self) -> TensorFact:
        """The first operand, or the output itself where there is none."""
        return self.operands[0] if self.operands else self.outputs[0]

    @property
    def names(self) -> list[str]:
        """Names of the operands."""
        return [fact.name for fact in self.operands]

    @property
    def factors(self) -> tuple[TensorFact, TensorFact]:
        """The two operands of a matrix product; the source twice where only one is known."""
        return (self.operands[-2], self.operands[-1]) if len(self.operands) > 1 else (self.source, self.source)

    @property
    def contracted(self) -> int:
        """The size of the axis that a matrix product sums over."""
        right = self.operands[-1].shape
        return right[-2] if len(right) > 1 else right[0]

    @property
    def weight(self) -> TensorFact:
        """The filter of a convolution."""
        return self.operands[1] if len(self.operands) > 1 else self.source

    @property
    def is_transposed(self) -> bool:
        return self.argument("transposed") == "True"

    @property
    def is_class_loss(self) -> bool:
        """Whether it takes of every row only the element that a class selects."""
        return self.packet.startswith("nll_loss")

    def argument(self, name: str, default: str = "") -> str:
        match = re.search(rf"(?:^|, ){name}=(\[[^\]]*\]|[^,]*)", self.arguments)
        return match[1] if match else default

    def integers(self, name: str) -> tuple[int, ...]:
        return tuple(int(number) for number in re.findall(r"-?\d+", self.argument(name)))

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes of the first operand that the operator runs over; all, where it does not say."""
        rank = len(self.source.shape)
        if self.packet in ("native_layer_norm", "_fused_rms_norm"):
            return tuple(range(rank - len(self.integers("normalized_shape")), rank))
        given = self.integers("dim") or self.integers("axis")
        return tuple(sorted(axis % rank for axis in given)) if given and rank else tuple(range(rank))


def by_kind(*writers: Callable[[Call], Text]) -> dict[CallKind, Callable[[Call], Text]]:
    """Functions that write about calls, each named after the kind of call that it is for: `_matmul`."""
    return {CallKind(writer.__name__.removeprefix("_")): writer for writer in writers}


@dataclass(frozen=True)
class Stage:
    """Calls that one kernel does together. `anchor` shapes its loops; None where all work is per element. `kernel` is
    the kernel's name where there is a lowering."""

    calls: tuple[Call, ...]
    anchor: Call | None
    kernel: str = ""

    @property
    def lead(self) -> Call:
        return self.anchor or self._last

    @property
    def _last(self) -> Call:
        idle = (CallKind.VIEW, CallKind.FILL)
        return next((call for call in reversed(self.calls) if call.kind not in idle), self.calls[-1])

    @property
    def output(self) -> TensorFact:
        """What it stores: the result of its last call that is more than a view."""
        return self._last.output

    @property
    def title(self) -> str:
        """What to call it: its kernel, or what it makes."""
        return self.kernel or self.output.name

    @property
    def moves_nothing(self) -> bool:
        return not self.kernel and all(call.kind is CallKind.VIEW for call in self.calls)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that compute or move something, each once."""
        return tuple(dict.fromkeys(call.operator for call in self.calls if call.kind is not CallKind.VIEW))


def is_light(call: Call) -> bool:
    """Whether a call works on every element by itself, or only moves elements."""
    return call.kind in _LIGHT


def is_view(packet: str) -> bool:
    """Whether an operator only shows elements in another shape or order."""
    return _KIND_OF.get(packet) is CallKind.VIEW


def _is_pointwise(operator: str) -> bool:
    """Whether torch tags the operator as pointwise, or our table has a formula for one element."""
    packet, overload = operator.split(".")[1:3]
    name = packet if overload == "default" else f"{packet}.{overload}"
    return _packet(operator) in column("formula") or name in _pointwise_operators()


@cache
def _pointwise_operators() -> frozenset[str]:
    """The operators that torch declares as pointwise, read from the declarations that come with it: importing it takes
    300 MB and two seconds."""
    found = importlib.util.find_spec("torchgen")
    assert found is not None and found.origin is not None, "torchgen is part of PyTorch"
    declared = Path(found.origin).with_name("packaged") / "ATen" / "native" / "native_functions.yaml"
    functions = re.split(r"^- func: ", declared.read_text(encoding="utf-8"), flags=re.MULTILINE)
    tagged = (text for text in functions if re.search(r"^  tags: .*\bpointwise\b", text, re.MULTILINE))
    return frozenset(text.partition("(")[0] for text in tagged)


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
