"""Integers among a model's attributes as symbols: strides, windows, paddings that a constructor was given.

A graph that is traced with symbols holds for other values of the attributes too. Whether that is so is found by tracing
a model that was constructed with other values: its graph must be the same. Runs untrusted code: call inside the sandbox
only.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, StrictMinMaxConstraint
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from musadata.compiler.capturing.asked_conditions import AskedShapes

Graph = dict[str, Any]
Argument = TypeVar("Argument")  # of the constructor
_MOST_NODES = 100  # tracing takes seconds beyond it, and every argument takes several traces
_ITEM = re.compile(r"(.+)\[(\d+)\]")


@dataclass(frozen=True)
class IntegerAttribute:
    """An attribute, as forward would write it (`conv.stride[0]`), and the least value that kernels are made for.

    `values` are given where they differ between the sets of shapes, in their order.
    """

    path: str
    least: int
    values: tuple[int, ...] = ()


Trace = Callable[[torch.nn.Module, tuple[IntegerAttribute, ...]], Graph]


@contextmanager
def symbolic(
    model: torch.nn.Module, attributes: Sequence[IntegerAttribute], environment: AskedShapes
) -> Iterator[tuple[list[Any], dict[Any, tuple[IntegerAttribute, int]]]]:
    """Symbols in place of the attributes while it is entered, and for each one the attribute and its value."""
    values = [_get(model, attribute.path) for attribute in attributes]
    sizes, symbols = [], {}
    try:
        for number, (attribute, value) in enumerate(zip(attributes, values, strict=True)):
            symbol = environment.create_symbol(
                value,
                ConstantSource(f"attribute{number}"),
                dynamic_dim=DimDynamic.DYNAMIC,
                constraint_dim=StrictMinMaxConstraint(warn_only=False, vr=ValueRanges(attribute.least, int_oo)),
                positive=True if attribute.least else None,
                do_not_specialize_zero_one=True,
            )
            size = environment.create_symintnode(symbol, hint=value)
            _put(model, attribute.path, size)
            sizes.append(size)
            symbols[symbol] = attribute, value
        environment.attributes = frozenset(symbols)
        yield sizes, symbols
    finally:
        for attribute, value in zip(attributes, values, strict=True):
            _put(model, attribute.path, value)


def find_integers(
    model: torch.nn.Module, changed: Callable[[], Mapping[Argument, Sequence[torch.nn.Module]]], trace: Trace
) -> tuple[tuple[IntegerAttribute, ...], Graph, set[Argument]]:
    """The attributes that can be symbols, the graph with them, and the constructor's arguments that these settle.

    `changed` returns for each integer argument of the constructor models with other values of it, best first. It is
    not called for a graph that cannot be traced at all, and not for one that is long to trace.
    """
    best = trace(model, ())
    kept: tuple[IntegerAttribute, ...] = ()
    models = changed() if len(best["nodes"]) <= _MOST_NODES else {}
    firsts = {name: (others[0], _moved(model, others[0])) for name, others in models.items() if others}
    every = tuple(dict.fromkeys(attribute for _, moved in firsts.values() for attribute in moved))
    if every and len({attribute.path for attribute in every}) == len(every):
        graph = try_trace(trace, model, every)
        if graph and all(_agree(graph, try_trace(trace, other, every)) for other, _ in firsts.values()):
            return every, graph, set(firsts)
    settled = set[Argument]()
    for name, others in models.items():
        for other in others:
            more = tuple(a for a in _moved(model, other) if a.path not in {known.path for known in kept})
            graph = try_trace(trace, model, (*kept, *more)) if more and (*kept, *more) != every else None
            if graph and _agree(graph, try_trace(trace, other, (*kept, *more))):
                kept, best = (*kept, *more), graph
                settled.add(name)
                break
    return kept, best, settled


def with_numbers(graph: Graph) -> Graph:
    """A copy in which an attribute that no size depends on is a number like any other: it need not be an integer."""
    symbols = {size["name"]: size for size in graph["sizes"] if "attribute" in size}
    text = json.dumps(graph)
    bare = {
        name
        for name in symbols
        if text.count(json.dumps(["size", name])) == text.count(json.dumps({"size": ["size", name]}))
    }
    plain: Graph = json.loads(text, object_hook=lambda value: _given(value, symbols, bare))
    plain["sizes"] = [size for size in plain["sizes"] if size["name"] not in bare]
    return plain


def _given(value: dict[str, Any], symbols: Mapping[str, dict[str, Any]], bare: set[str]) -> dict[str, Any]:
    size = value.get("size")
    if isinstance(size, list) and size[:1] == ["size"] and size[1] in bare:
        return {"given": symbols[size[1]]["attribute"], "value": symbols[size[1]]["values"][0]}
    return value


def _moved(model: torch.nn.Module, other: torch.nn.Module) -> list[IntegerAttribute]:
    """The attributes that are another integer in the other model; none is negative."""
    held = dict(integers(model))
    pairs = [(path, held[path], value) for path, value in integers(other) if held.get(path, value) != value]
    return [IntegerAttribute(path, min(1, *both)) for path, *both in pairs if min(both) >= 0]


def integers(model: torch.nn.Module) -> Iterator[tuple[str, int]]:
    """The integers among the attributes of a model and its submodules, by path."""
    return ((path, value) for path, value in attributes_of(model) if type(value) is int)


def attributes_of(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """The plain attributes of a model and its submodules, by the expression that a forward would write."""
    for prefix, module in model.named_modules():
        absent = {name: None for name, value in (module._parameters | module._buffers).items() if value is None}
        for name, value in (vars(module) | absent).items():
            path = f"{prefix}.{name}".lstrip(".")
            if name == "training" or not isinstance(value, (bool, int, float, str, tuple, type(None))):
                continue
            yield path, value
            if isinstance(value, tuple):
                yield from ((f"{path}[{i}]", v) for i, v in enumerate(value) if isinstance(v, (int, float)))


def _agree(graph: Graph, other: Graph | None) -> bool:
    return other is not None and _without_values(graph) == _without_values(other)


def _without_values(graph: Graph) -> Graph:
    """The graph without what is known to differ: the attributes' values."""
    plain = copy.copy(graph)
    plain["sizes"] = [{**size, "values": []} if "attribute" in size else size for size in graph["sizes"]]
    return plain


def try_trace(trace: Trace, model: torch.nn.Module, attributes: tuple[IntegerAttribute, ...]) -> Graph | None:
    """The graph of a model; None where it cannot be traced."""
    try:
        return trace(model, attributes)
    except Exception:  # a symbol where PyTorch or the reference needs a number
        return None


def _get(model: torch.nn.Module, path: str) -> Any:
    module, name, place = _owner(model, path)
    value = getattr(module, name)
    return value if place is None else value[place]


def _put(model: torch.nn.Module, path: str, value: Any) -> None:
    module, name, place = _owner(model, path)
    if place is not None:
        old = getattr(module, name)
        value = (*old[:place], value, *old[place + 1 :])
    setattr(module, name, value)


def _owner(model: torch.nn.Module, path: str) -> tuple[torch.nn.Module, str, int | None]:
    item = _ITEM.fullmatch(path)
    prefix, _, name = (item[1] if item else path).rpartition(".")
    return model.get_submodule(prefix), name, int(item[2]) if item else None
