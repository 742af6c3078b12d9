"""From one file to the drafts of its modules: slice, rewrite, look for evidence, search for arguments, prune."""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import libcst as cst

from musadata.errors import Rejection
from musadata.mining.reading.parsing import Definition, ParsedModule, bound_names
from musadata.mining.slicing.class_slicing import Slicer, Unsliceable
from musadata.mining.slicing.constructions import Constructions, find_constructions
from musadata.mining.slicing.constructors import own_method
from musadata.mining.slicing.evidence import MAX_EXAMPLES, Example, docstring_examples
from musadata.mining.slicing.fixed_arguments import fix_arguments
from musadata.mining.slicing.functions import as_module, is_plain, tensor_functions
from musadata.mining.slicing.given_arguments import given_in_subclass
from musadata.mining.slicing.harvested import Harvest
from musadata.mining.slicing.imports import forbidden_imports
from musadata.mining.slicing.members import docstring_text
from musadata.mining.slicing.naming import sort_imports
from musadata.mining.slicing.packed_inputs import takes_list, unpack_inputs
from musadata.mining.slicing.pieces import Slice
from musadata.mining.slicing.rewriting import write_definitions
from musadata.records import Draft, Reject, SourceKind
from musadata.sandbox import Caller, Limits
from musadata.sources.protocol import STEP, CodeSource, UnreadableFile, contained, reject_draft

LIMITS = Limits(seconds=30.0, memory_mb=4096)  # a last resort: the search is bounded by its number of tries
MAX_IN_FILE = 100  # classes and functions of tensors
MAX_NAMING = 2  # harvested examples with classes of the repository among the arguments, each searched on its own


def draft_file(
    source: CodeSource, slicer: Slicer, harvest: Harvest, path: str, sandbox: Caller
) -> Iterator[Draft | Reject]:
    """The modules of one file as drafts, in file order; a reject for each module that cannot be a draft."""
    try:
        module = slicer.index.parse(path)
    except UnreadableFile as error:
        yield reject_draft(error.reason, error.detail, f"{source.origin}/{path}")
        return
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield reject_draft("syntax_error", f"{type(error).__name__}: {error}"[:200], f"{source.origin}/{path}")
        return
    if "torch" not in module.text:
        return
    functions = () if source.importable else tensor_functions(module)  # else they are operators to import
    found = sorted((*module.classes(), *functions), key=lambda item: item.first)
    if len(found) > MAX_IN_FILE:  # such as variants of one network; each costs a search
        yield reject_draft("many_in_file", f"{len(found) - MAX_IN_FILE} further ones", f"{source.origin}/{path}")
    for definition in found[:MAX_IN_FILE]:
        where = f"{source.origin}/{path}:{definition.first}-{definition.last}"
        yield from contained(partial(_drafts_of, source, slicer, harvest, module, definition, sandbox), STEP, where)


def _drafts_of(
    source: CodeSource,
    slicer: Slicer,
    harvest: Harvest,
    module: ParsedModule,
    definition: Definition,
    sandbox: Caller,
) -> Iterator[Draft | Reject]:
    """The class or function as a draft or a reject; nothing if it is no module."""
    if not definition.is_class or slicer.is_module_class(definition):
        yield draft_class(source, slicer, harvest, module, definition, sandbox)


def draft_class(
    source: CodeSource,
    slicer: Slicer,
    harvest: Harvest,
    module: ParsedModule,
    definition: Definition,
    sandbox: Caller,
) -> Draft | Reject:
    """One class or function as a draft in KernelBench's form: the first way that leads to one, or what it lacks."""
    subject = _Subject(slicer, module, definition, harvest.examples(definition, module, sandbox))
    told = subject.known
    for way in WAYS if definition.is_class else FUNCTION_WAYS:
        before = subject.known
        for attempt in way.attempts(subject):
            try:
                return _draft_attempt(source, slicer, definition, attempt, sandbox)
            except Rejection as loss:
                if way.tells(subject.known, loss, is_itself=attempt.variant is definition or not definition.is_class):
                    told = loss
                    subject.known = loss if way.leads else before
    lacking = _explained(source, slicer, told)
    problems = "" if subject.harvested else harvest.problems(definition, module)
    lacking = Rejection(lacking.reason, f"{lacking.detail}; its tests: {problems}") if problems else lacking
    return reject_draft(lacking.reason, lacking.detail, f"{source.origin}/{module.path}:{_lines(definition)}")


def _explained(source: CodeSource, slicer: Slicer, loss: Rejection) -> Rejection:
    """The loss, with what is known of the package that it names."""
    if loss.reason != "needs_package":
        return loss
    if slicer.index.lacks(loss.detail):
        return Rejection("broken_code", f"the repository lacks {loss.detail}")
    problem = source.dependencies.problem(loss.detail)
    return Rejection(loss.reason, f"{loss.detail} ({problem})" if problem else loss.detail)


@dataclass(frozen=True)
class _Attempt:
    """The class itself, or a subclass that fixes some arguments or unpacks inputs, with examples of its arguments.

    Attributes:
        guessed: guesses at the arguments follow the examples.
    """

    variant: Definition
    examples: Sequence[Example]
    guessed: bool = True


class _Subject:
    """A class that is to become a draft, what the tree shows of it, and the loss by which further ways go."""

    def __init__(self, slicer: Slicer, module: ParsedModule, definition: Definition, harvested: list[Example]):
        self.slicer, self.module, self.definition, self.harvested = slicer, module, definition, harvested
        self.place = (slicer.index, module, definition)
        self.known = Rejection("")

    @cached_property
    def constructions(self) -> Constructions:
        return find_constructions(*self.place, self.users)

    @cached_property
    def shown(self) -> list[Example]:
        called = self.slicer.callers.examples(self.definition, self.module)
        return [*find_examples(self.definition), *called, *self.constructions.plain]

    @cached_property
    def users(self) -> list[ParsedModule]:
        return list(self.slicer.callers.users(self.definition))


def _harvested(subject: _Subject) -> Iterator[_Attempt]:
    """The class as the repository's tests and examples build and call it."""
    plain = [example for example in subject.harvested if not example.names]
    if plain:
        yield _Attempt(subject.definition, plain[:MAX_EXAMPLES], guessed=False)
    for number, example in enumerate([item for item in subject.harvested if item.names][:MAX_NAMING]):
        places = {name: subject.slicer.index.name_of(file) for name, file in example.names}
        made = fix_arguments(*subject.place, example, f"harvest_{number}", places)
        if made is not None:
            yield _Attempt(made[0], [made[1]], guessed=False)


def _lists(subject: _Subject) -> Iterator[_Attempt]:
    """A subclass that takes the items of a list, where the class says that it takes one."""
    if takes_list(subject.slicer.index, subject.definition):
        yield from _unpacked(subject)


def _fixed(subject: _Subject) -> Iterator[_Attempt]:
    yield from (_Attempt(made, [example]) for made, example in subject.constructions.fixed)


def _itself(subject: _Subject) -> Iterator[_Attempt]:
    yield _Attempt(subject.definition, subject.shown[:MAX_EXAMPLES])


def _unpacked(subject: _Subject) -> Iterator[_Attempt]:
    """A subclass that takes by itself what the class takes packed."""
    made = unpack_inputs(*subject.place)
    if made is not None:
        yield _Attempt(made, subject.constructions.plain)


def _called(subject: _Subject) -> Iterator[_Attempt]:
    """The function as it is called by tests, or with guessed inputs."""
    yield _Attempt(as_module(*subject.place), subject.harvested[:MAX_EXAMPLES])


@dataclass(frozen=True)
class _Way:
    """A way to a draft, and when its loss says more than the one that is known.

    Attributes:
        attempts: what it tries, in this order.
        after: the reasons of losses in whose place its own is told.
        silent: the reasons of its own losses that say nothing.
        leads: later ways go by its loss as well.
    """

    attempts: Callable[[_Subject], Iterator[_Attempt]]
    after: Collection[str] = ()
    silent: Collection[str] = ()
    leads: bool = False

    def tells(self, known: Rejection, loss: Rejection, *, is_itself: bool) -> bool:
        """Whether its loss is told; that a subclass cannot be cut says nothing of the class."""
        says = is_itself or not isinstance(loss, Unsliceable)
        return says and known.reason in self.after and loss.reason not in self.silent


WAYS = (
    _Way(_harvested),
    _Way(_lists),
    _Way(_fixed, after={""}, leads=True),
    _Way(_itself, after={""}, leads=True),
    _Way(_unpacked, after={"needs_structured_input"}, silent={"search_fails"}),
)
FUNCTION_WAYS = (_Way(_called, after={""}, leads=True),)


def _lines(definition: Definition) -> str:
    return f"{definition.first}-{definition.last}"


def _draft_attempt(
    source: CodeSource, slicer: Slicer, definition: Definition, attempt: _Attempt, sandbox: Caller
) -> Draft:
    """The draft of a class that an attempt leads to.

    Raises:
        Rejection: it leads to none.
    """
    name, module = definition.names[0], slicer.module_of(definition)
    definitions, cut = write_slice(slicer, attempt.variant, may_import_all=True)
    search = "musadata.mining.search:search_and_prune"
    hints: dict[str, Any] = {piece.name: constructor_hints(slicer, piece.definition) for piece in cut.pieces}
    hints[""] = {"guessed": attempt.guessed}
    try:
        found = find_arguments(sandbox, search, definitions, name, attempt.examples, f"{source.seed}/{name}", hints)
    except Rejection as error:
        for unbound, reason in cut.unbound.items() if error.reason == "unresolved_name" else ():
            if f"'{unbound}'" in error.detail:
                raise Rejection(reason, unbound) from error
        bases = [base for piece in cut.pieces for base in sorted(piece.absent_bases)]
        if bases and error.reason == "undefined_attribute":
            raise Rejection("needs_package", bases[0]) from error
        raise
    forbidden = forbidden_imports(found["definitions"])
    if forbidden:
        raise Rejection("needs_package", forbidden[0])
    parts = {slicer.module_of(piece.definition).path for piece in cut.pieces}
    reference = write_reference(found["definitions"], found["init"], found["inputs"], name)
    return Draft(SourceKind.MINED, name, reference, source.provenance(module.path, _lines(definition), parts))


def constructor_hints(slicer: Slicer, definition: Definition) -> dict[str, Any]:
    """The annotations of a class's constructor, and the defaults of the configurations that they name."""
    found = _annotations(definition.node)
    module, declared = slicer.module_of(definition), {}
    for name, annotation in found.items():
        for word in re.findall(r"[A-Z]\w+", annotation):
            meaning = slicer.index.resolve(module, word)
            if isinstance(meaning, Definition) and isinstance(meaning.node, ast.ClassDef):
                declared[name] = _declared(meaning.node)
    return {"annotations": found, "declared": {name: fields for name, fields in declared.items() if fields}}


def _declared(node: ast.ClassDef) -> dict[str, str]:
    """The plain defaults of a class's fields, or of its constructor's parameters."""
    found = {ast.unparse(item.target): item.value for item in node.body if isinstance(item, ast.AnnAssign)}
    constructor = own_method(node, "__init__")
    if constructor is not None:
        given = constructor.args.args
        found |= zip((item.arg for item in given[::-1]), constructor.args.defaults[::-1], strict=False)
    return {name: ast.unparse(value) for name, value in found.items() if value is not None and is_plain(value)}


def _annotations(node: ast.stmt) -> dict[str, str]:
    """The annotations of a class's constructor, which a reference no longer shows."""
    constructor = own_method(node, "__init__")
    given = [*constructor.args.args, *constructor.args.kwonlyargs] if constructor is not None else []
    return {item.arg: ast.unparse(item.annotation) for item in given if item.annotation is not None}


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
) -> tuple[str, Slice]:
    """The text of a class with all the Python code that it needs, and its slice.

    `may_import_all`: the text may import packages that references may not import, and name what nothing binds; code
    that never runs often does.

    Raises:
        Unsliceable: it needs something that a reference may not have, or cannot be written.
    """
    with rejecting_unwritable():
        cut = slicer.slice(definition)
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
    shown = list(map(asdict, examples))
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
