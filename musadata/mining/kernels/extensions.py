"""The native extensions that a repository builds: their names and source files."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from musadata.mining.kernels.native_parsing import SUFFIXES
from musadata.mining.slicing.dotted_names import last_name

BUILDERS = frozenset({"CUDAExtension", "CppExtension", "Extension", "SYCLExtension", "load", "load_inline"})


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
    """Extensions that a Python file builds, each with the variable that it is bound to ("" in a setup script).

    Args:
        files: every path of the repository.
    """
    texts = _string_constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            extension = _extension(path, node.value, files, texts)
            if extension is not None and _builder(node.value) in ("load", "load_inline"):
                yield node.targets[0].id, extension
        elif isinstance(node, ast.Call) and _builder(node) not in ("load", "load_inline", ""):
            extension = _extension(path, node, files, texts)
            if extension is not None:
                yield "", extension


def _builder(call: ast.Call) -> str:
    name, described = last_name(call.func), {item.arg for item in call.keywords} >= {"name", "sources"}
    return name if name in BUILDERS or described else ""


def _extension(path: str, call: ast.Call, files: frozenset[str], texts: dict[str, str]) -> Extension | None:
    keywords = {item.arg: item.value for item in call.keywords if item.arg}
    named = keywords.get("name", call.args[0] if call.args else None)
    name = next(_texts(named, texts), "") if isinstance(named, (ast.Constant, ast.Name)) else ""
    if not _builder(call) or not name:
        return None
    folder = str(PurePosixPath(path).parent)
    folder = "" if folder == "." else folder
    given = keywords.get("sources", call.args[1] if len(call.args) > 1 else None)
    sources = frozenset(_resolve_sources(given, folder, files)) if given is not None else frozenset()
    host, device = (
        "\n".join(_texts(keywords[key], texts)) if key in keywords else "" for key in ("cpp_sources", "cuda_sources")
    )
    functions = tuple(_texts(keywords["functions"], texts)) if "functions" in keywords else ()
    return Extension(name, folder, sources, device, host, functions)


def _resolve_sources(given: ast.expr, folder: str, files: frozenset[str]) -> Iterator[str]:
    """Paths in the tree that the strings of a `sources` argument end with."""
    for item in ast.walk(given):
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.endswith(SUFFIXES):
            name = item.value.lstrip("./")
            beside = f"{folder}/{name}" if folder else name
            if beside in files:
                yield beside
            else:
                matches = sorted(path for path in files if path.endswith(f"/{name}") and path.startswith(folder))
                yield from matches[:1]


def _string_constants(tree: ast.Module) -> dict[str, str]:
    """Names that are bound to a string anywhere in the file."""
    return {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _texts(node: ast.expr, texts: dict[str, str]) -> Iterator[str]:
    for item in ast.walk(node):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value
        elif isinstance(item, ast.Name) and item.id in texts:
            yield texts[item.id]
