"""From one file to the drafts of its modules: slice, rewrite, look for evidence, search for arguments, prune."""

import ast
import dataclasses
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import libcst as cst

from musadata.errors import Rejection
from musadata.mining.reading.parsing import Definition, ParsedModule, bound_names
from musadata.mining.slicing.class_slicing import Slice, Slicer, Unsliceable
from musadata.mining.slicing.constructions import (
    configured,
    constructed_elsewhere,
    find_constructions,
    settled_constructions,
)
from musadata.mining.slicing.evidence import MAX_EXAMPLES, Example, docstring_examples
from musadata.mining.slicing.given_arguments import given_in_subclass
from musadata.mining.slicing.hints import TREE, constructor_hints
from musadata.mining.slicing.imports import forbidden_imports
from musadata.mining.slicing.members import docstring_text
from musadata.mining.slicing.naming import sort_imports
from musadata.mining.slicing.opened_constructions import opened_constructions
from musadata.mining.slicing.packed_inputs import takes_list, unpack_inputs
from musadata.mining.slicing.rewriting import write_definitions
from musadata.records import Draft, Reject, SourceKind
from musadata.sandbox import Caller, Limits
from musadata.sources.protocol import STEP, CodeSource, UnreadableFile, contained, reject_draft

LIMITS = Limits(seconds=30.0, memory_mb=4096)  # a last resort: the search is bounded by its number of tries
# Losses that other arguments do not change.
WITHOUT_ARGUMENTS = frozenset(
    {"needs_package", "unresolved_name", "import_fails", "broken_code", "undefined_attribute"}
)
CONFIGURED = frozenset({"needs_configuration", "init_fails"})  # losses of what may be built by a registry
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
    for definition in module.classes():
        where = f"{source.origin}/{path}:{definition.first}-{definition.last}"
        yield from contained(partial(_drafts_of, source, slicer, module, definition, sandbox), STEP, where)


def _drafts_of(
    source: CodeSource, slicer: Slicer, module: ParsedModule, definition: Definition, sandbox: Caller
) -> Iterator[Draft | Reject]:
    """The class as a draft or a reject; nothing if it is no module."""
    if slicer.is_module_class(definition):
        yield draft_class(source, slicer, module, definition, sandbox)


def draft_class(
    source: CodeSource, slicer: Slicer, module: ParsedModule, definition: Definition, sandbox: Caller
) -> Draft | Reject:
    """One class as a draft in KernelBench's form."""
    lines = f"{definition.first}-{definition.last}"
    where = f"{source.origin}/{module.path}:{lines}"
    callers = slicer.callers
    constructions = find_constructions(
        slicer.index, module, definition, callers.composed(definition), callers.users(definition)
    )
    shown = [*find_examples(definition), *callers.examples(definition, module), *constructions.plain]
    for unpacked in unpack_inputs(slicer.index, module, definition) if takes_list(slicer.index, definition) else ():
        with suppress(Rejection):
            return _draft_variant(source, slicer, definition, unpacked, constructions.plain, sandbox)
    first: Rejection | None = None
    for variant, examples in [*((made, [example]) for made, example in constructions.fixed), (definition, shown)]:
        try:
            return _draft_variant(source, slicer, definition, variant, examples[:MAX_EXAMPLES], sandbox)
        except Rejection as error:
            is_other = isinstance(error, Unsliceable) and variant is not definition  # what another file gives it
            first = first if is_other else first or error
    assert first is not None
    packed = _draft_unpacked(source, slicer, definition, first, constructions.plain, sandbox)
    if isinstance(packed, Draft):
        return packed
    if first.reason in CONFIGURED:
        try:
            return _from_dictionaries(source, slicer, definition, shown, sandbox)
        except Rejection as error:
            if error.reason not in (*CONFIGURED, "search_fails", "slice_too_large"):
                return reject_draft(error.reason, error.detail, where)  # it is made as the tree makes it
            first = error if error.reason in CONFIGURED else first
    fitting = slicer.configurations.arguments(module, definition)
    for made, example in configured(slicer.index, module, definition, fitting, constructions.mined):
        try:
            return _draft_variant(source, slicer, definition, made, [example], sandbox)
        except Rejection as error:
            first = error if first.reason == "needs_configuration" else first  # which it has now
    if first.reason == "needs_package" and slicer.index.lacks(first.detail):
        first = Rejection("broken_code", f"the repository lacks {first.detail}")
    problem = source.dependencies.problem(first.detail) if first.reason == "needs_package" else ""
    lacking = packed if first.reason == "needs_structured_input" else first
    detail = f"{lacking.detail} ({problem})" if problem else lacking.detail
    refused = reject_draft(lacking.reason, detail, where)
    if first.reason in WITHOUT_ARGUMENTS:
        return refused
    users, settings = list(callers.users(definition)), slicer.settings.values
    told = settled_constructions(slicer.index, module, definition, users, settings)
    told = [*constructions.asked, *told]
    if told:
        try:
            return _draft_variant(source, slicer, definition, definition, told, sandbox, guessed=False)
        except Rejection as error:
            if first.reason in ("needs_configuration", "init_fails") and error.reason != "search_fails":
                refused = reject_draft(error.reason, error.detail, where)
    for made, example in constructed_elsewhere(slicer.index, module, definition, users):
        with suppress(Rejection):
            return _draft_variant(source, slicer, definition, made, [example], sandbox)
    for made, example in opened_constructions(slicer.index, module, definition, users, settings):
        with suppress(Rejection):
            return _draft_variant(source, slicer, definition, made, [example], sandbox)
    is_checked = first.reason == "assertion_fails" and slicer.fitting.checks(definition)
    for made, example in slicer.fitting.variants(module, definition):
        try:
            return _draft_variant(source, slicer, definition, made, [example], sandbox)
        except Rejection as error:
            is_told = error.reason not in WITHOUT_ARGUMENTS and not error.reason.startswith("search_")
            if is_checked and is_told:  # what is lacking besides the classes that it asks for
                refused = reject_draft(error.reason, error.detail, where)
    return refused


def _draft_unpacked(
    source: CodeSource,
    slicer: Slicer,
    definition: Definition,
    first: Rejection,
    examples: Sequence[Example],
    sandbox: Caller,
) -> Draft | Rejection:
    """The draft of a subclass that takes by itself what the class takes packed, or what is lacking even then.

    Args:
        first: what is lacking where each input is a tensor.
    """
    lacking = first
    for unpacked in unpack_inputs(slicer.index, slicer.module_of(definition), definition, first.detail):
        try:
            return _draft_variant(source, slicer, definition, unpacked, examples, sandbox)
        except Rejection as error:
            is_told = not isinstance(error, Unsliceable) and error.reason != "search_fails"
            lacking = error if is_told and first.reason == "needs_structured_input" else lacking
    return lacking


def _from_dictionaries(
    source: CodeSource, slicer: Slicer, definition: Definition, shown: Sequence[Example], sandbox: Caller
) -> Draft:
    """The draft of a class whose arguments are dictionaries, from which a registry builds what they name.

    Raises:
        Rejection: the tree shows no such arguments, or none of them works.
    """
    typed = slicer.typed.examples(definition, slicer.settings.values)
    built = [item for example in typed for item in slicer.typed.of_example(example)]
    if not typed and not slicer.names_built(definition):
        raise Rejection("search_fails", "no dictionary names a class")
    examples = [*typed, *shown][:MAX_EXAMPLES]
    return _draft_variant(source, slicer, definition, definition, examples, sandbox, guessed=not typed, built=built)


def _draft_variant(
    source: CodeSource,
    slicer: Slicer,
    definition: Definition,
    variant: Definition,
    examples: Sequence[Example],
    sandbox: Caller,
    *,
    guessed: bool = True,
    built: Collection[Definition] | None = None,
) -> Draft:
    """The draft of a class, made from the class itself or from a subclass that fixes some arguments.

    Args:
        guessed: try guesses at the arguments after the examples.
        built: see `Slicer.slice`.
    """
    name, module = definition.names[0], slicer.module_of(definition)
    definitions, cut = write_slice(slicer, variant, may_import_all=True, built=built)
    search = "musadata.mining.search:search_and_prune"
    hints = constructor_hints(slicer.index, cut, slicer.settings, definitions)
    hints[TREE] |= {"guessed": guessed, "halved": built is not None}
    try:
        found = find_arguments(sandbox, search, definitions, name, examples, f"{source.seed}/{name}", hints)
    except Rejection as error:
        for unbound, reason in cut.unbound.items() if error.reason == "unresolved_name" else ():
            if f"'{unbound}'" in error.detail:
                raise Rejection(reason, unbound) from error
        raise
    forbidden = forbidden_imports(found["definitions"])
    if forbidden:
        raise Rejection("needs_package", forbidden[0])
    parts = {slicer.module_of(piece.definition).path for piece in cut.pieces}
    reference = write_reference(found["definitions"], found["init"], found["inputs"], name)
    lines = f"{definition.first}-{definition.last}"
    return Draft(SourceKind.MINED, name, reference, source.provenance(module.path, lines, parts))


@contextmanager
def rejecting_unwritable() -> Iterator[None]:
    """Raise `Unsliceable` for code that cannot be parsed or written."""
    try:
        yield
    except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError, RecursionError) as error:
        raise Unsliceable("unwritable", f"{type(error).__name__}: {error}"[:200]) from error


def write_slice(
    slicer: Slicer,
    definition: Definition,
    *,
    may_import_all: bool = False,
    built: Collection[Definition] | None = None,
) -> tuple[str, Slice]:
    """The text of a class with all the Python code that it needs, and its slice.

    `may_import_all`: the text may import packages that references may not import, and name what nothing binds; code
    that never runs often does.

    Raises:
        Unsliceable: it needs something that a reference may not have, or cannot be written.
    """
    with rejecting_unwritable():
        cut = slicer.slice(definition, built)
        parsed = {piece.definition.module: slicer.module_of(piece.definition) for piece in cut.pieces}
        text = write_definitions(cut, parsed)
        compile(text, "<slice>", "exec", dont_inherit=True)
    if not may_import_all and cut.unbound:
        name = min(cut.unbound)
        raise Unsliceable(cut.unbound[name], name)
    if not may_import_all and (forbidden := forbidden_imports(text)):
        raise Unsliceable("needs_package", forbidden[0])
    return text, cut


def find_arguments(
    sandbox: Caller, search: str, definitions: str, name: str, examples: Sequence[Example], salt: str, *hints: Any
) -> dict[str, Any]:
    """The result of a search for arguments inside the sandbox. `search`: its "module:function"; `hints`: see there.

    Raises:
        Rejection: it finds none, or does not end.
    """
    shown = list(map(dataclasses.asdict, examples))
    outcome = sandbox.call(search, definitions, name, shown, salt, *hints, limits=LIMITS)
    if not outcome.ok:
        raise Rejection(f"search_{outcome.status}", outcome.describe_error())
    found: dict[str, Any] = outcome.value
    if "reason" in found:
        raise Rejection(str(found["reason"]), str(found["detail"]))
    return found


def find_examples(definition: Definition) -> list[Example]:
    """Examples in a class's docstring."""
    assert isinstance(definition.node, ast.ClassDef)
    stated = [item for item in definition.node.body if isinstance(item, (ast.Expr, ast.Assign))]
    documented = [item for item in stated if isinstance(item, ast.Expr) or "__doc__" in bound_names(item)]
    return docstring_examples("\n".join(map(docstring_text, documented)), definition.names[0])


USUAL_IMPORTS = {
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "SimpleNamespace": "from types import SimpleNamespace",
    "math": "import math",
    "partial": "from functools import partial",
}


MODULE_ARGUMENT = re.compile(r"\bnn\.\w+\(|\btorch\.rand")


def write_reference(definitions: str, init: list[str], inputs: list[str], name: str = "Model") -> str:
    """The whole reference: definitions, `get_inputs` and `get_init_inputs`.

    Modules and tensors among the constructor's arguments cannot be passed to another process, so they are given by a
    subclass; `name` is what the class is called then.
    """
    if any(MODULE_ARGUMENT.search(text) for text in init) and name != "Model":
        given = ", ".join(init)
        definitions = given_in_subclass(definitions, init, name)
        init = []
        inputs_and_init = [*inputs, given]
    else:
        inputs_and_init = [*inputs, *init]
    head, _, body = definitions.partition("\n\n\n")
    statements = {line for line in head.splitlines() if line}
    for usual, statement in USUAL_IMPORTS.items():
        if any(re.search(rf"\b{usual}\b", text) for text in inputs_and_init):
            statements |= set() if re.search(rf"\b{usual}$", head, re.MULTILINE) else {statement}
    functions = "\n\n\n".join([_returning("get_inputs", inputs), _returning("get_init_inputs", init)])
    return f"{sort_imports(statements)}\n\n\n{body.rstrip()}\n\n\n{functions}\n"


def _returning(name: str, items: list[str]) -> str:
    line = f"    return [{', '.join(items)}]"
    if len(line) <= 110:
        return f"def {name}():\n{line}"
    rows = "".join(f"        {item},\n" for item in items)
    return f"def {name}():\n    return [\n{rows}    ]"
