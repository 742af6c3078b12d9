"""Ways out of a candidate's Python: modules, builtins and attributes that lead past PyTorch's interface.

Whoever gets at the process that judges can forge what it reports, so these are refused wherever they stand, and by
their names alone where nothing more is known of what they are read from.
"""

import ast
from collections.abc import Iterator

from musadata.records import Finding
from musadata.verifier.rules.python.computed_names import Beginnings
from musadata.verifier.rules.python.modules import STANDARD, check_modules, check_path, is_module, unused_imports
from musadata.verifier.rules.python.names import Names

_IMPORTS = frozenset({*STANDARD, "torch", "typing", "typing_extensions"})
_TORCH_ESCAPES = (
    "torch.compile", "torch.jit", "torch.fx", "torch._dynamo", "torch._inductor", "torch.multiprocessing",
    "torch.distributed", "torch.hub", "torch.load", "torch.save", "torch.package", "torch.export", "torch.func",
    "torch.vmap", "torch.cuda.graph", "torch.cuda.CUDAGraph", "torch.cuda.make_graphed_callables", "torch.overrides",
    "torch.utils._python_dispatch", "torch.serialization", "torch.classes", "torch.nested", "torch.sparse",
    "torch._C", "torch.testing", "torch.profiler", "torch.autograd.profiler", "torch.ops.load_library",
    "torch.utils.cpp_extension._import_module_from_library",
)  # fmt: skip
# Those that are harmless.
_TORCH_PRIVATE = ("torch._assert", "torch._check", "torch.utils.cpp_extension._", "torch.nn.init._calculate_")
# Modules that others hold as attributes: torch.os, warnings.sys.
_HELD_MODULES = frozenset({
    "atexit", "builtins", "codeop", "copyreg", "ctypes", "gc", "importlib", "inspect", "linecache", "multiprocessing",
    "os", "pickle", "pkgutil", "runpy", "socket", "subprocess", "sys", "threading", "traceback",
})  # fmt: skip
_FRAMES = frozenset({
    "f_back", "f_locals", "f_globals", "f_builtins", "tb_frame", "tb_next", "gi_frame", "cr_frame", "ag_frame",
    "_getframe",
})  # fmt: skip
# How often a tensor was written, or a function called: kept by Python and PyTorch themselves, where no change is seen.
_COUNTS = frozenset({"_version", "_sequence_nr", "cache_info"})
_FORBIDDEN_CALLS = {
    "exec": "runs code that cannot be read",
    "eval": "runs code that cannot be read",
    "compile": "makes code that cannot be read",
    "__import__": "imports past the list of allowed modules",
    "globals": "reaches into the program itself",
    "locals": "reaches into the program itself",
    "vars": "reaches into the program itself",
    "breakpoint": "runs what the environment names",
    "help": "imports what a string names",
}
_ALLOWED_DUNDERS = frozenset({
    "__init__", "__name__", "__file__", "__doc__", "__version__", "__call__",
})  # fmt: skip


# What may be called, but not handed on: `reduce(getattr, names, torch)` reads what nobody sees.
_ONLY_CALLED = frozenset({*_FORBIDDEN_CALLS, "getattr", "setattr", "delattr"})
# What a name that is partly computed must not become. Operators may: those are seen when they are dispatched.
_NOT_COMPUTED = frozenset({
    *_FRAMES, *_COUNTS, *_HELD_MODULES, *_ONLY_CALLED, "modules",
    *(part for path in _TORCH_ESCAPES for part in path.split(".")[1:]),
})  # fmt: skip
_RULES = {"os": "legality.system", "torch": "legality.escape"}  # by root of a path
# Their names are not hidden in another module's by a star.
_STARRED = frozenset({"math", "torch", "torch.nn", "torch.nn.functional", "typing"})


def check_escapes(tree: ast.Module, names: Names) -> Iterator[Finding]:
    """Findings about every line, whether or not the forward reaches it."""
    yield from check_modules(tree, names)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    beginnings = Beginnings(tree)
    plain = _plain_decorators(tree)
    unused = set(unused_imports(tree))
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
            yield from _check_call(node, names, beginnings)
        elif isinstance(node, ast.Attribute):
            yield from _check_attribute(node, names)
            if _is_inner(node.attr) and not (node.attr == "modules" and id(node) in called):
                yield _introspection(node.attr, node.lineno)
        elif isinstance(node, ast.MatchClass):
            for name in node.kwd_attrs:
                if _is_inner(name) or _is_dunder(name):
                    yield _introspection(name, node.lineno)
        elif isinstance(node, ast.Name):
            yield from _check_name(node, id(node) in called)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)):
            yield from _check_patching(node, names)


def _plain_decorators(tree: ast.Module) -> set[int]:
    """The only decorators of classes without bases, whose annotations are all there to be read."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    decorators = [node.decorator_list[0] for node in classes if len(node.decorator_list) == 1 and not node.bases]
    return {id(node.func if isinstance(node, ast.Call) else node) for node in decorators}


def _check_dataclass(node: ast.Name | ast.Attribute, names: Names) -> Iterator[Finding]:
    if "dataclasses.dataclass" in names.resolve(node):
        text = "dataclass makes code of a class's annotations: only as the one decorator of a class of its own."
        yield Finding("legality.dynamic", text, node.lineno)


def _is_inner(name: str) -> bool:
    """Frames, counts, sys.modules, and modules of the standard library that others hold; `modules()` is PyTorch's."""
    return name in _FRAMES | _COUNTS or name == "modules" or name.lstrip("_") in _HELD_MODULES


def _introspection(name: str, line: int) -> Finding:
    return Finding("legality.introspection", f"{name} reaches into Python's internals.", line)


def _check_import_from(node: ast.ImportFrom) -> Iterator[Finding]:
    module = "." if node.level else node.module or ""
    yield from _check_import(module, node.lineno)
    for alias in node.names:
        yield from _check_path(f"{module}.{alias.name}", node.lineno)
        if alias.name == "*" and module not in _STARRED:
            yield Finding("legality.dynamic", f"from {module} import * hides what is imported.", node.lineno)
        if alias.name.lstrip("_") in _HELD_MODULES and module != "os":
            yield Finding("legality.import", f"Importing {alias.name} is not allowed here.", node.lineno)


def _check_name(node: ast.Name, is_called: bool) -> Iterator[Finding]:
    if node.id in _ONLY_CALLED and isinstance(node.ctx, ast.Load) and not is_called:
        yield Finding("legality.dynamic", f"{node.id} without a call hides what it is used for.", node.lineno)
    if node.id in ("__builtins__", "__loader__", "__spec__", "__match_args__", "__annotations__"):
        yield _introspection(node.id, node.lineno)


def _check_import(module: str, line: int) -> Iterator[Finding]:
    if module.split(".")[0] not in _IMPORTS:
        yield Finding("legality.import", f"Importing {module} is not allowed here.", line)
    yield from _check_path(module, line)


def _check_path(path: str, line: int) -> Iterator[Finding]:
    for escape in _TORCH_ESCAPES:
        if path == escape or path.startswith(escape + "."):
            yield Finding("legality.escape", f"{escape} is not allowed: the work must be done by your kernels.", line)
            return
    problem = check_path(path)
    if problem:
        yield Finding(_RULES.get(path.split(".")[0], "legality.dynamic"), problem, line)
        return
    private = path.startswith("torch.") and "()" not in path and not path.startswith(_TORCH_PRIVATE)
    if private and any(name.startswith("_") and not _is_dunder(name) for name in path.split(".")):
        yield Finding("legality.escape", f"{path} is not part of PyTorch's interface.", line)


def _check_call(node: ast.Call, names: Names, beginnings: Beginnings) -> Iterator[Finding]:
    for path in sorted(names.resolve(node.func)):
        name = path.removeprefix("builtins.")
        if name in _FORBIDDEN_CALLS:
            yield Finding("legality.dynamic", f"{name}() {_FORBIDDEN_CALLS[name]}.", node.lineno)
        if name == "getattr" and not (_names_attribute(node) or _leads_nowhere(node, names, beginnings)):
            yield Finding("legality.dynamic", "getattr() with a computed name hides what is called.", node.lineno)
        if name in ("setattr", "delattr") and _is_everybodys(node.args[:1], names):
            yield Finding("legality.patch", f"{name}() changes what is everybody's.", node.lineno)
        if name in ("setattr", "delattr") and not _may_be_set(node):
            yield Finding("legality.dynamic", f"{name}() changes what Python itself reads.", node.lineno)
        if name == "functools.wraps" and (len(node.args) != 1 or node.keywords):
            yield Finding("legality.dynamic", "wraps() of chosen attributes hides what is read.", node.lineno)


def _names_attribute(node: ast.Call) -> bool:
    """Whether a getattr() reads an attribute whose name stands there, and is one that may be read."""
    if len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
        return False
    name = str(node.args[1].value)
    if name.startswith("__"):
        return name in _ALLOWED_DUNDERS
    return not _is_inner(name)


def _leads_nowhere(node: ast.Call, names: Names, beginnings: Beginnings) -> bool:
    """Whether a getattr() with a computed name can only read what is harmless, such as a layer's `weight_ih_l{n}`."""
    if len(node.args) < 2 or any("()" not in path for path in names.resolve(node.args[0])):
        return False  # of a module
    found = beginnings.of(node.args[1])
    return bool(found) and not any(
        len(start) < 2 or start.startswith("_") or any(name.startswith(start) for name in _NOT_COMPUTED)
        for start in found
    )


def _may_be_set(node: ast.Call) -> bool:
    """Whether a setattr() surely leaves alone what begins with two underscores, or is one of a module's own."""
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
    return node.attr == "__class__"  # as in self.__class__.__name__; what leads further is forbidden by itself


def _is_everybodys(nodes: list[ast.expr], names: Names) -> bool:
    """Whether it is PyTorch's, or a module: whatever is put there stays, and no change of it is seen."""
    paths = [path for node in nodes for path in names.resolve(node)]
    return any(path.split(".")[0] in ("torch", "builtins", "time", "os") or is_module(path) for path in paths)


def _check_patching(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete, names: Names) -> Iterator[Finding]:
    targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else [node.target]
    for target in targets:
        if isinstance(target, ast.Attribute) and _is_everybodys([target.value], names):
            path = sorted(names.resolve(target.value))[0]
            if not path.startswith(("torch.backends", "os.environ")) and "()" not in path:
                yield Finding(
                    "legality.patch", f"Assigning to {path}.{target.attr} changes it for everybody.", node.lineno
                )  # type: ignore[attr-defined]
