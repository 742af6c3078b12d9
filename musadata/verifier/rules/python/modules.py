"""Which names of which modules a candidate may use.

Many library functions evaluate text, read attributes by name, or start threads, and each version adds new ones. So the
tables list what is allowed. A module may only be read from or renamed: any other use hides which of its names are read.
"""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from musadata.records import Finding
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.name_lists import read_name_lists
from musadata.verifier.rules.python.name_resolution import Names

# Allowed names by module of the standard library; "*" allows all.
STANDARD = read_name_lists(Path(__file__).with_name("standard_library.txt"))
NAMES = read_name_lists(Path(__file__).with_name("names.txt"))  # see the comments there
_TYPING = frozenset(NAMES["typing"])
_TORCH = frozenset(NAMES["torch_modules"])
_TORCH_WHOLE = ("backends.", "nn.modules.", "optim.", "signal.")  # with all of their submodules
_LONGEST_ANNOTATION = 200
_NAMED_LIKE_STANDARD = frozenset(NAMES["named_like_standard"])


def check_modules(tree: ast.Module, names: Names) -> Iterator[Finding]:
    """Findings about modules that are used as values, or imported where later uses cannot be resolved."""
    parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and isinstance(parents[id(node)], ast.ClassDef):
            yield rules.LEGALITY_DYNAMIC.worded("An import in a class hides what is called.", node.lineno)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            modules = sorted(path for path in names.resolve(node) if is_module(path))
            if modules and not _keeps_its_name(node, parents):
                text = f"The module {modules[0]} is used as a value, which hides what is called."
                yield rules.LEGALITY_DYNAMIC.worded(text, node.lineno)


def _keeps_its_name(node: ast.expr, parents: dict[int, ast.AST]) -> bool:
    """Whether the use of a module can still be resolved: an attribute is read, or the module gets another name."""
    parent = parents[id(node)]
    if isinstance(parent, ast.Attribute):
        return True
    if isinstance(parent, ast.Call):
        named = isinstance(parent.func, ast.Name) and parent.func.id in ("getattr", "hasattr")
        return named and parent.args[:1] == [node]
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        return (isinstance(parent, ast.IfExp) and parent.test is node) or _keeps_its_name(parent, parents)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        in_class = isinstance(parents.get(id(parent)), ast.ClassDef)
        return not in_class and all(isinstance(target, ast.Name) for target in targets)
    return isinstance(parent, (ast.Expr, ast.Compare, ast.If, ast.UnaryOp, ast.Delete))


def unused_imports(tree: ast.Module) -> Iterator[ast.alias]:
    """Imports of harmless modules that the program never uses, like a habitual `import random`."""
    said = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            said.update(node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) <= _LONGEST_ANNOTATION:
            said.update(re.findall(r"\w+", node.value))  # it may be an annotation that is evaluated later
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                harmless = alias.name in sys.stdlib_module_names or alias.name == "numpy"
                if harmless and (alias.asname or alias.name) not in said:
                    yield alias


def check_path(path: str) -> str:
    """Why this dotted path may not be read, or ""."""
    root, *rest = path.split(".")
    if not rest or rest[0].endswith("()"):
        return ""
    if root == "torch":
        return _check_torch(path, rest)
    allowed = STANDARD.get(root)
    name = rest[0].removesuffix("()")
    if root in ("typing", "typing_extensions"):
        return "" if name[:1].isupper() or name in _TYPING else f"{root}.{name} is not needed to compute."
    if allowed and "*" not in allowed and name not in allowed:
        return f"{root}.{name} is not needed to compute."
    return ""


def _check_torch(path: str, parts: list[str]) -> str:
    for count, part in enumerate(parts, 1):
        if part.endswith("()"):
            return ""
        inner = ".".join(parts[:count])
        if inner in _TORCH or inner.startswith(_TORCH_WHOLE) or part.startswith("_"):
            continue  # `escapes` checks names with an underscore
        if _is_torch_module(inner):
            return f"torch.{inner} is not needed to compute."
        if part in sys.stdlib_module_names and part not in _NAMED_LIKE_STANDARD and count > 1:
            return f"{path} reaches into the standard library."
    return ""


def is_module(path: str) -> bool:
    """Whether a dotted path names a module of the standard library or of PyTorch."""
    if path.startswith("torch."):
        return "()" not in path and _is_torch_module(path.removeprefix("torch."))
    return path in STANDARD or path in ("torch", "typing", "typing_extensions", "os.path", "collections.abc")


@cache
def _is_torch_module(inner: str) -> bool:
    place = _torch_folder().joinpath(*inner.split("."))
    functions = ("nn.utils.weight_norm", "nn.utils.spectral_norm")
    return inner not in functions and (place.with_suffix(".py").is_file() or (place / "__init__.py").is_file())


@cache
def _torch_folder() -> Path:
    """PyTorch's folder, found without importing it."""
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parent if found and found.origin else Path("/nonexistent")
