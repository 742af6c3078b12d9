"""Claims written as expressions over facts, evaluated by us: `shape("x")[-1] % 4 == 0`.

`templates/v1/claim_language.md` describes the language to those who write in it.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from musadata.records import TensorFact, Trace
from musadata.teacher.claims.evaluation import CannotEvaluate, Evaluation
from musadata.teacher.claims.launches import Launch, find_kernels, find_launches
from musadata.tracing.layout import is_contiguous, strides_of
from musadata.tracing.roofline import itemsize, tensor_bytes

_LONGEST_VALUE = 80


@dataclass(frozen=True)
class Facts:
    """What expressions may ask about: a task's traces, one for each set of shapes, and a program if there is one."""

    traces: Sequence[Trace]
    program: str = ""  # its CUDA C++

    @cached_property
    def tensors(self) -> list[dict[str, TensorFact]]:
        return [{fact.name: fact for fact in trace.tensors} for trace in self.traces]

    @cached_property
    def kernels(self) -> dict[str, str]:
        """The code of each kernel of the program."""
        return find_kernels(self.program)

    @cached_property
    def launches(self) -> list[frozenset[Launch]]:
        """The different launches of the program, for each set of shapes."""
        return [frozenset(find_launches(self.program, trace)) for trace in self.traces]

    @cached_property
    def names(self) -> dict[str, Callable[..., Any]]:
        """The functions that look facts up, of the set of shapes `set`."""
        return _names(self)


@dataclass(frozen=True)
class Evaluated:
    """What came of an expression, with the values of the facts and the figures that it names."""

    holds: bool
    facts: Mapping[ast.Call, object]
    figures: Set[int | float]

    def __str__(self) -> str:
        """`numel('x') is 264`, for each fact that is looked up once."""
        inner = {node: [part for given in node.args for part in ast.walk(given)] for node in self.facts}
        once = [node for node, parts in inner.items() if not any(isinstance(part, ast.Name) for part in parts)]
        named = {ast.unparse(node): str(self.facts[node])[:_LONGEST_VALUE] for node in once}
        return ", ".join(f"{name} is {value}" for name, value in named.items())


def evaluate_claim(text: str, facts: Facts) -> Evaluated:
    """Whether an expression holds; raises `CannotEvaluate` where it is not readable or names what is not known."""
    evaluation = Evaluation(facts.names)
    value = evaluation.of(text)
    if not isinstance(value, bool):
        raise CannotEvaluate("neither true nor false")
    return Evaluated(value, evaluation.looked_up, evaluation.figures)


def _names(facts: Facts) -> dict[str, Callable[..., Any]]:
    def of(items: Sequence[Any], number: int) -> Any:
        if not 0 < number <= len(items):
            raise CannotEvaluate(f"there is no set {number} of shapes")
        return items[number - 1]

    def trace(number: int) -> Trace:
        found: Trace = of(facts.traces, number)
        return found

    def tensor(name: str, number: int) -> TensorFact:
        found: TensorFact = of(facts.tensors, number)[name]
        return found

    def argument(name: str, key: str, number: int) -> Any:
        pairs = (part.partition("=") for part in _split(tensor(name, number).arguments))
        text = {name: value for name, _, value in pairs}[key]
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text  # a word, such as mean
        return tuple(value) if isinstance(value, list) else value  # as a list in an expression is

    def bounds(name: str, number: int) -> tuple[int, int]:
        [spec] = [spec for spec in trace(number).inputs if spec.name == name and spec.high > spec.low]
        if spec.kind not in ("integers", "offsets", "segments"):
            raise CannotEvaluate(f"{name} has no bounds")
        return int(spec.low), int(spec.high) - 1

    @cache
    def axes(name: str, number: int) -> list[tuple[int, int]]:
        shape = tensor(name, number).shape
        return list(zip(strides_of(shape), shape, strict=True))

    def coordinates(name: str, flat: int, number: int) -> tuple[int, ...]:
        return tuple([flat // step % size for step, size in axes(name, number)])

    def offset(name: str, place: tuple[int, ...], number: int) -> int:
        return sum(at * step for at, step in zip(place, tensor(name, number).stride, strict=True))

    def launch(kernel: str, number: int) -> Launch:
        found: Launch
        [found] = [one for one in of(facts.launches, number) if one.kernel == kernel]  # all are alike
        return found

    def shared(kernel: str, number: int) -> int:
        size = launch(kernel, number).shared_bytes
        if size is None:
            raise CannotEvaluate(f"the shared memory of {kernel} is not known")
        return size

    return {
        "shape": lambda name, set=1: tensor(name, set).shape,
        "stride": lambda name, set=1: tensor(name, set).stride,
        "dtype": lambda name, set=1: tensor(name, set).dtype,
        "numel": lambda name, set=1: math.prod(tensor(name, set).shape),
        "nbytes": lambda name, set=1: tensor_bytes(tensor(name, set)),
        "contiguous": lambda name, set=1: is_contiguous(tensor(name, set)),
        "coordinates": lambda name, flat, set=1: coordinates(name, flat, set),
        "offset": lambda name, *place, set=1: offset(name, place, set),
        "operator": lambda name, set=1: _base_name(tensor(name, set).operator),
        "operands": lambda name, set=1: tensor(name, set).operands,
        "argument": lambda name, key, set=1: argument(name, key, set),
        "lowest": lambda name, set=1: bounds(name, set)[0],
        "highest": lambda name, set=1: bounds(name, set)[1],
        "tensors": lambda role, set=1: tuple(fact.name for fact in trace(set).tensors if fact.role == role),
        "operators": lambda set=1: tuple(_base_name(name) for name in trace(set).operators),
        "flops": lambda set=1: trace(set).flops,
        "traffic": lambda set=1: trace(set).bytes,
        "intensity": lambda set=1: trace(set).intensity,
        "bound": lambda set=1: trace(set).bound.value,
        "itemsize": itemsize,
        "kernels": lambda: tuple(facts.kernels),
        "source": lambda kernel: facts.kernels[kernel],
        "grid": lambda kernel, set=1: launch(kernel, set).blocks,
        "block": lambda kernel, set=1: launch(kernel, set).threads,
        "shared": lambda kernel, set=1: shared(kernel, set),
    }


NAMES = tuple(_names(Facts(())))


def _base_name(operator: str) -> str:
    """`_softmax` of `aten._softmax.default`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


def _split(arguments: str) -> list[str]:
    """`dim=[1, 2], keepdim=True` at its outer commas."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "[(") - (character in "])")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
