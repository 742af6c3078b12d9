"""What the source says of constructors and a reference no longer shows: annotations, defaults of configurations."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from musadata.mining.reading.parsing import Definition, ParsedModule
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.pieces import Slice
from musadata.mining.slicing.settings import CONFIGS, Settings

TREE = ""  # stands for no class


def constructor_hints(index: PackageIndex, cut: Slice, settings: Settings, text: str) -> dict[str, dict[str, Any]]:
    """For each class of a slice by its name in the reference: `annotations`, and `defaults` of annotated classes.

    `TREE` has `settings`: those of the tree that the reference's `text` names, where it reads from a configuration.
    """
    words = set(re.findall(r"\w+", text))
    read = settings.values if any(map(CONFIGS.match, words)) else {}
    found: dict[str, dict[str, Any]] = {
        TREE: {"settings": {name: value for name, value in read.items() if name in words}}
    }
    for piece in cut.pieces:
        module = index.module(piece.definition.module)
        arguments = _constructor(piece.definition.node)
        if module is not None and arguments is not None:
            annotated = [item for item in (*arguments.args, *arguments.kwonlyargs) if item.annotation is not None]
            texts = {item.arg: ast.unparse(item.annotation) for item in annotated if item.annotation is not None}
            defaults = {name: dict(_defaults(index, module, text)) for name, text in texts.items()}
            found[piece.name] = {
                "annotations": texts,
                "defaults": {name: values for name, values in defaults.items() if values},
            }
    return found


def _constructor(node: ast.stmt) -> ast.arguments | None:
    if not isinstance(node, ast.ClassDef):
        return None
    return next(
        (item.args for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"), None
    )


def _defaults(index: PackageIndex, module: ParsedModule, annotation: str) -> Iterator[tuple[str, str]]:
    """The plain defaults of the class of this tree that an annotation names."""
    if not annotation.isidentifier():
        return
    meaning = index.resolve(module, annotation)
    if not isinstance(meaning, Definition) or not isinstance(meaning.node, ast.ClassDef):
        return
    for item in meaning.node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and _is_plain(item.value):
            yield item.target.id, ast.unparse(item.value)  # type: ignore[arg-type]
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name) and _is_plain(item.value):
            yield item.targets[0].id, ast.unparse(item.value)
    arguments = _constructor(meaning.node)
    if arguments is not None:
        positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
        pairs = [
            *zip(positional, arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        yield from ((item.arg, ast.unparse(value)) for item, value in pairs if value is not None and _is_plain(value))


def _is_plain(value: ast.expr | None) -> bool:
    try:
        return value is not None and ast.literal_eval(value) is not None
    except ValueError:
        return False
