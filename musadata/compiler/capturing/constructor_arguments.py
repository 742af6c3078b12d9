"""Which numbers of a graph are constructor arguments, found by constructing the model with others.

Each argument that is a number is changed alone. Integers become symbols where the graph is the same for other values.
Another number of the graph that changes with an attribute of the model is read from that attribute; an argument that
changes the graph in another way, or which parameters there are, is one that the kernels are written for.
Runs untrusted code: call inside the sandbox only.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch

from musadata.compiler.capturing.integer_attributes import (
    Graph,
    Trace,
    attributes_of,
    find_integers,
    try_trace,
    with_numbers,
)

MOST_ARGUMENTS = 10
_Argument = tuple[str] | tuple[str, int]  # a parameter of the constructor, and the place among those that have no name


@dataclass
class ConstructorArguments:
    """What a graph takes from the constructor's arguments, by the attributes that hold them.

    Attributes:
        graph: the graph, with `{"given": path, "value": number}` for each number that an attribute holds.
        fixed: the values of attributes that the kernels are written for.
        shaped: the parameters and buffers whose shapes depend on an argument.
    """

    graph: Graph
    fixed: dict[str, str] = field(default_factory=dict)
    shaped: list[str] = field(default_factory=list)


def find_constructor_arguments(
    kind: type[torch.nn.Module],
    arguments: list[Any],
    model: torch.nn.Module,
    trace: Trace,
    still: Callable[[torch.nn.Module], Graph],
    runs: Callable[[torch.nn.Module], bool],
) -> ConstructorArguments:
    """Trace the model, and once more for all arguments that seem to be no more than numbers of its graph.

    `still` traces with numbers for all sizes, which takes a fifth of the time, and tells which seem so. `runs` says
    whether a model takes the task's inputs.
    """
    constructor = _Constructor(kind, arguments, model)
    integers, original, settled = find_integers(model, lambda: constructor.other_integers(runs), trace)
    found = ConstructorArguments(with_numbers(original))
    held = dict(attributes_of(model))
    shapes = _shapes(model)
    left: dict[_Argument, dict[str, Any]] = {}
    hopeful: list[_Argument] = []
    at_rest: Graph | None = None
    for name in constructor.changeable:
        other = None if name in settled else constructor.other(name)
        if other is None:
            continue
        others = _shapes(other)
        found.shaped += [one for one in shapes if others.get(one, shapes[one]) != shapes[one]]
        if others.keys() == shapes.keys() and others != shapes:
            continue
        left[name] = changed = _changed(held, other)
        if others == shapes:
            at_rest = at_rest or still(model)
            seen = try_trace(lambda model, _: still(model), other, ())
            if _mark(copy.deepcopy(at_rest), at_rest, seen, _numbers(held, changed)):
                hopeful.append(name)
    pairs = [pair for name in hopeful for pair in set(_numbers(held, left[name]).values())]
    together = hopeful if len(set(pairs)) == len(pairs) else []  # else a number might be of either argument
    for names in (together, *([name] for name in hopeful)):
        names = [name for name in names if name in left]
        other = constructor.other(*names) if names else None
        if other is not None:
            numbers = _numbers(held, _changed(held, other))
            if _mark(found.graph, original, try_trace(trace, other, integers), numbers):
                left = {name: changed for name, changed in left.items() if name not in names}
    for changed in left.values():
        if changed:
            path = min(changed, key=lambda path: (path.count("."), path.count("["), len(path)))
            found.fixed[path] = repr(held[path])
    free = held.keys() - set(_read_by(found.graph))
    found.fixed |= {path: value for path, value in _words(kind, arguments, model, held).items() if path in free}
    return found


def _numbers(held: dict[str, Any], changed: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The attributes that are numbers, before and after."""
    return {path: (held[path], value) for path, value in changed.items() if not isinstance(value, tuple)}


def _changed(held: dict[str, Any], other: torch.nn.Module) -> dict[str, Any]:
    """The attributes that another model has with other values; a parameter that it has in place of a None is one."""
    values = {**dict.fromkeys(_shapes(other), "a tensor"), **dict(attributes_of(other))}
    return {path: value for path, value in values.items() if path in held and held[path] != value}


def _words(
    kind: type[torch.nn.Module], arguments: list[Any], model: torch.nn.Module, held: dict[str, Any]
) -> dict[str, str]:
    """The attributes that forward reads and that no number is changed for: words and Nones that an argument gave, and
    if its arguments have no names, whatever chooses between ways to compute, as a number of layers does."""
    read = set(model.forward.__code__.co_names)
    bound = _bind(kind, arguments)
    parameters = bound.signature.parameters.values()
    unnamed = any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)
    kinds = (str, type(None), int) if unnamed else (str, type(None))
    given = [value for value in _given(bound).values() if isinstance(value, (str, type(None)))]
    others = {path: value for path, value in held.items() if isinstance(value, kinds) and path in read}
    return {path: repr(value) for path, value in others.items() if unnamed or value in given}


def _read_by(graph: Any) -> Iterator[str]:
    """The attributes that numbers and sizes of a graph are read from."""
    if isinstance(graph, dict):
        yield from (graph[key] for key in ("given", "attribute") if key in graph)
    for part in graph.values() if isinstance(graph, dict) else graph if isinstance(graph, list) else ():
        yield from _read_by(part)


class _Constructor:
    """Models with one argument of the constructor changed."""

    def __init__(self, kind: type[torch.nn.Module], arguments: list[Any], model: torch.nn.Module):
        self._kind, self._arguments = kind, arguments
        self._shapes = _shapes(model)
        self._given = {name: value for name, value in _given(_bind(kind, arguments)).items() if name[0] != "inplace"}
        self.changeable = [name for name, value in self._given.items() if _others(value)][:MOST_ARGUMENTS]

    def other(self, *names: _Argument) -> torch.nn.Module | None:
        """The first model that can be constructed with other values of all these arguments."""
        tries = zip_longest(*(_others(self._given[name]) for name in names))
        models = (self._construct(dict(zip(names, values, strict=True))) for values in tries if None not in values)
        return next((model for model in models if model is not None), None)

    def other_integers(self, runs: Callable[[torch.nn.Module], bool]) -> dict[_Argument, list[torch.nn.Module]]:
        """For each argument, models with other integers that take the same inputs, at most two: with zeros, if that
        may be, and with others."""
        found: dict[_Argument, list[torch.nn.Module]] = {}
        for name in self.changeable:
            models = ((value, self._construct({name: value})) for value in _other_integers(self._given[name]))
            for value, model in models:
                if model is not None and _shapes(model) == self._shapes and runs(model):
                    found.setdefault(name, []).append(model)
                    if value != _zeros(value):
                        break
        return found

    def _construct(self, values: dict[_Argument, Any]) -> torch.nn.Module | None:
        changed = _bind(self._kind, self._arguments)
        for (parameter, *place), value in values.items():
            if place:
                items = list(changed.arguments[parameter])
                items[place[0]] = value
                changed.arguments[parameter] = tuple(items)
            else:
                changed.arguments[parameter] = value
        try:
            return self._kind(*changed.args, **changed.kwargs)
        except Exception:  # the reference allows no such value
            return None


def _shapes(model: torch.nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def _bind(kind: type[torch.nn.Module], arguments: list[Any]) -> inspect.BoundArguments:
    bound = inspect.signature(kind).bind(*arguments)
    bound.apply_defaults()
    return bound


def _given(bound: inspect.BoundArguments) -> dict[_Argument, Any]:
    """The arguments, those without a name each for itself."""
    found: dict[_Argument, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {(name, place): item for place, item in enumerate(value)}
        else:
            found[name,] = value
    return found


def _others(value: Any) -> list[Any]:
    """Other values of the same kind; none if it is not made of numbers."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value // 2, 2 * value]
    if isinstance(value, float):
        return [value * 1.125 + 0.0625]
    if type(value) is tuple and value and all(type(item) is int for item in value):
        return [tuple(item + 1 for item in value)]
    return []


def _other_integers(value: Any) -> list[Any]:
    """Other values of an integer, or of integers in a tuple, that kernels could be given; zeros first."""
    others: list[Any] = []
    if type(value) is tuple and value and all(type(item) is int for item in value):
        others = [tuple(change(item) for item in value) for change in _CHANGES]
    elif type(value) is int:
        others = [change(value) for change in _CHANGES]
    return [other for other in dict.fromkeys(others) if other != value]


_CHANGES: tuple[Callable[[int], int], ...] = (lambda n: 0, lambda n: n + 1, lambda n: 2 * n, lambda n: n // 2)


def _zeros(value: Any) -> Any:
    return (0,) * len(value) if isinstance(value, tuple) else 0


def _mark(graph: Graph, original: Graph, changed: Graph | None, numbers: dict[str, tuple[Any, Any]]) -> bool:
    """Mark each number that changes with an attribute; False if anything else changes, and then nothing is marked."""
    if changed is None:
        return False
    places: list[tuple[Any, Any, str]] = []

    def walk(marked: Any, before: Any, after: Any, inside: bool) -> bool:
        if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
            return all(walk_item(marked, key, before, after, inside or key == "arguments") for key in before)
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            return all(walk_item(marked, index, before, after, inside) for index in range(len(before)))
        return type(before) is type(after) and before == after

    def walk_item(marked: Any, key: Any, before: Any, after: Any, inside: bool) -> bool:
        pair = before[key], after[key]
        if inside and all(type(value) in (int, float) for value in pair) and pair[0] != pair[1]:
            path = next((path for path, known in numbers.items() if known == pair), None)
            places.append((marked, key, path or ""))
            return path is not None and not isinstance(marked[key], dict)
        return walk(marked[key], *pair, inside) if not _is_given(marked[key]) else pair[0] == pair[1]

    if not walk(graph["nodes"], original["nodes"], changed["nodes"], False):
        return False
    rest = [key for key in original if key != "nodes"]
    if any(original[key] != changed[key] for key in rest):
        return False
    for marked, key, path in places:
        marked[key] = {"given": path, "value": marked[key]}
    return True


def _is_given(value: Any) -> bool:
    return isinstance(value, dict) and "given" in value
