"""Removing attributes, variables, parameters and imports of a pruned reference that nothing reads any more.

Removing branches leaves them behind: a flag that selected a branch is still passed on.
"""

import ast
import re
from collections.abc import Collection
from itertools import pairwise

from musadata.mining.pruning.cutting import Cutter
from musadata.mining.pruning.parameters import drop_parameters, join_changed
from musadata.mining.pruning.survey import defined_names
from musadata.mining.pruning.uses import WORD, Scope, Uses
from musadata.mining.slicing.members import is_docstring
from musadata.mining.slicing.naming import sort_imports

MAX_ROUNDS = 10
# Calls without side effects.
MAKING = frozenset(
    {"int", "float", "bool", "str", "len", "max", "min", "abs", "round", "sum", "tuple", "list", "dict"}
) | frozenset({"getattr", "hasattr", "isinstance", "range"})
OPTIMIZER = re.compile(r"(torch\.)?optim\.[A-Z]\w+$")  # only remembers parameters
PLAIN = (ast.Name, ast.Constant, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Subscript, ast.Slice)
COUNTING = (ast.BinOp, ast.IfExp, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.JoinedStr, ast.FormattedValue)
SYMBOLS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
ROOTS = frozenset({"object", "nn.Module", "torch.nn.Module"})
READ_BY_TORCH = frozenset({"training"})


def drop_unused(source: str, init: tuple[str, ...], inputs: int, *, objects: int = 0) -> tuple[str, tuple[str, ...]]:
    """The definitions without unread code, and the remaining constructor arguments.

    Args:
        init: the constructor's arguments, as expressions.
        inputs: how many arguments `forward` is given.
        objects: 1 to remove attributes that nothing reads and that hold instances of the reference's classes, or
            functions that it makes; 2 for those as well that hold what a function returns, as `build_loss(loss)` does.
    """
    changed: set[str] = set()
    for _ in range(MAX_ROUNDS):
        tree, cutter = ast.parse(source), Cutter(source, set())
        uses = Uses(tree)
        init, names = drop_parameters(tree, uses, cutter, init, inputs)
        changed |= names
        _drop_unread(tree, uses, cutter, objects)
        if not cutter.has_cut:
            return join_changed(_without_imports(source, tree, uses), changed), init
        source = cutter.text()
    return join_changed(source, changed), init


def _drop_unread(tree: ast.Module, uses: Uses, cutter: Cutter, objects: int) -> None:
    """Statements that only bind what nothing reads."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    made = classes.keys() | _functions(tree, any_kind=objects > 1)
    for node in _unreached(tree, uses):
        cutter.drop_statement(node)
    for node in classes.values():
        _skip_empty_bases(node, classes, uses, cutter)
    for scope in uses.scopes:
        is_known = scope.owner is not None and _is_own(scope.owner, classes)
        _drop_in(scope, uses.read if is_known else None, cutter, made if objects else ())


def _functions(tree: ast.Module, *, any_kind: bool) -> set[str]:
    """Functions that do nothing but return a function that they define; or all."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    kinds = (ast.FunctionDef, ast.Return)
    return {
        node.name for node in functions if any_kind or (
            all(isinstance(item, kinds) or is_docstring(item) for item in node.body)
            and isinstance(node.body[-1], ast.Return) and isinstance(node.body[-1].value, ast.Name)
        )
    }  # fmt: skip


def _unreached(tree: ast.Module, uses: Uses) -> list[ast.stmt]:
    """Definitions that `Model` does not use, directly or indirectly."""
    places = {name: place for place, node in enumerate(tree.body) for name in defined_names(node)}
    waiting = [place for place, node in enumerate(tree.body) if "Model" in (defined_names(node) or ["Model"])]
    done = set(waiting)
    while waiting:
        names = uses.below[waiting.pop()]
        found = {place for name, place in places.items() if name in names} - done
        done |= found
        waiting += found
    return [node for place, node in enumerate(tree.body) if place not in done]


def _skip_empty_bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef], uses: Uses, cutter: Cutter) -> None:
    """Replace an empty base class by its own base, if nothing else refers to it."""
    for base in node.bases:
        above = classes.get(base.id) if isinstance(base, ast.Name) else None
        if above is None or len(above.bases) != 1 or above.keywords or uses.names[above.name] != 1:
            continue
        if all(isinstance(item, ast.Pass) or is_docstring(item) for item in above.body):
            place = base.lineno, base.col_offset, base.end_lineno or 0, base.end_col_offset or 0
            cutter.replace(*place, ast.unparse(above.bases[0]))


def _is_own(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether all bases of a class are defined here, so that no code outside the reference reads its attributes."""
    for name in map(ast.unparse, node.bases):
        above = classes.get(name)
        if name not in ROOTS and (above is None or above is node or not _is_own(above, classes)):
            return False
    return not node.keywords and not node.decorator_list


def _drop_in(scope: Scope, attributes: set[str] | None, cutter: Cutter, made: Collection[str]) -> None:
    """Drop inner functions without a use, `x = x`, and what binds what nothing reads.

    `attributes`: those that something reads; None where that is not known. `made`: classes taken as harmless."""
    if {"locals", "vars"} & scope.loaded:
        return
    for block in scope.blocks:
        unread = [item for item in block if _is_unread(item, scope, attributes, made)]
        unread += [first for first, second in pairwise(block) if first not in unread and _is_overwritten(first, second)]
        for item in unread:
            (cutter.blank if len(unread) == len(block) and item is unread[0] else cutter.drop_statement)(item)


def _is_unread(statement: ast.stmt, scope: Scope, attributes: set[str] | None, made: Collection[str]) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return not statement.decorator_list and statement.name not in scope.loaded
    target: ast.expr
    if isinstance(statement, ast.AugAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    else:
        return False
    if (
        isinstance(statement, ast.Assign)
        and isinstance(target, ast.Name)
        and isinstance(statement.value, ast.Name)
        and target.id == statement.value.id
    ):
        return True
    if not _is_pure(statement.value, scope.function.name == "__init__", made):
        return False
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        return attributes is not None and target.attr not in attributes and target.attr not in READ_BY_TORCH
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(item, ast.Name) and item.id not in scope.loaded for item in names)


def _is_overwritten(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether the second statement immediately overwrites the value of the first."""
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign) or not _is_pure(first.value, False):
        return False
    target = ast.unparse(first.targets[0])
    if len(first.targets) > 1 or [ast.unparse(item) for item in second.targets] != [target]:
        return False
    return not set(WORD.findall(target)) - {"self"} & set(WORD.findall(ast.unparse(second.value)))


def _is_pure(value: ast.expr, may_count: bool, made: Collection[str] = ()) -> bool:
    """Whether an expression has no side effects; `may_count`: arithmetic is allowed, since no tensor is involved."""
    if isinstance(value, ast.Call) and OPTIMIZER.match(ast.unparse(value.func)):
        return True
    for item in ast.walk(value):
        if isinstance(item, ast.Call):
            known = isinstance(item.func, ast.Name) and (item.func.id in MAKING or item.func.id in made)
            known |= isinstance(item.func, ast.Attribute) and item.func.attr == "size"
            if not known:
                return False
        elif not isinstance(item, (*PLAIN, *SYMBOLS, ast.keyword)) and not (may_count and isinstance(item, COUNTING)):
            return False
    return True


def _without_imports(source: str, tree: ast.Module, uses: Uses) -> str:
    """The definitions under the imports that they need."""
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not imports or any(node.lineno > item.lineno for node in imports for item in tree.body if item not in imports):
        return source
    used = uses.names.keys() | {"torch"}
    statements = {
        f"{head} {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        for node in imports
        for alias in node.names
        for head in [f"from {'.' * node.level}{node.module} import" if isinstance(node, ast.ImportFrom) else "import"]
        if (alias.asname or alias.name.partition(".")[0]) in used
    }
    body = "".join(source.splitlines(keepends=True)[imports[-1].end_lineno or 0 :]).strip("\n")
    return f"{sort_imports(statements)}\n\n\n{body}\n"
