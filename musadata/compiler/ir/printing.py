"""The one printer: trees of `code.py` as CUDA C++.

`pieces` gives the text as a sequence of strings, names and numbers, so that trees can be compared piece by piece.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from musadata.compiler.ir.code import (
    UNARY,
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
    Invoke,
    Jump,
    Lambda,
    Launch,
    Listed,
    Loop,
    Member,
    Method,
    Name,
    Number,
    Parameter,
    Routine,
    Run,
    Scope,
    Statement,
    Template,
    Tree,
    Unary,
    bracketed,
    map_parts,
)

Piece = str | Name | Number
MARGIN = "    "


def text_of(node: Expression | Statement | Function | Routine | Body, depth: int = 0) -> str:
    """The text of a tree."""
    return "".join(map(_text, pieces(node, depth)))


def _text(piece: Piece) -> str:
    if isinstance(piece, str):
        return piece
    return piece.name if isinstance(piece, Name) else piece.digits


def pieces(node: Any, depth: int = 0) -> Iterator[Piece]:
    """The pieces of a tree's text."""
    yield from _written(node, MARGIN * depth)


def _written(node: Any, margin: str) -> Iterator[Piece]:
    """The pieces of what stands at a margin: of a text, which is one, of an expression, or of statements."""
    if isinstance(node, (str, Name, Number)):
        yield node
    elif isinstance(node, tuple):
        for part in node:
            yield from _written(part, margin)
    elif isinstance(node, Template):
        yield from _template(node, margin)
    elif isinstance(node, Expression):
        for part in _expression(node):
            yield from _written(part, margin)
    else:
        for part in _statement(node, margin):
            yield from _written(part, margin + MARGIN)


def _expression(node: Expression) -> tuple[Any, ...]:
    """What an expression is written with: texts and expressions."""
    match node:
        case Constant():
            return (node.name,)
        case Unary():
            return node.sign, bracketed(node.operand, node.level)
        case Binary():
            right = bracketed(node.right, node.level + (node.sign not in ("&&", "||")))
            return bracketed(node.left, node.level), f" {node.sign} ", right
        case Group():
            return "(", node.inner, ")"
        case Element():
            return node.array, "[", node.place, "]"
        case Member():
            return bracketed(node.value, UNARY), f".{node.name}"
        case Apply():
            return f"{node.function}(", _listed(node.arguments), ")"
        case Method():
            return bracketed(node.value, UNARY), f".{node.function}(", _listed(node.arguments), ")"
        case Choice():
            yes, no = bracketed(node.yes, node.level), bracketed(node.no, node.level)
            return bracketed(node.condition, node.level + 1), " ? ", yes, " : ", no
        case Braces():
            return "{", _listed(node.items), "}"
        case Listed():
            return _listed(node.items)
    raise TypeError(f"no expression: {node!r}")


def _listed(items: Sequence[Any]) -> tuple[Any, ...]:
    """Items between commas."""
    return tuple(part for item in items for part in (", ", item))[1:]


def _note(note: str) -> str:
    return f"  // {note}" if note else ""


def _statement(node: Any, margin: str) -> tuple[Any, ...]:
    """What a statement is written with: texts, expressions, and statements inside of it."""
    match node:
        case Blank():
            return ("\n",)
        case Comment():
            return (f"{margin}// {node.text}\n",)
        case Guard(short=True):
            return f"{margin}if (", node.condition, ") ", _simple(node.body[0]), f"{_note(node.note)}\n"
        case Guard():
            otherwise = (f"{margin}}} else {{\n", node.otherwise) if node.otherwise else ()
            return f"{margin}if (", node.condition, f") {{{_note(node.note)}\n", node.body, otherwise, f"{margin}}}\n"
        case Loop():
            name = node.variables[0][0]
            step = ("++", name) if node.step is None else (name, " += ", node.step)
            unroll = f"{margin}{node.unroll}\n" if node.unroll else ""
            head = (unroll, f"{margin}for (", _declared(node.kind, node.variables), "; ", node.condition, "; ", step)
            inside = (") ", _simple(node.body[0]), "\n") if node.short else (") {\n", node.body, f"{margin}}}\n")
            return head + inside
        case Lambda():
            head = (
                f"{margin}const auto ",
                node.name,
                " = [&](",
                _listed([(f"{p.kind} ", p.name) for p in node.parameters]),
            )
            return (*head, f") {{{_note(node.note)}\n", node.body, f"{margin}}};\n")
        case Scope():
            return f"{margin}{{\n", node.body, f"{margin}}}\n"
        case Invoke():
            return (textwrap.indent(_invoked(node), margin),)
        case Launch():
            return *(part for one in node.setup for part in _statement(one, margin)), textwrap.indent(
                _launched(node), margin
            )
        case Routine():
            return f"{node.head} {{\n", node.body, "}\n"
        case Function():
            template = f"template <{', '.join(node.template)}>\n" if node.template else ""
            return template, node.head, node.name, "(", tuple(_parameters(node)), ") {\n", node.body, "}\n"
    return margin, _simple(node, margin), "\n"


def _invoked(node: Invoke) -> str:
    names = ", ".join(one.name for one in node.outputs)
    made = f"[{names}]" if len(node.outputs) > 1 else names
    before = f"auto {made} = " if names else "return " if node.returns else ""
    call = f"{before}{node.function}("
    return f"{call}{_between(node.arguments, 108 - len(call) - 2, 100)});\n"


def _launched(node: Launch) -> str:
    check = "C10_CUDA_KERNEL_LAUNCH_CHECK();\n"
    if node.aligned is None:
        return f"{_launch_of(node, node.kernel)}{check}"
    yes, no = (textwrap.indent(_launch_of(node, f"{node.kernel}<{value}>"), MARGIN) for value in ("true", "false"))
    head = textwrap.fill(f"if ({node.aligned}) {{", 104, subsequent_indent=MARGIN * 2, break_long_words=False)
    return f"{head}\n{yes}}} else {{\n{no}}}\n{check}"


def _launch_of(node: Launch, kernel: str) -> str:
    """One launch. More shared memory than 48 KB must be asked for."""
    attribute = f"{kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes"
    asked = f"C10_CUDA_CHECK(cudaFuncSetAttribute({attribute}));\n" if node.has_shared_bytes else ""
    memory = "shared_bytes" if node.has_shared_bytes else "0"
    call = f"{kernel}<<<blocks, {node.threads}, {memory}, {node.stream}>>>("
    return f"{asked}{call}{_between(node.arguments, 107 - len(call), 95)});\n"


def _between(arguments: Sequence[Expression], most: int, width: int) -> str:
    """Arguments between commas, on lines of their own if they have more than so many characters."""
    texts = [str(one) for one in arguments]
    line = ", ".join(texts)
    return line if len(line) <= most else f"\n{MARGIN}{filled(texts, width)}"


def filled(items: Sequence[str], width: int = 104) -> str:
    """Comma-separated items on lines of about so many characters at most."""
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) > width:
            lines.append("")
        lines[-1] += f"{', ' * bool(lines[-1])}{item}"
    return f",\n{MARGIN}".join(lines)


def has_brackets(value: Expression) -> bool:
    """Whether an expression is written with brackets, those of calls included."""
    return any("(" in piece for piece in pieces(value) if isinstance(piece, str))


def head_of(loop: Loop) -> str:
    """The head of a loop, without its body."""
    return text_of(replace(loop, body=(), unroll="")).partition(" {\n")[0]


def _simple(node: Any, margin: str = "") -> tuple[Any, ...]:
    """A statement on one line, with its semicolon."""
    end = f";{_note(getattr(node, 'note', ''))}"
    match node:
        case Declare():
            return node.prefix, _declared(node.kind, node.variables, node.sizes), end
        case Construct():
            return f"const {node.kind} ", node.name, "(", _listed(node.arguments), ")", end
        case Assign():
            return node.target, f" {node.sign}" + (f"\n{margin}{MARGIN}" if node.apart else " "), node.value, end
        case Run():
            return node.call, end
        case Barrier():
            return f"{node.function}()", end
        case Jump():
            return node.word, () if node.value is None else (" ", node.value), end
    raise TypeError(f"no statement: {node!r}")


def _declared(
    kind: str, variables: Sequence[tuple[Name, Expression | None]], sizes: Sequence[int | str] = ()
) -> tuple[Any, ...]:
    extents = "".join(f"[{size}]" for size in sizes)
    return f"{kind} ", _listed([(one, extents, () if value is None else (" = ", value)) for one, value in variables])


def _template(node: Template, margin: str) -> Iterator[Piece]:
    at_start = True
    for part in node.parts:
        if isinstance(part, str):
            lines = part.split("\n")
            for number, line in enumerate(lines):
                if number:
                    yield "\n"
                if line:
                    yield (margin if number or at_start else "") + line
        else:
            yield margin if at_start and isinstance(part, Expression) else ""
            inside = part.body if isinstance(part, Inserted) else part
            yield from _written(inside, MARGIN * part.depth if isinstance(part, Inserted) else margin)
        at_start = isinstance(part, Inserted) or (isinstance(part, str) and part.endswith("\n"))


def _parameters(node: Function) -> Iterator[Any]:
    """Items between commas, on lines of about 96 characters at most if they are too long for one."""
    # Where lines break does not depend on the width of integers.
    lengths = [len("int" if one.kind == WIDE else one.kind) + 1 + len(one.name.name) for one in node.parameters]
    is_short = len(node.head) + len(node.name.name) + 1 + sum(lengths) + 2 * max(0, len(lengths) - 1) < 112
    current = 0
    for number, (one, length) in enumerate(zip(node.parameters, lengths, strict=True)):
        if not is_short and (not number or current + length > 96):
            yield ("," if number else "") + "\n    "
            current = -1
        elif number:
            yield ", "
        current += length + 2
        yield f"{one.kind} "
        yield one.name


WIDE = "int64_t"
_INT_DECLARATION = re.compile(r"\bint(&?) (?=\w+(?: =|[,)]))")  # in a template: no pointer and no result of a function
_INT_BEFORE_NAME = re.compile(r"\bint $")


def widened(tree: Tree) -> Tree:
    """A tree, or the text of a template, with integers of 64 bits for what counts elements."""
    if isinstance(tree, str):
        return _INT_BEFORE_NAME.sub(f"{WIDE} ", _INT_DECLARATION.sub(rf"{WIDE}\1 ", tree))  # type: ignore[return-value]
    new = map_parts(tree, widened)
    match new:
        case Declare("int", sizes=()) | Loop("int") | Parameter("int"):
            return replace(new, kind=WIDE)
        case Apply("min" | "max"):  # both arguments must be of one type
            return replace(new, arguments=tuple(Apply(WIDE, (one,)) for one in new.arguments))
    return new


Expression.printer = Function.printer = Routine.printer = staticmethod(text_of)
