"""Name resolution for a candidate's Python: the dotted paths behind aliases, without running it."""

import ast
from dataclasses import dataclass, field


@dataclass
class Names:
    """Aliases of one program, flow-insensitive: a name may have several meanings.

    `paths` maps a name to the dotted paths it may stand for ("F" -> "torch.nn.functional"), `attributes` the same for
    attributes of self; the path "extension" is a module that `load_inline` or `load` returned.
    """

    paths: dict[str, set[str]] = field(default_factory=dict)
    attributes: dict[str, set[str]] = field(default_factory=dict)
    starred: set[str] = field(default_factory=set)  # modules all of whose names were imported
    own: set[str] = field(
        default_factory=set
    )  # names that the program itself defines, which are not those of a starred module

    def resolve(self, node: ast.AST) -> set[str]:
        """The dotted paths that an expression may stand for; empty if unknown."""
        if isinstance(node, ast.Name):
            if node.id in self.paths or node.id in self.own:
                return self.paths.get(node.id, set())
            return {f"{module}.{node.id}" for module in self.starred}
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                return self.attributes.get(node.attr, set())
            return {f"{path}.{node.attr}" for path in self.resolve(node.value)}
        if isinstance(node, ast.Call):
            return self._resolve_call(node)
        if isinstance(node, ast.IfExp):
            return self.resolve(node.body) | self.resolve(node.orelse)
        if isinstance(node, ast.BoolOp):
            return set().union(*(self.resolve(value) for value in node.values))
        if isinstance(node, ast.NamedExpr):
            return self.resolve(node.value)
        return set()

    def _resolve_call(self, node: ast.Call) -> set[str]:
        called = self.resolve(node.func)
        if any(path in LOADERS for path in called):
            return {"extension"}
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return {f"{path}.{name.value}" for path in self.resolve(node.args[0])}
        if "functools.partial" in called and node.args:
            return self.resolve(node.args[0])
        if "returns.extension" in called:
            return {"extension"}
        return {f"{path}()" for path in called if path.count("()") < _MOST_CALLS}


# Longer chains of calls are left to the run-time checks: after thirty lines of `x = x.view(...)` the name would have a
# billion paths.
_MOST_CALLS = 2
LOADERS = ("torch.utils.cpp_extension.load_inline", "torch.utils.cpp_extension.load")
_BUILTINS = (
    "getattr", "setattr", "delattr", "exec", "eval", "compile", "__import__", "globals", "locals", "vars",
    "breakpoint", "help", "id",
)  # fmt: skip


def collect_names(tree: ast.Module) -> Names:
    """All aliases that imports and plain assignments make, and aliases of aliases up to four deep."""
    names = Names({name: {f"builtins.{name}"} for name in _BUILTINS})
    for node in ast.walk(tree):
        _add_import(names, node)
        _add_own(names, node)
    for _ in range(4):  # deeper chains are left to the run-time checks
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    _bind(names, target, node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                _bind(names, node.target, node.value)
            elif isinstance(node, ast.FunctionDef):
                _bind_returns(names, node)
    return names


def _add_own(names: Names, node: ast.AST) -> None:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        names.own.add(node.name)
    elif isinstance(node, ast.arg):
        names.own.add(node.arg)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        names.own.add(node.id)


def _add_import(names: Names, node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.split(".")[0]
            names.paths.setdefault(bound, set()).add(alias.name if alias.asname else bound)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            if alias.name == "*":
                names.starred.add(node.module)
            else:
                names.paths.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")


def _bind(names: Names, target: ast.AST, value: ast.expr) -> None:
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        for inner, element in zip(target.elts, value.elts, strict=False):
            _bind(names, inner, element)
        return
    found = names.resolve(value)
    if not found:
        return
    if isinstance(target, ast.Name):
        names.paths.setdefault(target.id, set()).update(found)
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
        names.attributes.setdefault(target.attr, set()).update(found)


def _bind_returns(names: Names, function: ast.FunctionDef) -> None:
    """A function such as `def get_ext(): ... return ext` returns a compiled extension."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None:
            found |= {path for path in names.resolve(node.value) if path == "extension"}
    if found:
        names.paths.setdefault(function.name, set()).add("returns.extension")
