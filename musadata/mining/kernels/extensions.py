"""The native extensions that a repository builds: their names and source files."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath

from musadata.mining.kernels.native_parsing import SUFFIXES
from musadata.mining.reading.dotted_names import last_name

BUILDERS = frozenset({"CUDAExtension", "CppExtension", "Extension", "SYCLExtension", "MUSAExtension", "CMakeExtension"})
DEVICE_BUILDERS = frozenset({"CUDAExtension", "MUSAExtension"})
DEVICE = (".cu", ".mu")
LOADERS = frozenset({"load", "load_inline"})
NAMES = ("name", "module_name")
PATHS = frozenset(("join", "joinpath", "Path", "glob", "iglob", "rglob", "abspath", "relpath", "realpath", "dirname"))
READERS = frozenset({"open", "read", "read_text"})
PLAIN = PATHS | READERS | {"resolve", "str", "list", "sorted", "set", "append", "extend"}
# Macros that a build defines: `("WITH_CUDA", None)` of `define_macros`, or the flag "-DWITH_CUDA".
MACRO = re.compile(r"""["']-D([A-Z]\w*)(?:=1)?["']|\(\s*["']([A-Z]\w*)["']\s*,\s*(?:None|["']?1["']?)\s*\)""")
FOR_DEVICE = re.compile(r"^(?!.*(?:NO_|HIP|ROCM)).*(?:CUDA|GPU)")
UNKNOWN = "?"  # a part of an expression that only a run of the script would tell
Bound = Mapping[str, list[ast.expr]]  # the expressions that a file binds to a name


@dataclass(frozen=True)
class Extension:
    """One extension. `sources`: paths in the tree; empty if the build computes them: then all files below `folder`."""

    name: str
    folder: str
    sources: frozenset[str]
    inline: str = ""  # device code that stands in the Python file itself
    inline_host: str = ""  # and host code
    functions: tuple[str, ...] = ()  # that `load_inline` binds


def find_extensions(path: str, tree: ast.Module, files: frozenset[str]) -> Iterator[tuple[str, Extension]]:
    """Extensions that a Python file builds, each with the name that means it in the file.

    The name is a variable, "function()" for what a function returns, or "" in a setup script.

    Args:
        files: every path of the repository.
    """
    bound = _bound(tree)
    found: dict[int, str] = {}  # a call, and the name of its result
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            returned = [item.value for item in ast.walk(node) if isinstance(item, ast.Return)]
            found |= {id(item): f"{node.name}()" for item in returned if isinstance(item, ast.Call)}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[id(node.value)] = node.targets[0].id
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _builds(node, bound):
            extension = _extension(path, node, files, bound)
            described = _is_builder(node.func, bound)
            if extension is not None and (id(node) in found or last_name(node.func) not in LOADERS):
                yield "" if described else found.get(id(node), ""), extension


def device_macros(text: str) -> frozenset[str]:
    """The macros by which a build script compiles device code into an extension."""
    names = {first or second for first, second in MACRO.findall(text)}
    return frozenset(name for name in names if FOR_DEVICE.search(name))


def _builds(call: ast.Call, bound: Bound) -> bool:
    keywords = {item.arg for item in call.keywords}
    if last_name(call.func) in LOADERS:
        listed = len(call.args) > 1 and not isinstance(call.args[1], ast.Constant)
        return listed or bool(keywords & {"sources", "cuda_sources", "cpp_sources"})
    return _is_builder(call.func, bound) or ("sources" in keywords and bool(keywords & set(NAMES)))


def _is_builder(function: ast.expr, bound: Bound, among: frozenset[str] = BUILDERS, depth: int = 3) -> bool:
    """Whether an expression means a class that describes an extension, also by a variable."""
    if isinstance(function, ast.IfExp):
        return any(_is_builder(item, bound, among, depth) for item in (function.body, function.orelse))
    if isinstance(function, ast.Call) and last_name(function.func) == "partial" and function.args:
        return _is_builder(function.args[0], bound, among, depth)
    name = last_name(function)
    if name in among or not depth or not isinstance(function, ast.Name):
        return name in among
    return any(_is_builder(item, bound, among, depth - 1) for item in bound.get(name, ()))


def _extension(path: str, call: ast.Call, files: frozenset[str], bound: Bound) -> Extension | None:
    keywords = {item.arg: item.value for item in call.keywords if item.arg}
    named = next((keywords[key] for key in NAMES if key in keywords), call.args[0] if call.args else None)
    name = "" if named is None else _string(named, bound)
    if not name.rpartition(".")[2]:
        return None
    folder = str(PurePosixPath(path).parent)
    folder = "" if folder == "." else folder
    given = [value for key, value in keywords.items() if key.endswith("sources")] or call.args[1:2]
    sources = frozenset(_sources(ast.Tuple(given, ast.Load()), folder, files, bound))
    if _is_builder(call.func, bound, DEVICE_BUILDERS) and not any(path.endswith(DEVICE) for path in sources):
        sources = frozenset()  # those for the device are computed
    host, device = ("\n".join(_texts(keywords.get(key), bound)) for key in ("cpp_sources", "cuda_sources"))
    return Extension(name, folder, sources, device, host, tuple(_texts(keywords.get("functions"), bound)))


def _sources(given: ast.expr, folder: str, files: frozenset[str], bound: Bound) -> Iterator[str]:
    """Paths in the tree that an expression names; none if a function that cannot be read gives some of them."""
    texts = set(_paths(given, bound, set()))
    for text in sorted(texts) if UNKNOWN not in texts else ():
        name = text.lstrip("./")
        if not name.endswith((*SUFFIXES, "*")):
            continue
        if "*" in name:
            inside = (path for path in files if path.startswith(f"{folder}/" if folder else ""))
            native = (path for path in inside if path.endswith(SUFFIXES))
            yield from (path for path in native if fnmatch(f"/{path}", f"*/{name.replace('**/', '*')}"))
            continue
        beside = f"{folder}/{name}" if folder else name
        if beside in files:
            yield beside
        else:
            yield from sorted(path for path in files if path.endswith(f"/{name}") and path.startswith(folder))[:1]


def _paths(node: ast.expr, bound: Bound, seen: set[str]) -> Iterator[str]:
    """The paths and patterns in an expression, names replaced by what is bound to them."""
    if isinstance(node, ast.Call) and last_name(node.func) in ("join", "joinpath", "Path"):
        yield "/".join(part.strip("/") for item in node.args if (part := _string(item, bound)))
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, (ast.JoinedStr, ast.BinOp)) and (text := _string(node, bound)):
        yield text
    elif isinstance(node, ast.Name):
        known = bound.get(node.id, ()) if node.id not in seen else ()
        seen.add(node.id)
        for item in known:
            yield from _paths(item, bound, seen)
    else:
        if isinstance(node, ast.Call) and last_name(node.func) not in PLAIN:
            yield UNKNOWN
        for child in ast.iter_child_nodes(node):
            inner = child.iter if isinstance(child, ast.comprehension) else child
            if isinstance(inner, ast.expr):
                yield from _paths(inner, bound, seen)


def _string(node: ast.expr, bound: Bound, depth: int = 4) -> str:
    """A string expression's value; parts that are not known are left out."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_string(item, bound, depth) for item in node.values)
    if isinstance(node, ast.FormattedValue):
        return _string(node.value, bound, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
        mark = "/" if isinstance(node.op, ast.Div) else ""
        return mark.join([_string(node.left, bound, depth), _string(node.right, bound, depth)])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return re.sub(r"%\w", "", _string(node.left, bound, depth))
    if isinstance(node, ast.Call) and last_name(node.func) == "join":
        return "/".join(part for item in node.args if (part := _string(item, bound, depth)))
    if isinstance(node, ast.Name) and depth:
        return next((text for item in bound.get(node.id, ()) if (text := _string(item, bound, depth - 1))), "")
    return ""


def _texts(node: ast.expr | None, bound: Bound) -> Iterator[str]:
    """The strings in an expression."""
    if isinstance(node, (ast.List, ast.Tuple)):
        for item in node.elts:
            yield from _texts(item, bound)
    elif node is not None and (text := _string(node, bound)):
        yield text
    elif isinstance(node, ast.Name):
        for item in bound.get(node.id, ()):
            if isinstance(item, (ast.List, ast.Tuple)):
                yield from _texts(item, bound)


def _bound(tree: ast.Module) -> Bound:
    """The expressions that are assigned, added or appended to each name, anywhere in a file."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found[target.id].append(node.value)
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.target, ast.Name):
            found[node.target.id].append(node.iter)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and isinstance(node.target, ast.Name):
            found[node.target.id] += [node.value] if node.value is not None else []
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.asname and alias.name in BUILDERS:
                    found[alias.asname].append(ast.Name(alias.name, ast.Load()))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            owner = node.func.value if node.func.attr in ("append", "extend") else None
            found[owner.id if isinstance(owner, ast.Name) else ""].append(node.args[0])
    return found
