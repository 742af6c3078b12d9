"""Writing a slice as one readable file: each piece is rewritten with libcst, then joined below sorted imports."""

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import libcst as cst
import libcst.matchers as m

from musadata.mining.reading.decorators import DROPPED_DECORATORS
from musadata.mining.reading.einops import LAYERS, Untranslatable, translate_call, translate_layer
from musadata.mining.reading.known_conditions import known_answer
from musadata.mining.reading.parsing import Import, ParsedModule
from musadata.mining.reading.reports import only_reports
from musadata.mining.slicing.line_joining import join_signature
from musadata.mining.slicing.machine_ties import (
    DOWNLOADING,
    drop_cuda,
    drop_placement,
    drop_weights,
    has_placement,
    modernize,
    uses_placement,
)
from musadata.mining.slicing.members import first_sentence, is_docstring
from musadata.mining.slicing.naming import sort_imports
from musadata.mining.slicing.pieces import Piece, Slice
from musadata.mining.slicing.renaming import dotted_name, rename_text

PLAIN_TYPES = frozenset(["int", "float", "bool", "str", "None", "tuple", "list", "dict", "torch.Tensor"])
WEIGHTS = DOWNLOADING | {"load_state_dict"}
ENDS = m.SimpleStatementLine(body=[m.ZeroOrMore(), m.Return() | m.Raise()])  # what follows it never runs
DOCSTRING = m.SimpleStatementLine([m.Expr(m.SimpleString() | m.ConcatenatedString())])
PRAGMA = re.compile(r"#\s*(type:|noqa|pyrefly|mypy|pylint:|pyre-|flake8|isort:|fmt:)")


@dataclass(frozen=True)
class Written:
    """The text of one piece.

    `placed`: it has `device` and `dtype` parameters. `layers`: additional classes, by their placeholders in the text.
    """

    text: str
    placed: bool = False
    layers: tuple[tuple[str, str], ...] = ()


def write_definitions(cut: Slice, module_of: dict[str, ParsedModule]) -> str:
    """The imports and definitions of a reference, without `get_inputs`.

    Raises:
        libcst.ParserSyntaxError: a piece holds syntax that libcst does not know.
    """
    written = [_write_piece(piece, module_of[piece.definition.module]) for piece in cut.pieces]
    body = _join(cut.pieces, _unplaced(written) or [item.text for item in written])
    body = _with_layers(body, dict(layer for item in written for layer in item.layers))
    used = frozenset(re.findall(r"[A-Za-z_]\w*", body)) | {"torch"}
    statements = {statement for name, statement in cut.names.statements.items() if name in used}
    return f"{sort_imports(statements | {'import torch'})}\n\n\n{body}"


def _unplaced(written: list[Written]) -> list[str]:
    """The texts without `device` and `dtype` parameters; [] if no piece has them or some code needs them."""
    if not any(item.placed for item in written) or any(uses_placement(item.text) for item in written):
        return []
    return [_closed_up(drop_placement(item.text)) for item in written]


def _with_layers(body: str, layers: dict[str, str]) -> str:
    """The body with the layers that it uses in front, and unique names in place of their placeholders."""
    taken = {*re.findall(r"[A-Za-z_]\w*", body)}
    texts = []
    for placeholder, text in layers.items():
        kind = placeholder.partition("_")[0]
        name = next(name for name in (kind, *(f"{kind}{number}" for number in range(2, 1000))) if name not in taken)
        taken.add(name)
        body = body.replace(placeholder, name)
        texts.append(text.replace(f"class {kind}(", f"class {name}("))
    return "\n\n\n".join([*texts, body])


def _join(pieces: Sequence[Piece], bodies: list[str]) -> str:
    """Constants stand together; functions and classes have two empty lines around them."""
    text = bodies[0]
    for before, piece, body in zip(pieces, pieces[1:], bodies[1:], strict=False):
        together = not _is_block(before) and not _is_block(piece)
        text += ("\n" if together else "\n\n\n") + body
    return text


def _is_block(piece: Piece) -> bool:
    return piece.definition.is_class or hasattr(piece.definition.node, "args")


def _write_piece(piece: Piece, module: ParsedModule) -> Written:
    if piece.value:
        return Written(f"{piece.name} = {piece.value}")
    text = (
        _class_text(piece, module) if piece.members else _lines(module, piece.definition.first, piece.definition.last)
    )
    if piece.definition.node.col_offset:
        text = textwrap.dedent(text)  # it was inside a branch
    renames = piece.renames
    if module.bindings.get("Tensor") == Import("torch", "Tensor"):
        renames = {**renames, "Tensor": "torch.Tensor"}  # also in annotations, which slicing ignores
    keep_fields = piece.definition.is_class and not piece.is_module
    einops = tuple(sorted(module.einops.items()))
    flags = tuple(sorted(module.flags.items()))
    absent = tuple(sorted(piece.absent_bases))
    bases = (absent, piece.module_base)
    return _rewrite(text, tuple(sorted(renames.items())), flags, einops, keep_fields, bool(piece.changes), bases)


@lru_cache(maxsize=2048)  # the same building blocks are written for module after module
def _rewrite(
    text: str,
    renames: tuple[tuple[str, str], ...],
    flags: tuple[tuple[str, bool], ...],
    einops: tuple[tuple[str, str], ...],
    keep_fields: bool,
    registers: bool,
    bases: tuple[tuple[str, ...], str],
) -> Written:
    words = frozenset(re.findall(r"[^\W\d]\w*", text))
    unfolder = _EinopsWriter({name: kind for name, kind in einops if name.partition(".")[0] in words})
    if unfolder.names:
        text = cst.parse_module(text).visit(unfolder).code
    wanted = {old: new for old, new in renames if old.partition(".")[0] in words}
    tree = cst.parse_module(rename_text(text, wanted))
    tidier = _Tidier(dict(flags), keep_fields=keep_fields, registers=registers, pragmas=PRAGMA.search(text) is not None)
    code = tree.visit(tidier).visit(_BaseDropper(*bases)).code if bases[0] else tree.visit(tidier).code
    code = drop_cuda(code) if "cuda" in words else code
    code = modernize(drop_weights(code) if words & WEIGHTS else code)
    return Written(_closed_up(code), has_placement(code), tuple(sorted(unfolder.layers.items())))


def _closed_up(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def _lines(module: ParsedModule, first: int, last: int) -> str:
    return "".join(module.lines[first - 1 : last]).rstrip() + "\n"


def _class_text(piece: Piece, module: ParsedModule) -> str:
    """The class header, a one-line docstring, and the needed members, with the comments above each."""
    definition, members = piece.definition, piece.members
    if members[0].first <= definition.node.lineno:
        return _lines(module, definition.first, definition.last)
    head_end = members[0].first - 1
    while head_end > definition.node.lineno and not module.lines[head_end - 1].split("#")[0].rstrip().endswith(":"):
        head_end -= 1
    text = _lines(module, definition.first, head_end)
    indent = " " * members[0].node.col_offset
    summary = _summary(piece)
    if summary:
        text += f'{indent}"""{summary}"""\n\n'
    previous_end = head_end
    for number, member in enumerate(members):
        if number in piece.needed:
            text += _comments(module, previous_end + 1, member.first - 1, len(indent))
            text += _lines(module, member.first, member.last) + ("\n" if hasattr(member.node, "args") else "")
        previous_end = member.last
    return text if piece.needed else f"{text.rstrip()}\n{'' if summary else f'{indent}pass'}\n"


def _comments(module: ParsedModule, first: int, last: int, indent: int) -> str:
    """The comments directly above a member; deeper ones belong to the previous member."""
    lines = [line for line in module.lines[first - 1 : last] if line.strip()]
    return "".join(line for line in lines if len(line) - len(line.lstrip()) <= indent)


def _summary(piece: Piece) -> str:
    for member in piece.members:
        if is_docstring(member.node) or "__doc__" in member.names:
            return first_sentence(member.node)
    return ""


class _EinopsWriter(cst.CSTTransformer):
    """Replaces calls of einops by tensor methods; collects layers by placeholder names."""

    def __init__(self, names: dict[str, str]):
        self.names = names
        self.layers: dict[str, str] = {}

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = self.names.get(dotted_name(original_node.func))
        if name is None:
            return updated_node
        arguments, keywords = [], {}
        for item in updated_node.args:
            code = cst.Module([]).code_for_node(item.value)
            if item.keyword is None:
                arguments.append(item.star + code)
            else:
                keywords[item.keyword.value] = code
        try:
            return cst.parse_expression(self._text(name, arguments, keywords))
        except Untranslatable:
            return updated_node  # in unused code

    def _text(self, name: str, arguments: list[str], keywords: dict[str, str]) -> str:
        if name not in LAYERS:
            return translate_call(name, arguments, keywords)
        given, text = translate_layer(name, arguments, keywords)
        placeholder = f"{name}_{sha256(text.encode()).hexdigest()[:12]}"
        self.layers[placeholder] = text
        return f"{placeholder}({given})"


LEFT, RIGHT, NONE = cst.LeftParen(), cst.RightParen(), cst.MaybeSentinel.DEFAULT
# Nodes below which only comments may be changed: most of a tree, and most of the time to visit it.
CLOSED = (cst.BaseExpression, cst.BaseSmallStatement, cst.Param, cst.Decorator, cst.BaseParenthesizableWhitespace)


class _Tidier(cst.CSTTransformer):
    """Drops what a reference does not need: docstrings, most annotations, pragmas, scripting branches."""

    def __init__(self, flags: dict[str, bool], *, keep_fields: bool, registers: bool, pragmas: bool):
        super().__init__()
        self._registers = registers  # its decorators change what another piece has bound
        self._flags = flags
        self._keep_fields = keep_fields
        self._everywhere = pragmas  # comments may be inside expressions, so all nodes are visited
        self._in_function = 0
        self._elifs: set[cst.If] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        return super().on_visit(node) is not False and (self._everywhere or not isinstance(node, CLOSED))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._in_function += 1

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self._in_function -= 1
        body = updated_node.body
        if isinstance(body, cst.IndentedBlock):
            body = body.with_changes(body=[item for item in body.body if not m.matches(item, DOCSTRING)] or [_pass()])
        returns = updated_node.returns if _is_plain(updated_node.returns) else None
        return join_signature(updated_node.with_changes(body=body, returns=returns))

    def leave_Decorator(
        self, original_node: cst.Decorator, updated_node: cst.Decorator
    ) -> cst.Decorator | cst.RemovalSentinel:
        return cst.RemoveFromParent() if self._is_dropped(updated_node) else updated_node

    def _is_dropped(self, decorator: cst.Decorator) -> bool:
        target = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        name = dotted_name(target).rpartition(".")[2]
        return name in DROPPED_DECORATORS or (name.startswith("register") and not self._registers)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        if updated_node.annotation is None or _is_plain(updated_node.annotation):
            return updated_node
        bare = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return updated_node.with_changes(
            annotation=None, equal=bare if updated_node.default else cst.MaybeSentinel.DEFAULT
        )

    def leave_AnnAssign(
        self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign
    ) -> cst.BaseSmallStatement | cst.RemovalSentinel:
        if self._keep_fields and not self._in_function:
            plain = _is_plain(updated_node.annotation)
            return updated_node if plain else updated_node.with_changes(annotation=cst.Annotation(cst.Name("object")))
        if updated_node.value is None:
            return cst.RemoveFromParent()
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)

    def visit_If(self, node: cst.If) -> None:
        if isinstance(node.orelse, cst.If):
            self._elifs.add(node.orelse)

    def leave_If(
        self, original_node: cst.If, updated_node: cst.If
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        text = cst.Module([]).code_for_node(updated_node.test).strip()
        answer = known_answer(ast.parse(f"({text})", mode="eval").body, self._flags)
        if answer is None:
            return updated_node
        inside = original_node in self._elifs  # one node stands there, not a list of statements
        if answer:
            if inside:
                return cst.Else(updated_node.body)  # type: ignore[return-value]
            return cst.FlattenSentinel(_statements(updated_node.body))
        if updated_node.orelse is None:
            return cst.RemoveFromParent()
        if inside or isinstance(updated_node.orelse, cst.If):
            return updated_node.orelse  # type: ignore[return-value]
        return cst.FlattenSentinel(_statements(updated_node.orelse.body))

    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        if updated_node.comment is None or not PRAGMA.match(updated_node.comment.value):
            return updated_node
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        pragma = updated_node.comment is not None and PRAGMA.match(updated_node.comment.value)
        return cst.RemoveFromParent() if pragma else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        kept = [item for item in updated_node.body if not _only_reports(item)]
        if len(kept) == len(updated_node.body):
            return updated_node
        return updated_node.with_changes(body=kept) if kept else cst.RemoveFromParent()

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        kept = [item for item in updated_node.body if not _only_reports(item)]
        return updated_node.with_changes(body=kept or [cst.Pass()])

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body = list(updated_node.body) or [_pass()]
        for place, node in enumerate(body):
            if m.matches(node, ENDS) and not any(m.findall(item, m.Yield()) for item in body[place + 1 :]):
                return updated_node.with_changes(body=body[: place + 1])
        return updated_node.with_changes(body=body)


class _BaseDropper(cst.CSTTransformer):
    """Drops base classes that a reference may not import, and the keywords that they take.

    `module_base` stands for the first of them, if it is not ""; its constructor takes no arguments.
    """

    def __init__(self, names: tuple[str, ...], module_base: str):
        self._names = frozenset(names)
        self._module_base = module_base

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        kept = [item for item in updated_node.bases if dotted_name(item.value) not in self._names]
        if len(kept) == len(updated_node.bases):
            return updated_node
        if self._module_base:
            kept.append(cst.Arg(cst.parse_expression(self._module_base)))
        kept = [*kept[:-1], *(item.with_changes(comma=cst.MaybeSentinel.DEFAULT) for item in kept[-1:])]
        return updated_node.with_changes(
            bases=kept, keywords=[], lpar=LEFT if kept else NONE, rpar=RIGHT if kept else NONE
        )

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        above = m.Call(m.Attribute(m.Call(m.Name("super")), m.Name("__init__")))
        return (
            updated_node.with_changes(args=[]) if self._module_base and m.matches(updated_node, above) else updated_node
        )


def _statements(body: cst.BaseSuite) -> list[cst.BaseStatement]:
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body.body)]
    return list(body.body)  # type: ignore[arg-type]


def _is_plain(annotation: cst.Annotation | None) -> bool:
    """Whether an annotation is made of builtin types and tensors alone."""
    if annotation is None:
        return False
    names = re.findall(r"[A-Za-z_][\w.]*|[\"']", cst.Module([]).code_for_node(annotation.annotation))
    return all(name in PLAIN_TYPES for name in names)


def _only_reports(statement: cst.BaseSmallStatement) -> bool:
    """See `reports.only_reports`."""
    if not isinstance(statement, cst.Expr) or not isinstance(statement.value, cst.Call):
        return False
    function = statement.value.func
    name = function.attr.value if isinstance(function, cst.Attribute) else ""
    return only_reports(dotted_name(function) or name)


def _pass() -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Pass()])
