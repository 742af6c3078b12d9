"""Conditions on what a call is given, not on its size or value: `x is None`, `mode == "max"`, `x.dim() > 3`.

The inputs of a reference keep their kinds, types and numbers of dimensions at every size, so such a condition keeps the
value that was observed. Whether it is one shows in its text and in the values of the names that it reads: a number or a
tensor there may depend on sizes, while `None`, a string or a module does not.
"""

import ast
import builtins
import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from musadata.mining.pruning.survey import Survey
from musadata.mining.reading.dotted_names import last_name

Path = tuple[str, ...]  # a name and the attributes after it
ABOUT_KIND = frozenset({"isinstance", "issubclass", "callable", "hasattr"})
KIND_ATTRIBUTES = frozenset({"ndim", "dtype", "device", "layout", "is_cuda", "is_sparse", "is_nested", "requires_grad"})
KIND_METHODS = frozenset({"dim", "ndimension", "is_floating_point", "is_complex", "type", "get_device"})
MAX_DEPTH = 3  # of predicates that call others
FEW = 16  # items of a sequence that are looked at


def read_paths(test: ast.expr, known: "Known", depth: int = 0) -> list[Path] | None:
    """What a condition reads of which the values decide whether it is about structure; None if it never is."""
    path = dotted_path(test)
    if len(path) == 1 and path[0] in known.results and depth < MAX_DEPTH:
        return _of_result(known.results[path[0]], known, depth + 1)
    if isinstance(test, ast.Constant) or (isinstance(test, ast.Attribute) and test.attr in KIND_ATTRIBUTES):
        return []
    if path:
        return [path]
    if isinstance(test, ast.Compare) and _compares_with_none(test):
        return []
    if isinstance(test, ast.Call):
        return _of_call(test, known, depth)
    if isinstance(test, ast.UnaryOp) and not isinstance(test.op, ast.Not):
        return None
    if isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Set)):
        parts = [read_paths(item, known, depth) for item in ast.iter_child_nodes(test) if isinstance(item, ast.expr)]
        return None if None in parts else [path for part in parts for path in part or ()]
    return None


@dataclass(frozen=True)
class Known:
    """What the names in a condition stand for.

    `predicates`: functions of the reference that only return an expression. `results`: variables that hold what a call
    returned, and nothing else.
    """

    predicates: Mapping[str, ast.FunctionDef]
    results: Mapping[str, ast.Call]


def _of_result(call: ast.Call, known: Known, depth: int) -> list[Path] | None:
    """What decides on the result of a call: whose method it is, and its arguments."""
    given = [read_paths(item, known, depth) for item in (*call.args, *(item.value for item in call.keywords))]
    owner = dotted_path(call.func)
    if not owner or None in given:
        return None
    return [owner[:-1] or owner, *(path for part in given for path in part or ())]


def _of_call(call: ast.Call, known: "Known", depth: int) -> list[Path] | None:
    name = last_name(call.func)
    if isinstance(call.func, ast.Attribute) and name in KIND_METHODS and not call.args and not call.keywords:
        return []
    if not isinstance(call.func, ast.Name) or call.keywords:
        return None
    if name == "len" and len(call.args) == 1:
        return [] if is_shape(call.args[0]) else read_paths(call.args[0], known, depth)
    if name in ABOUT_KIND or (name == "type" and len(call.args) == 1):
        return []
    predicate = known.predicates.get(name)
    given = predicate.args.args if predicate else []
    if predicate is None or depth == MAX_DEPTH or len(given) != len(call.args):
        return None
    values = dict(zip((item.arg for item in given), call.args, strict=True))
    return read_paths(_Given(values).visit(copy.deepcopy(returned(predicate))), known, depth + 1)


class _Given(ast.NodeTransformer):
    """Puts arguments in place of the parameters in what a function returns."""

    def __init__(self, values: dict[str, ast.expr]):
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


def predicates_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions that do nothing but return an expression, with plain parameters."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and returned(node) is not None:
            given = node.args
            if not (given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults):
                found[node.name] = node
    return found


def returned(function: ast.FunctionDef) -> Any:
    """The expression that is all that a function evaluates; None if there is more."""
    last = function.body[-1]
    plain = len(function.body) == 1 and isinstance(last, ast.Return)
    return last.value if plain and isinstance(last, ast.Return) else None


def paths_of(tree: ast.Module, survey: Survey) -> dict[int, list[Path]]:
    """`read_paths` of each condition that may be about structure, by its number."""
    predicates = predicates_of(tree)
    results = {id(function): _results(function) for function in survey.functions}
    found: dict[int, list[Path]] = {}
    for number, site in enumerate(survey.sites):
        if isinstance(site, ast.expr):
            paths = read_paths(site, Known(predicates, results.get(id(survey.inside[id(site)]), {})))
            found |= {} if paths is None else {number: paths}
    return found


def _results(function: ast.AST) -> dict[str, ast.Call]:
    """Variables that are assigned once, and hold what a call returns."""
    calls: dict[str, ast.Call] = {}
    stores = Counter(item.id for item in ast.walk(function) if isinstance(item, ast.Name) and is_stored(item))
    stores.update(item.arg for item in ast.walk(function) if isinstance(item, ast.arg))
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            calls[node.targets[0].id] = node.value
    return {name: call for name, call in calls.items() if stores[name] == 1}


def is_stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def dotted_path(node: ast.expr) -> Path:
    """`self.a.b` as its names; () for all else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def is_structural(path: Path, local: Mapping[str, Any], top: Mapping[str, Any]) -> bool:
    """Whether the value of a path says nothing of sizes or values of inputs."""
    first, *rest = path
    if first not in local and first not in top:
        return first in vars(builtins)
    value = local[first] if first in local else top[first]
    try:
        for name in rest:
            value = getattr(value, name)
    except Exception:  # a property may do anything
        return False
    return _is_structure(value, own=first == "self" and bool(rest))


def _is_structure(value: Any, *, own: bool) -> bool:
    """`own`: of an attribute of the module, whose flags are no comparisons of sizes."""
    if isinstance(value, (bool, torch.Tensor, int, float, complex)) or hasattr(value, "__array__"):
        return own and type(value) is bool
    if isinstance(value, (tuple, list, set, frozenset)):
        return len(value) <= FEW and all(_is_structure(item, own=own) for item in value)
    return True


def _compares_with_none(test: ast.Compare) -> bool:
    with_none = all(isinstance(item, ast.Constant) and item.value is None for item in test.comparators)
    return with_none and all(isinstance(item, (ast.Is, ast.IsNot)) for item in test.ops)


def is_shape(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "shape"
    return isinstance(node, ast.Call) and last_name(node.func) == "size" and not node.args
