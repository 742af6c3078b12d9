"""The one printer: trees of `code.py` as CUDA C++.

`pieces` gives the text as a sequence of strings, names and numbers, so that trees can be compared piece by piece.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from musadata.compiler.ir.code import (
    LEVELS,
    Apply,
    Assign,
    Barrier,
    Binary,
    Blank,
    Body,
    Braces,
    Choice,
    Comment,
    Constant,
    Construct,
    Declare,
    Element,
    Expression,
    Function,
    Group,
    Guard,
    Inserted,
    Jump,
    Lambda,
    Listed,
    Loop,
    Member,
    Method,
    Name,
    Number,
    Run,
    Statement,
    Template,
    Unary,
    Unfinished,
)

Piece = str | Name | Number
MARGIN = "    "


def text_of(node: Expression | Statement | Function | Body, depth: int = 0, *, wide: bool = False) -> str:
    """The text of a tree. With `wide`, integers that count elements have 64 bits."""
    return "".join(map(_text, pieces(node, depth, wide=wide)))


def _text(piece: Piece) -> str:
    if isinstance(piece, str):
        return piece
    return piece.name if isinstance(piece, Name) else piece.digits


def pieces(node: Any, depth: int = 0, *, wide: bool = False) -> Iterator[Piece]:
    """The pieces of a tree's text."""
    if isinstance(node, Expression):
        yield from _expression(node, wide)
    elif isinstance(node, Function):
        yield from _function(node, wide)
    else:
        for statement in node if isinstance(node, tuple) else (node,):
            yield from _statement(statement, MARGIN * depth, wide)


def _expression(node: Expression, wide: bool) -> Iterator[Piece]:
    match node:
        case Name() | Number():
            yield node
        case Constant():
            yield node.name
        case Unary():
            yield node.sign
            yield from _inside(node.operand, node.level, wide)
        case Binary():
            level = LEVELS[node.sign]
            yield from _inside(node.left, level, wide)
            yield f" {node.sign} "
            yield from _inside(node.right, level + (node.sign not in ("&&", "||")), wide)
        case Group():
            yield "("
            yield from _expression(node.inner, wide)
            yield ")"
        case Element():
            yield from _expression(node.array, wide)
            yield "["
            yield from _expression(node.place, wide)
            yield "]"
        case Member():
            yield from _inside(node.value, UNARY_LEVEL, wide)
            yield f".{node.name}"
        case Apply():
            casts = wide and node.function in ("min", "max")  # both arguments must be of one type
            yield f"{node.function}("
            for number, one in enumerate(node.arguments):
                yield (", " if number else "") + ("int64_t(" if casts else "")
                yield from _expression(one, wide)
                yield ")" if casts else ""
            yield ")"
        case Method():
            yield from _inside(node.value, UNARY_LEVEL, wide)
            yield "."
            yield from _expression(Apply(node.function, node.arguments), wide)
        case Choice():
            yield from _inside(node.condition, node.level + 1, wide)
            yield " ? "
            yield from _inside(node.yes, node.level, wide)
            yield " : "
            yield from _inside(node.no, node.level, wide)
        case Braces() | Listed():
            yield "{" if isinstance(node, Braces) else ""
            for number, one in enumerate(node.items):
                yield ", " if number else ""
                yield from _expression(one, wide)
            yield "}" if isinstance(node, Braces) else ""
        case _:
            raise TypeError(f"no expression: {node!r}")


UNARY_LEVEL = 90


def _inside(node: Expression, level: int, wide: bool) -> Iterator[Piece]:
    """In brackets if it binds less than what surrounds it."""
    if node.level >= level:
        yield from _expression(node, wide)
        return
    yield "("
    yield from _expression(node, wide)
    yield ")"


def _note(note: str) -> str:
    return f"  // {note}" if note else ""


def _kind(kind: str, wide: bool) -> str:
    return "int64_t" if wide and kind == "int" else kind


def _statement(node: Statement, margin: str, wide: bool) -> Iterator[Piece]:
    match node:
        case Blank():
            yield "\n"
        case Comment():
            yield f"{margin}// {node.text}\n"
        case Declare() | Construct() | Assign() | Run() | Barrier() | Jump():
            yield margin
            yield from _simple(node, wide, margin)
            yield "\n"
        case Guard(short=True):
            yield f"{margin}if ("
            yield from _expression(node.condition, wide)
            yield ") "
            yield from _simple(node.body[0], wide)
            yield f"{_note(node.note)}\n"
        case Guard():
            yield f"{margin}if ("
            yield from _expression(node.condition, wide)
            yield f") {{{_note(node.note)}\n"
            yield from _block(node.body, margin, wide)
            if node.otherwise:
                yield f"{margin}}} else {{\n"
                yield from _block(node.otherwise, margin, wide)
            yield f"{margin}}}\n"
        case Loop():
            if node.unroll:
                yield f"{margin}{node.unroll}\n"
            yield f"{margin}for ("
            yield from _declared(node.kind, node.variables, wide)
            yield "; "
            yield from _expression(node.condition, wide)
            yield "; "
            if node.step is None:
                yield "++"
                yield node.variables[0][0]
            else:
                yield node.variables[0][0]
                yield " += "
                yield from _expression(node.step, wide)
            if node.short:
                yield ") "
                yield from _simple(node.body[0], wide)
                yield "\n"
                return
            yield ") {\n"
            yield from _block(node.body, margin, wide)
            yield f"{margin}}}\n"
        case Lambda():
            yield f"{margin}const auto "
            yield node.name
            yield " = [&]("
            for number, one in enumerate(node.parameters):
                yield f"{', ' * bool(number)}{_kind(one.kind, wide)} "
                yield one.name
            yield f") {{{_note(node.note)}\n"
            yield from _block(node.body, margin, wide)
            yield f"{margin}}};\n"
        case Unfinished():
            for piece in _statement(node.statement, margin, wide):
                yield piece.replace(";", "") if isinstance(piece, str) else piece
        case Template():
            yield from _template(node, margin, wide)
        case _:
            raise TypeError(f"no statement: {node!r}")


def has_brackets(value: Expression) -> bool:
    """Whether an expression is written with brackets, those of calls included."""
    return any("(" in piece for piece in pieces(value) if isinstance(piece, str))


def head_of(loop: Loop) -> str:
    """The head of a loop, without its body."""
    return text_of(replace(loop, body=(), unroll="")).partition(" {\n")[0]


def _block(body: Body, margin: str, wide: bool) -> Iterator[Piece]:
    for statement in body:
        yield from _statement(statement, margin + MARGIN, wide)


def _simple(node: Statement, wide: bool, margin: str = "") -> Iterator[Piece]:
    """A statement on one line, with its semicolon."""
    match node:
        case Declare():
            yield node.prefix
            yield from _declared(node.kind, node.variables, wide and not node.sizes, node.sizes)
        case Construct():
            yield f"const {node.kind} "
            yield node.name
            yield from _expression(Apply("", node.arguments), wide)
        case Assign():
            yield from _assigned(node, wide, margin)
        case Run():
            yield from _expression(node.call, wide)
        case Barrier():
            yield f"{node.function}()"
        case Jump():
            yield node.word
            if node.value is not None:
                yield " "
                yield from _expression(node.value, wide)
    yield f";{_note(getattr(node, 'note', ''))}"


def _declared(
    kind: str, variables: Sequence[tuple[Name, Expression | None]], wide: bool, sizes: Sequence[int | str] = ()
) -> Iterator[Piece]:
    yield f"{_kind(kind, wide)} "
    for number, (name, value) in enumerate(variables):
        yield ", " if number else ""
        yield name
        yield "".join(f"[{size}]" for size in sizes)
        if value is not None:
            yield " = "
            yield from _expression(value, wide)


def _assigned(node: Assign, wide: bool, margin: str = "") -> Iterator[Piece]:
    yield from _expression(node.target, wide)
    yield f" {node.sign}" + (f"\n{margin}{MARGIN}" if node.apart else " ")
    yield from _expression(node.value, wide)


_INT_DECLARATION = re.compile(r"\bint(&?) (?=\w+(?: =|[,)]))")  # in a template: no pointer and no result of a function
_INT_BEFORE_NAME = re.compile(r"\bint $")


def widened(template: str) -> str:
    """Text of a template, with integers of 64 bits."""
    return _INT_BEFORE_NAME.sub("int64_t ", _INT_DECLARATION.sub(r"int64_t\1 ", template))


def _template(node: Template, margin: str, wide: bool) -> Iterator[Piece]:
    at_start = True
    for part in node.parts:
        if isinstance(part, Inserted):
            for statement in part.body:
                yield from _statement(statement, MARGIN * part.depth, wide)
            at_start = True
        elif isinstance(part, str):
            text = widened(part) if wide else part
            lines = text.split("\n")
            for number, line in enumerate(lines):
                if number:
                    yield "\n"
                if line:
                    yield (margin if number or at_start else "") + line
            at_start = text.endswith("\n")
        else:
            if at_start:
                yield margin
            yield from _expression(part, wide)
            at_start = False


def _function(node: Function, wide: bool) -> Iterator[Piece]:
    if node.template:
        yield f"template <{', '.join(node.template)}>\n"
    yield node.head
    yield node.name
    yield "("
    yield from _parameters(node, wide)
    yield ") {\n"
    yield from _block(node.body, "", wide)
    yield "}\n"


def _parameters(node: Function, wide: bool) -> Iterator[Piece]:
    """Items between commas, on lines of about 96 characters at most if they are too long for one."""
    kinds = [_kind(one.kind, wide) for one in node.parameters]
    # Where lines break does not depend on the width of integers.
    lengths = [len(one.kind) + 1 + len(one.name.name) for one in node.parameters]
    is_short = len(node.head) + len(node.name.name) + 1 + sum(lengths) + 2 * max(0, len(lengths) - 1) < 112
    current = 0
    for number, (one, kind, length) in enumerate(zip(node.parameters, kinds, lengths, strict=True)):
        if not is_short and (not number or current + length > 96):
            yield ("," if number else "") + "\n    "
            current = -1
        elif number:
            yield ", "
        current += length + 2
        yield f"{kind} "
        yield one.name


Expression.printer = staticmethod(text_of)
