"""Forbidden imports, builtins, attributes and assignments in a candidate's Python, one table for each.

Code that reaches the verifier's own objects in its process can forge its results. So these are refused wherever they
stand, and by name alone where the object that they are read from is not known.
"""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from musadata.records import Finding
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.python.computed_names import StringPrefixes
from musadata.verifier.rules.python.modules import NAMES, STANDARD, check_modules, check_path, is_module, unused_imports
from musadata.verifier.rules.python.name_resolution import Names

_IMPORTS = frozenset({*STANDARD, "torch", "typing", "typing_extensions"})
_TORCH_ESCAPES = NAMES["torch_escapes"]
_TORCH_PROGRAMS = NAMES["torch_programs"]
_TORCH_PRIVATE = NAMES["torch_private"]
_SYSTEM_MODULES = frozenset(NAMES["system_modules"])
_FRAMES = frozenset(NAMES["frames"])
_COUNTS = frozenset(NAMES["counts"])
_FORBIDDEN_CALLS: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("forbidden_calls.yaml").read_text(encoding="utf-8")
)
_ALLOWED_DUNDERS = frozenset(NAMES["allowed_dunders"])
# Functions that may be called, but not passed on: `reduce(getattr, names, torch)` hides what is read.
_CALLED_ONLY = frozenset({*_FORBIDDEN_CALLS, "getattr", "setattr", "delattr"})
# Names that getattr() must not compute. Names of operators may be computed: those are seen when they are dispatched.
_NEVER_COMPUTED = frozenset({
    *_FRAMES, *_COUNTS, *_SYSTEM_MODULES, *_CALLED_ONLY, "modules",
    *(part for path in (*_TORCH_ESCAPES, *_TORCH_PROGRAMS) for part in path.split(".")[1:]),
})  # fmt: skip
_SETTINGS = ("torch.backends", "os.environ", "torch._inductor.config", "torch._dynamo.config")
_RULE_OF_ROOT = {"os": rules.LEGALITY_SYSTEM, "torch": rules.LEGALITY_ESCAPE}  # by root of a path
_STAR_IMPORTS = frozenset(NAMES["star_imports"])
_LANGUAGES = frozenset(NAMES["languages"])


def check_escapes(tree: ast.Module, names: Names) -> Iterator[Finding]:
    """Findings about every line, whether or not the forward reaches it."""
    yield from check_modules(tree, names)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    prefixes = StringPrefixes(tree)
    plain = _lone_decorators(tree)
    unused = set(unused_imports(tree))
    inner = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in plain:
            yield from _check_dataclass(node, names)
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias not in unused:
                    yield from _check_import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            yield from _check_import_from(node)
        elif isinstance(node, ast.Call):
            yield from _check_call(node, names, prefixes)
        elif isinstance(node, ast.Attribute):
            if id(node) in inner:  # torch._C of torch._C._nn.leaky_relu
                continue
            found = list(_check_attribute(node, names))
            if any(one.rule == rules.LEGALITY_TORCH_PROGRAM.id for one in found):
                inner |= {id(one) for one in ast.walk(node.value)}
            yield from found
            if node.attr in _COUNTS:
                yield rules.LEGALITY_COUNTER.finding(node.attr, line=node.lineno)
            elif _is_internal(node.attr) and not (node.attr == "modules" and id(node) in called):
                yield _introspection(node.attr, node.lineno)
        elif isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                if _is_internal(name) or _is_dunder(name):
                    yield _introspection(name, node.lineno)
        elif isinstance(node, ast.Name):
            yield from _check_name(node, id(node) in called)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
            yield from _check_patching(node, names)


def _lone_decorators(tree: ast.Module) -> set[int]:
    """Ids of the decorators that stand alone at a class without bases: all of its annotations are in the source."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    decorators = [node.decorator_list[0] for node in classes if len(node.decorator_list) == 1 and not node.bases]
    return {id(node.func if isinstance(node, ast.Call) else node) for node in decorators}


def _check_dataclass(node: ast.Name | ast.Attribute, names: Names) -> Iterator[Finding]:
    if "dataclasses.dataclass" in names.resolve(node):
        text = "dataclass makes code of a class's annotations: only as the one decorator of a class of its own."
        yield rules.LEGALITY_DYNAMIC.worded(text, node.lineno)


def _is_internal(name: str) -> bool:
    """Whether an attribute leads to frames, counters, sys.modules, or another module. `modules()` is PyTorch's."""
    return name in _FRAMES | _COUNTS or name == "modules" or name.lstrip("_") in _SYSTEM_MODULES


def _introspection(name: str, line: int) -> Finding:
    return rules.LEGALITY_INTROSPECTION.finding(name, line=line)


def _check_import_from(node: ast.ImportFrom) -> Iterator[Finding]:
    module = "." if node.level else node.module or ""
    yield from _check_import(module, node.lineno)
    for alias in node.names:
        yield from _check_path(f"{module}.{alias.name}", node.lineno)
        if alias.name == "*" and module not in _STAR_IMPORTS:
            yield rules.LEGALITY_DYNAMIC.worded(f"from {module} import * hides what is imported.", node.lineno)
        if alias.name.lstrip("_") in _SYSTEM_MODULES and module != "os":
            yield rules.LEGALITY_IMPORT.finding(alias.name, line=node.lineno)


def _check_name(node: ast.Name, is_called: bool) -> Iterator[Finding]:
    if node.id in _CALLED_ONLY and isinstance(node.ctx, ast.Load) and not is_called:
        yield rules.LEGALITY_DYNAMIC.worded(f"{node.id} without a call hides what it is used for.", node.lineno)
    if node.id in ("__builtins__", "__loader__", "__spec__", "__match_args__", "__annotations__"):
        yield _introspection(node.id, node.lineno)


@cache
def _is_installed(package: str) -> bool:
    """Whether a program that imports it would get it; else it may go on without."""
    return importlib.util.find_spec(package) is not None


def _check_import(module: str, line: int) -> Iterator[Finding]:
    if (root := module.split(".")[0]) in _LANGUAGES:
        rule = rules.LEGALITY_LANGUAGE if _is_installed(root) else rules.LEGALITY_MISSING_LANGUAGE
        yield rule.finding(root, line=line)
    elif root == "numpy":
        yield rules.LEGALITY_NUMPY.finding(line=line)
    elif root not in _IMPORTS:
        yield rules.LEGALITY_IMPORT.finding(module, line=line)
    yield from _check_path(module, line)


def _check_path(path: str, line: int) -> Iterator[Finding]:
    for program in _TORCH_PROGRAMS:
        if path == program or path.startswith(f"{program}." if program[-1] != "_" else program):
            yield rules.LEGALITY_TORCH_PROGRAM.finding(program, line=line)
            return
    for escape in _TORCH_ESCAPES:
        if path == escape or path.startswith(escape + "."):
            yield rules.LEGALITY_ESCAPE.finding(escape, line=line)
            return
    problem = check_path(path)
    if problem:
        yield _RULE_OF_ROOT.get(path.split(".")[0], rules.LEGALITY_DYNAMIC).worded(problem, line)
        return
    private = path.startswith("torch.") and "()" not in path and not path.startswith(_TORCH_PRIVATE)
    if private and any(name.startswith("_") and not _is_dunder(name) for name in path.split(".")):
        yield rules.LEGALITY_ESCAPE.worded(f"{path} is not part of PyTorch's interface.", line)


def _check_call(node: ast.Call, names: Names, prefixes: StringPrefixes) -> Iterator[Finding]:
    for path in sorted(names.resolve(node.func)):
        name, text = path.removeprefix("builtins."), ""
        if name in _FORBIDDEN_CALLS:
            text = f"{name}() {_FORBIDDEN_CALLS[name]}."
        if name == "getattr" and _names_counter(node):
            yield rules.LEGALITY_COUNTER.finding("getattr()", line=node.lineno)
        elif name == "getattr" and not (_names_attribute(node) or _is_harmless_read(node, names, prefixes)):
            text = "getattr() with a computed name hides what is called."
        if name in ("setattr", "delattr") and _is_shared(node.args[:1], names):
            yield rules.LEGALITY_PATCH.finding(f"{name}()", line=node.lineno)
        if name in ("setattr", "delattr") and not _may_be_set(node):
            text = f"{name}() changes what Python itself reads."
        if name == "functools.wraps" and (len(node.args) != 1 or node.keywords):
            text = "wraps() of chosen attributes hides what is read."
        if text:
            yield rules.LEGALITY_DYNAMIC.worded(text, node.lineno)


def _names_counter(node: ast.Call) -> bool:
    """Whether a getattr() reads one of the counters that Python and PyTorch keep."""
    return len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value in _COUNTS


def _names_attribute(node: ast.Call) -> bool:
    """Whether a getattr() reads an attribute whose name is a constant, and may be read."""
    if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
        return False
    name = str(node.args[1].value)
    if name.startswith("__"):
        return name in _ALLOWED_DUNDERS
    return not _is_internal(name)


def _is_harmless_read(node: ast.Call, names: Names, prefixes: StringPrefixes) -> bool:
    """Whether a getattr() with a computed name can only read what is harmless, such as a layer's `weight_ih_l{n}`."""
    if len(node.args) < 2 or any("()" not in path for path in names.resolve(node.args[0])):
        return False  # reads from a module
    found = prefixes.of(node.args[1])
    return bool(found) and not any(
        len(start) < 2 or start.startswith("_") or any(name.startswith(start) for name in _NEVER_COMPUTED)
        for start in found
    )


def _may_be_set(node: ast.Call) -> bool:
    """Whether a setattr() cannot set a name that begins with two underscores, or sets an attribute of self."""
    name = node.args[1] if len(node.args) > 1 else None
    if isinstance(name, ast.JoinedStr):
        name = name.values[0] if name.values else None
    while isinstance(name, ast.BinOp):
        name = name.left
    if isinstance(name, ast.Constant):
        return not str(name.value).startswith("__") and str(name.value) != ""
    return isinstance(node.args[0], ast.Name) and node.args[0].id == "self" if node.args else False


def _check_attribute(node: ast.Attribute, names: Names) -> Iterator[Finding]:
    name = node.attr
    if _is_dunder(name) and not _is_allowed_dunder(node):
        yield _introspection(name, node.lineno)
    for path in sorted(names.resolve(node)):
        yield from _check_path(path, node.lineno)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_allowed_dunder(node: ast.Attribute) -> bool:
    if node.attr in _ALLOWED_DUNDERS:
        return True
    if node.attr == "__new__":  # super().__new__(cls), as singletons do
        owner = node.value.func if isinstance(node.value, ast.Call) else node.value
        return isinstance(owner, ast.Name) and owner.id == "super"
    return node.attr == "__class__"  # as in self.__class__.__name__; other attributes of classes are refused by name


def _is_shared(nodes: list[ast.expr], names: Names) -> bool:
    """Whether one of the objects is a module or belongs to one: a change of it outlives the candidate's call."""
    paths = [path for node in nodes for path in names.resolve(node)]
    return any(path.split(".")[0] in ("torch", "builtins", "time", "os") or is_module(path) for path in paths)


def _check_patching(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete, names: Names) -> Iterator[Finding]:
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
    for target in targets:
        if isinstance(target, ast.Attribute) and _is_shared([target.value], names):
            path = sorted(names.resolve(target.value))[0]
            if not path.startswith(_SETTINGS) and "()" not in path:
                yield rules.LEGALITY_PATCH.finding(f"Assigning to {path}.{target.attr}", line=node.lineno)
