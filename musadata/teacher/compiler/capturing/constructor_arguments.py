"""Which numbers of a graph are constructor arguments, found by constructing the model with others.

Each argument that is a number, and that no shape of a parameter depends on, is changed alone. A number of the graph
that changes with an attribute of the model is read from that attribute; an argument that changes the graph in another
way is one that the kernels are written for. Runs untrusted code: call inside the sandbox only.
"""

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

MOST_ARGUMENTS = 10
Graph = dict[str, Any]


@dataclass
class ConstructorArguments:
    """What a graph takes from the constructor's arguments, by the attributes that hold them.

    Attributes:
        graph: the graph, with `{"given": path, "value": number}` for each number that an attribute holds.
        fixed: the values of attributes that the kernels are written for.
    """

    graph: Graph
    fixed: dict[str, str] = field(default_factory=dict)


def find_constructor_arguments(
    kind: type[torch.nn.Module], arguments: list[Any], model: torch.nn.Module, trace: Callable[[torch.nn.Module], Graph]
) -> ConstructorArguments:
    """Trace the model, and once more for each argument that may matter."""
    original = trace(model)
    found = ConstructorArguments(copy.deepcopy(original))
    held = dict(_attributes(model))
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    for other in _changed_models(kind, arguments):
        if {name: tensor.shape for name, tensor in other.state_dict().items()} != shapes:
            continue
        changed = {path: value for path, value in _attributes(other) if path in held and held[path] != value}
        if not changed:
            continue
        numbers = {path: (held[path], value) for path, value in changed.items() if not isinstance(value, tuple)}
        if not _mark(found.graph, original, _try(trace, other), numbers):
            path = min(changed, key=lambda path: (path.count("."), path.count("["), len(path)))
            found.fixed[path] = repr(held[path])
    names = set(model.forward.__code__.co_names)
    others = {path: value for path, value in held.items() if isinstance(value, (str, type(None))) and path in names}
    given = [value for value in _bind(kind, arguments).arguments.values() if isinstance(value, (str, type(None)))]
    found.fixed |= {path: repr(value) for path, value in others.items() if value in given}
    return found


def _changed_models(kind: type[torch.nn.Module], arguments: list[Any]) -> Iterator[torch.nn.Module]:
    """The model with one argument after the other changed."""
    named = {name: _others(value) for name, value in _bind(kind, arguments).arguments.items() if name != "inplace"}
    for name in [name for name, others in named.items() if others][:MOST_ARGUMENTS]:
        for other in named[name]:
            changed = _bind(kind, arguments)
            changed.arguments[name] = other
            try:
                yield kind(*changed.args, **changed.kwargs).eval()
                break
            except Exception:  # the reference allows no such value
                continue


def _bind(kind: type[torch.nn.Module], arguments: list[Any]) -> inspect.BoundArguments:
    bound = inspect.signature(kind).bind(*arguments)
    bound.apply_defaults()
    return bound


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


def _attributes(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """The plain attributes of a model and its submodules, by the expression that a forward would write."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            path = f"{prefix}.{name}".lstrip(".")
            if name == "training" or not isinstance(value, (bool, int, float, str, tuple, type(None))):
                continue
            yield path, value
            if isinstance(value, tuple):
                yield from ((f"{path}[{i}]", v) for i, v in enumerate(value) if isinstance(v, (int, float)))


def _try(trace: Callable[[torch.nn.Module], Graph], model: torch.nn.Module) -> Graph | None:
    try:
        return trace(model)
    except Exception:
        return None


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
