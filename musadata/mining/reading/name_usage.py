"""The names that a piece of code uses, scope by scope."""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from musadata.mining.reading.decorators import is_kept
from musadata.mining.reading.dotted_names import dotted_name, last_name
from musadata.mining.reading.einops import call_name
from musadata.mining.reading.known_conditions import known_answer, live_statements
from musadata.mining.reading.parsing import STATEMENTS, bound_names
from musadata.mining.reading.reports import only_reports


@dataclass(frozen=True)
class Usage:
    """Names that a piece of code uses.

    `chains`: dotted names whose root it does not bind itself ("nn.functional.relu"). `attributes`: every attribute name
    and every string that could be one. `hard`: roots of chains that are evaluated at definition, not at a call.
    """

    chains: frozenset[str]
    attributes: frozenset[str]
    hard: frozenset[str]


def usage(
    nodes: Iterable[ast.AST],
    flags: Mapping[str, bool] = MappingProxyType({}),
    einops: Mapping[str, str] = MappingProxyType({}),
) -> Usage:
    """Names used by statements, annotations left out (they are stripped from references).

    Args:
        flags: names whose truth is known.
        einops: names of einops functions, whose calls are written otherwise in a reference.
    """
    walker = _UsageWalker(flags, einops)
    for node in nodes:
        walker.statement(node, frozenset(), deferred=False)
    return Usage(frozenset(walker.chains), frozenset(walker.attributes), frozenset(walker.hard))


class _UsageWalker:
    """Walks statements scope by scope; a name that a function binds anywhere is local to it."""

    def __init__(self, flags: Mapping[str, bool], einops: Mapping[str, str]) -> None:
        self._flags, self._einops = flags, einops
        self.chains: set[str] = set()
        self.attributes: set[str] = set()
        self.hard: set[str] = set()

    def statement(self, node: ast.AST, local: frozenset[str], *, deferred: bool) -> None:
        special = _SPECIAL.get(type(node))
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and only_reports(dotted_name(call.func) or last_name(call.func)):
            return
        if special is not None:
            special(self, node, local, deferred)
        else:
            self._children(node, local, deferred)

    def _children(self, node: ast.AST, local: frozenset[str], deferred: bool) -> None:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                for item in live_statements(value, self._flags) if name in STATEMENTS else value:
                    if isinstance(item, ast.AST):
                        self.statement(item, local, deferred=deferred)
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                self.statement(value, local, deferred=deferred)

    def visit_ClassDef(self, node: ast.ClassDef, local: frozenset[str], deferred: bool) -> None:
        for part in (*filter(is_kept, node.decorator_list), *node.bases, *(item.value for item in node.keywords)):
            self.statement(part, local, deferred=deferred)
        inner = local  # what the class has bound so far, which its methods do not see
        for statement in live_statements(node.body, self._flags):
            bound = inner | frozenset(bound_names(statement))
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.visit_FunctionDef(statement, inner, deferred, local)
            else:
                names = [item for item in ast.walk(statement) if isinstance(item, ast.Name)]
                read = {item.id for item in names if isinstance(item.ctx, ast.Load)}  # `x = x` reads what is outside
                self.statement(statement, bound - (read - inner), deferred=deferred)
            inner = bound

    def visit_FunctionDef(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        local: frozenset[str],
        deferred: bool,
        around: frozenset[str] | None = None,
    ) -> None:
        decorators = [item for item in node.decorator_list if is_kept(item)]
        for item in [*decorators, *node.args.defaults, *node.args.kw_defaults]:
            if item is not None:
                self.statement(item, local, deferred=deferred)
        inner = (local if around is None else around) | _function_locals(node)
        for statement in live_statements(node.body, self._flags):
            self.statement(statement, inner, deferred=True)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda, local: frozenset[str], deferred: bool) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.statement(default, local, deferred=deferred)
        inner = local | frozenset(item.arg for item in _arguments(node.args))
        self.statement(node.body, inner, deferred=True)

    def visit_If(self, node: ast.If, local: frozenset[str], deferred: bool) -> None:
        answer = known_answer(node.test, self._flags)
        if answer is None:
            self._children(node, local, deferred)
        else:
            for statement in live_statements(node.body if answer else node.orelse, self._flags):
                self.statement(statement, local, deferred=deferred)

    def visit_For(self, node: ast.For, local: frozenset[str], deferred: bool) -> None:
        bound: set[str] = set()
        _bind_targets(node, bound)
        self._children(node, local | bound, deferred)

    def visit_Call(self, node: ast.Call, local: frozenset[str], deferred: bool) -> None:
        if self._einops and call_name(node, self._einops):
            for item in [*node.args, *(keyword.value for keyword in node.keywords)]:
                self.statement(item, local, deferred=deferred)
        else:
            self._children(node, local, deferred)

    def visit_AnnAssign(self, node: ast.AnnAssign, local: frozenset[str], deferred: bool) -> None:
        if node.value is not None:
            self.statement(node.value, local, deferred=deferred)
        if not isinstance(node.target, ast.Name):
            self.statement(node.target, local, deferred=deferred)

    def visit_Name(self, node: ast.Name, local: frozenset[str], deferred: bool) -> None:
        self._chain(node.id, node.id, local, deferred=deferred)

    def visit_Constant(self, node: ast.Constant, local: frozenset[str], deferred: bool) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.attributes.add(node.value)

    def visit_ListComp(
        self,
        node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
        local: frozenset[str],
        deferred: bool,
    ) -> None:
        targets = [item for part in node.generators for item in ast.walk(part.target)]
        bound = frozenset(item.id for item in targets if isinstance(item, ast.Name))
        self._children(node, local | bound, deferred)

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_Attribute(self, node: ast.Attribute, local: frozenset[str], deferred: bool) -> None:
        parts: list[str] = []
        value: ast.expr = node
        while isinstance(value, ast.Attribute):
            parts.append(value.attr)
            self.attributes.add(value.attr)
            value = value.value
        if isinstance(value, ast.Name):
            self._chain(value.id, ".".join([value.id, *reversed(parts)]), local, deferred=deferred)
        else:
            self.statement(value, local, deferred=deferred)

    def _chain(self, root: str, chain: str, local: frozenset[str], *, deferred: bool) -> None:
        if root not in local:
            self.chains.add(chain)
            if not deferred:
                self.hard.add(root)


_SPECIAL: dict[type[ast.AST], Callable[..., None]] = {
    getattr(ast, name.removeprefix("visit_")): method
    for name, method in vars(_UsageWalker).items()
    if name.startswith("visit_")
}


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    extra = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


def _function_locals(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Names that a function binds. Only statements and conditions are visited: nothing else binds in its scope."""
    bound = {item.arg for item in _arguments(node.args)}
    free: set[str] = set()
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind in _PLAIN_STATEMENTS:
            continue
        if kind is ast.Global:
            free.update(item.names)  # type: ignore[attr-defined]
        elif isinstance(item, ast.Match):
            bound.update(
                part.name for part in ast.walk(item) if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name
            )
            stack.extend(statement for case in item.cases for statement in case.body)
        elif isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            bound.update(bound_names(item))
        else:
            _bind_targets(item, bound)
            for name in STATEMENTS:
                stack.extend(getattr(item, name, ()))
    return frozenset(bound - free)


_PLAIN_STATEMENTS = frozenset(
    {ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Pass, ast.Delete, ast.Break, ast.Continue}
)


def _bind_targets(item: ast.AST, bound: set[str]) -> None:
    """Names that a statement binds itself, without those of its body."""
    targets: list[ast.AST] = list(getattr(item, "targets", ()))
    target = getattr(item, "target", None)
    targets += [target] if target is not None else []
    targets += [part.optional_vars for part in getattr(item, "items", ()) if part.optional_vars is not None]
    while targets:
        part = targets.pop()
        if isinstance(part, ast.Name):
            bound.add(part.id)
        elif isinstance(part, (ast.Tuple, ast.List)):
            targets.extend(part.elts)
        elif isinstance(part, ast.Starred):
            targets.append(part.value)
    if isinstance(item, ast.ExceptHandler) and item.name:
        bound.add(item.name)
    test = getattr(item, "test", None)  # of an `if` or `while`, the usual places of `:=`
    if test is not None:
        bound.update(part.target.id for part in ast.walk(test) if isinstance(part, ast.NamedExpr))
