"""The one printer: trees of `code.py` as CUDA C++.

`pieces` gives the text as a sequence of strings, names and numbers, so that trees can be compared piece by piece.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from musadata.compiler.ir import code as tree

Piece = str | tree.Name | tree.Number
MARGIN = "    "


def text_of(node: tree.Expression | tree.Statement | tree.Function | tree.Body) -> str:
    """The text of a tree."""
    return "".join(map(_text, pieces(node)))


def _text(piece: Piece) -> str:
    if isinstance(piece, str):
        return piece
    return piece.name if isinstance(piece, tree.Name) else piece.digits


def pieces(node: Any) -> list[Piece]:
    """The pieces of a tree's text."""
    found: list[Piece] = []
    _write(node, "", found.append)
    return found


def _write(node: Any, margin: str, add: Callable[[Piece], None]) -> None:
    """Add the pieces of what stands at a margin: of a text, which is one, of an expression, or of statements."""
    if isinstance(node, (str, tree.Name, tree.Number)):
        add(node)
    elif isinstance(node, tuple):
        for part in node:
            _write(part, margin, add)
    elif isinstance(node, tree.Expression):
        for part in _expression(node):
            _write(part, margin, add)
    elif isinstance(node, tree.Template):
        _write_template(node, margin, add)
    else:
        for part in _statement(node, margin):
            _write(part, margin + MARGIN, add)


def _expression(node: tree.Expression) -> tuple[Any, ...]:
    """What an expression is written with: texts and expressions."""
    match node:
        case tree.Binary():
            right = tree.bracketed(node.right, node.level + (node.sign not in ("&&", "||")))
            return tree.bracketed(node.left, node.level), f" {node.sign} ", right
        case tree.Group():
            return "(", node.inner, ")"
        case tree.Element():
            return node.array, "[", node.place, "]"
        case tree.Member():
            return tree.bracketed(node.value, tree.UNARY), f".{node.name}"
        case tree.Apply():
            return f"{node.function}(", _listed(node.arguments), ")"
        case tree.Method():
            return tree.bracketed(node.value, tree.UNARY), f".{node.function}(", _listed(node.arguments), ")"
        case tree.Constant():
            return (node.name,)
        case tree.Unary():
            return node.sign, tree.bracketed(node.operand, node.level)
        case tree.Choice():
            yes, no = tree.bracketed(node.yes, node.level), tree.bracketed(node.no, node.level)
            return tree.bracketed(node.condition, node.level + 1), " ? ", yes, " : ", no
        case tree.Braces():
            return "{", _listed(node.items), "}"
        case tree.Listed():
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
        case tree.Blank():
            return ("\n",)
        case tree.Comment():
            return (f"{margin}// {node.text}\n",)
        case tree.Guard(short=True):
            return f"{margin}if (", node.condition, ") ", _simple(node.body[0]), f"{_note(node.note)}\n"
        case tree.Guard():
            otherwise = (f"{margin}}} else {{\n", node.otherwise) if node.otherwise else ()
            return f"{margin}if (", node.condition, f") {{{_note(node.note)}\n", node.body, otherwise, f"{margin}}}\n"
        case tree.Loop():
            name = node.variables[0][0]
            step = ("++", name) if node.step is None else (name, " += ", node.step)
            unroll = f"{margin}{node.unroll}\n" if node.unroll else ""
            head: tuple[Any, ...] = (
                unroll,
                f"{margin}for (",
                _declared(node.kind, node.variables),
                "; ",
                node.condition,
                "; ",
                step,
            )
            inside = (") ", _simple(node.body[0]), "\n") if node.short else (") {\n", node.body, f"{margin}}}\n")
            return head + inside
        case tree.Lambda():
            head = (
                f"{margin}const auto ",
                node.name,
                " = [&](",
                _listed([(f"{p.kind} ", p.name) for p in node.parameters]),
            )
            return (*head, f") {{{_note(node.note)}\n", node.body, f"{margin}}};\n")
        case tree.Scope():
            return f"{margin}{{\n", node.body, f"{margin}}}\n"
        case tree.Invoke():
            return (textwrap.indent(_invoked(node), margin),)
        case tree.Launch():
            return *(part for one in node.setup for part in _statement(one, margin)), textwrap.indent(
                _launched(node), margin
            )
        case tree.Function():
            return *_head(node), " {\n", node.body, "}\n"
    return margin, _simple(node, margin), "\n"


def _invoked(node: tree.Invoke) -> str:
    names = ", ".join(one.name for one in node.outputs)
    made = f"[{names}]" if len(node.outputs) > 1 else names
    before = f"auto {made} = " if names else "return " if node.returns else ""
    call = f"{before}{node.function}("
    return f"{call}{_between(node.arguments, 108 - len(call) - 2, 100)});\n"


def _launched(node: tree.Launch) -> str:
    check = "C10_CUDA_KERNEL_LAUNCH_CHECK();\n"
    if node.aligned is None:
        return f"{_launch_of(node, node.kernel)}{check}"
    yes, no = (textwrap.indent(_launch_of(node, f"{node.kernel}<{value}>"), MARGIN) for value in ("true", "false"))
    head = textwrap.fill(f"if ({node.aligned}) {{", 104, subsequent_indent=MARGIN * 2, break_long_words=False)
    return f"{head}\n{yes}}} else {{\n{no}}}\n{check}"


def _launch_of(node: tree.Launch, kernel: str) -> str:
    """One launch. More shared memory than 48 KB must be asked for."""
    attribute = f"{kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes"
    asked = f"C10_CUDA_CHECK(cudaFuncSetAttribute({attribute}));\n" if node.has_shared_bytes else ""
    memory = "shared_bytes" if node.has_shared_bytes else "0"
    call = f"{kernel}<<<blocks, {node.threads}, {memory}, {node.stream}>>>("
    return f"{asked}{call}{_between(node.arguments, 107 - len(call), 95)});\n"


def _between(arguments: Sequence[tree.Expression], most: int, width: int) -> str:
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


def _simple(node: Any, margin: str = "") -> tuple[Any, ...]:
    """A statement on one line, with its semicolon."""
    end = f";{_note(getattr(node, 'note', ''))}"
    match node:
        case tree.Declare():
            return node.prefix, _declared(node.kind, node.variables, node.sizes), end
        case tree.Construct():
            return f"const {node.kind} ", node.name, "(", _listed(node.arguments), ")", end
        case tree.Assign():
            return node.target, f" {node.sign}" + (f"\n{margin}{MARGIN}" if node.apart else " "), node.value, end
        case tree.Run():
            return node.call, end
        case tree.Barrier():
            return f"{node.function}()", end
        case tree.Jump():
            return node.word, () if node.value is None else (" ", node.value), end
    raise TypeError(f"no statement: {node!r}")


def _declared(
    kind: str, variables: Sequence[tuple[tree.Name, tree.Expression | None]], sizes: Sequence[int | str] = ()
) -> tuple[Any, ...]:
    extents = "".join(f"[{size}]" for size in sizes)
    return f"{kind} ", _listed([(one, extents, () if value is None else (" = ", value)) for one, value in variables])


def _write_template(node: tree.Template, margin: str, add: Callable[[Piece], None]) -> None:
    at_start = True
    for part in node.parts:
        if isinstance(part, tree.Inserted):
            _write(part.body, MARGIN * part.depth, add)
        elif isinstance(part, str):
            for number, line in enumerate(part.split("\n")):
                add(("\n" if number else "") + (margin if line and (number or at_start) else "") + line)
        else:
            add(margin if at_start else "")
            _write(part, margin, add)
        at_start = isinstance(part, tree.Inserted) or (isinstance(part, str) and part.endswith("\n"))


def _head(node: tree.Function) -> tuple[Any, ...]:
    template = f"template <{', '.join(node.template)}>\n" if node.template else ""
    return template, node.head, node.name, "(", tuple(_parameters(node)), ")"


def declaration_of(function: tree.Function) -> str:
    """A function's head alone, as a declaration."""
    return "".join(map(_text, pieces((*_head(function), ";"))))


def _parameters(node: tree.Function) -> Iterator[Any]:
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


def widened(node: Any) -> Any:
    """A tree, or the text of a template, with integers of 64 bits for what counts elements."""
    if isinstance(node, str):
        return _INT_BEFORE_NAME.sub(f"{WIDE} ", _INT_DECLARATION.sub(rf"{WIDE}\1 ", node))
    new = tree.map_parts(node, widened)
    match new:
        case tree.Declare("int", sizes=()) | tree.Loop("int") | tree.Parameter("int"):
            return replace(new, kind=WIDE)
        case tree.Apply("min" | "max"):  # both arguments must be of one type
            return replace(new, arguments=tuple(tree.Apply(WIDE, (one,)) for one in new.arguments))
    return new


tree.Expression.printer = tree.Function.printer = staticmethod(text_of)
