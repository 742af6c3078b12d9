"""From one file to the drafts of its modules: slice, rewrite, look for evidence, search for arguments, prune."""

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import libcst as cst

from musadata.mining.slicing.class_slicing import Slicer, Unsliceable
from musadata.mining.slicing.docstrings import docstring_text
from musadata.mining.slicing.evidence import MAX_EXAMPLES, Example, docstring_examples
from musadata.mining.slicing.naming import sort_imports
from musadata.mining.slicing.parsing import Definition, ParsedModule
from musadata.mining.slicing.rewriting import write_definitions
from musadata.records import Draft, Reject, SourceKind
from musadata.sandbox import Caller, Limits
from musadata.sources.protocol import CodeSource, UnreadableFile, reject_draft

LIMITS = Limits(seconds=30.0, memory_mb=4096)  # a last resort: the search is bounded by its number of tries
MODULE_HINT = re.compile(r"\bclass\s+\w+\s*\(")


def draft_file(source: CodeSource, slicer: Slicer, path: str, sandbox: Caller) -> Iterator[Draft | Reject]:
    """The modules of one file as drafts, in file order; a reject for each module that cannot be a draft."""
    try:
        module = slicer.index.parse(path)
    except UnreadableFile as error:
        yield reject_draft(error.reason, error.detail, f"{source.origin}/{path}")
        return
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield reject_draft("syntax_error", f"{type(error).__name__}: {error}"[:200], f"{source.origin}/{path}")
        return
    if not MODULE_HINT.search(module.text):
        return
    for definition in slicer.module_classes(module):
        yield draft_class(source, slicer, module, definition, sandbox)


def draft_class(
    source: CodeSource, slicer: Slicer, module: ParsedModule, definition: Definition, sandbox: Caller
) -> Draft | Reject:
    """One class as a draft in KernelBench's form."""
    name = definition.names[0]
    lines = f"{definition.first}-{definition.last}"
    where = f"{source.origin}/{module.path}:{lines}"
    try:
        cut = slicer.slice(definition)
        parsed = {piece.definition.module: slicer.module_of(piece.definition) for piece in cut.pieces}
        definitions = write_definitions(cut, parsed)
        compile(definitions, "<slice>", "exec", dont_inherit=True)
    except Unsliceable as error:
        return reject_draft(error.reason, error.detail, where)
    except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError, RecursionError) as error:
        return reject_draft("unwritable", f"{type(error).__name__}: {error}"[:200], where)
    shown = [*find_examples(definition), *slicer.callers.examples(definition, module)]
    examples = [dataclasses.asdict(example) for example in shown[:MAX_EXAMPLES]]
    outcome = sandbox.call(
        "musadata.mining.search:search_and_prune", definitions, name, examples, f"{source.seed}/{name}", limits=LIMITS
    )
    if not outcome.ok:
        return reject_draft(f"search_{outcome.status}", outcome.error_type or "", where)
    found: dict[str, Any] = outcome.value
    if "reason" in found:
        return reject_draft(str(found["reason"]), str(found["detail"]), where)
    reference = write_reference(found["definitions"], found["init"], found["inputs"])
    return Draft(SourceKind.MINED, name, reference, source.provenance(module.path, lines))


def find_examples(definition: Definition) -> list[Example]:
    """Examples in a class's docstring."""
    assert isinstance(definition.node, ast.ClassDef)
    documented = [item for item in definition.node.body if _documents(item)]
    text = "\n".join(docstring_text(item) for item in documented)
    return docstring_examples(text, definition.names[0])


def _documents(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__doc__" for target in node.targets)
    return isinstance(node, ast.Expr)


USUAL_IMPORTS = {
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "SimpleNamespace": "from types import SimpleNamespace",
    "math": "import math",
}


def write_reference(definitions: str, init: list[str], inputs: list[str]) -> str:
    """The whole reference: definitions, `get_inputs` and `get_init_inputs`."""
    head, _, body = definitions.partition("\n\n\n")
    statements = {line for line in head.splitlines() if line}
    for name, statement in USUAL_IMPORTS.items():
        if any(re.search(rf"\b{name}\b", text) for text in [*init, *inputs]):
            statements |= set() if re.search(rf"\b{name}$", head, re.MULTILINE) else {statement}
    functions = "\n\n\n".join([_returning("get_inputs", inputs), _returning("get_init_inputs", init)])
    return f"{sort_imports(statements)}\n\n\n{body.rstrip()}\n\n\n{functions}\n"


def _returning(name: str, items: list[str]) -> str:
    line = f"    return [{', '.join(items)}]"
    if len(line) <= 110:
        return f"def {name}():\n{line}"
    rows = "".join(f"        {item},\n" for item in items)
    return f"def {name}():\n    return [\n{rows}    ]"
