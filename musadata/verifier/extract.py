"""Finding the program in a model's reply: one code block, several, nested fences, a truncated one, or bare Python."""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache

from musadata.records import Finding
from musadata.syntax import parse
from musadata.verifier.rules import catalogue as rules

MAX_CHARACTERS = 1_000_000
_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^\n`]*$")
_PYTHON = {"python", "py", "python3", ""}
_MOST_FENCES = 24
_MOST_PARSED = 4 * MAX_CHARACTERS  # characters of all runs between two fences that are tried
_OPEN_THOUGHTS = re.compile(r"<(think|thinking|reasoning)>", re.IGNORECASE)
_CLOSED_THOUGHTS = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in ("think", "thinking", "reasoning")}
_LAST_LINES = 5


@dataclass(frozen=True)
class Extraction:
    """The candidate's program, or the reason why there is none. `line` is where it starts in the reply, 1-based."""

    source: str
    finding: Finding | None = None
    line: int = 1


@dataclass(frozen=True)
class _Block:
    language: str
    text: str
    line: int
    closed: bool


@lru_cache(maxsize=64)  # what is judged is kept as a row as well
def extract(reply: str) -> Extraction:
    """The program that defines `ModelNew`: the last code block that does, else the whole reply if it is Python."""
    problem = _unreadable(reply)
    if problem:
        return Extraction("", rules.EXTRACT_UNREADABLE.worded(problem))
    reply = reply.replace("\r\n", "\n").lstrip("\ufeff")
    if _defines_candidate(reply):
        return Extraction(reply)
    text = _without_thoughts(reply)
    blocks = _blocks(text)
    python = [block for block in blocks if block.language.lower() in _PYTHON]
    whole = [block for block in python if _defines_candidate(block.text)]
    if whole:
        return Extraction(whole[-1].text, line=whole[-1].line)
    nested = _outer_block(text)
    if nested:
        return nested
    joined = "\n\n".join(block.text for block in python)
    if len(python) > 1 and _defines_candidate(joined):
        return Extraction(joined, line=python[0].line)
    return Extraction("", _missing(text, blocks, python))


def _unreadable(reply: str) -> str:
    if not reply.strip():
        return "The reply is empty."
    if len(reply) > MAX_CHARACTERS:
        return f"The reply is longer than {MAX_CHARACTERS} characters."
    if "\0" in reply:
        return "The reply is not text: it holds null characters."
    try:
        reply.encode()
    except UnicodeEncodeError:
        return "The reply is not valid Unicode."
    return ""


def _without_thoughts(text: str) -> str:
    """The text with newlines alone in place of whole thoughts. A regular expression for both tags would take a time
    that grows with the square of their number where none is closed."""
    kept, copied, position, unclosed = [], 0, 0, set()
    while opening := _OPEN_THOUGHTS.search(text, position):
        tag, position = opening[1].lower(), opening.end()
        closing = None if tag in unclosed else _CLOSED_THOUGHTS[tag].search(text, position)
        if closing is None:
            unclosed.add(tag)
            continue
        kept += [text[copied : opening.start()], "\n" * text.count("\n", opening.start(), closing.end())]
        copied = position = closing.end()
    return "".join([*kept, text[copied:]])


def _blocks(text: str) -> list[_Block]:
    """Fenced blocks, outermost fences only: a fence closes with as many characters as it opened with, or more."""
    blocks: list[_Block] = []
    opened: tuple[str, str, str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, lines = (fence[1], fence[2], fence[3], number + 1), []
        elif fence and not fence[3] and fence[2].startswith(opened[1]):
            blocks.append(_Block(opened[2], _body(lines, opened[0]), opened[3], closed=True))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        blocks.append(_Block(opened[2], _body(lines, opened[0]), opened[3], closed=False))
    return blocks


def _outer_block(text: str) -> Extraction | None:
    """The longest run between two fences that is a program: its strings may hold fences of their own."""
    lines = text.split("\n")
    fences = [index for index, line in enumerate(lines) if _FENCE.match(line)][:_MOST_FENCES]
    left = _MOST_PARSED
    for start in fences:
        for end in reversed([index for index in fences if index > start]):
            body = "\n".join(lines[start + 1 : end]) + "\n"
            left -= len(body)
            if left < 0:
                return None
            if _defines_candidate(body):
                return Extraction(body, line=start + 2)
    return None


def _body(lines: list[str], indent: str) -> str:
    return "\n".join(line.removeprefix(indent) for line in lines) + "\n"


def _defines_candidate(source: str) -> bool:
    if "ModelNew" not in source:
        return False
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any("ModelNew" in _defined(node) for node in tree.body)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, (ast.If, ast.Try, ast.With)):
        return [name for inner in ast.walk(node) if isinstance(inner, ast.ClassDef) for name in [inner.name]]
    return []


def _missing(text: str, blocks: list[_Block], python: list[_Block]) -> Finding:
    """Why no program was found: the most helpful sentence."""
    if blocks and not blocks[-1].closed:
        text = "The last code block is not closed: the reply was cut off."
        return rules.EXTRACT_TRUNCATED.worded(text, blocks[-1].line)
    if _OPEN_THOUGHTS.search(text):
        text = "The reply ends among its thoughts: it was cut off before any program."
        return rules.EXTRACT_TRUNCATED.worded(text)
    whole = [] if blocks else [_Block("", text, 1, False)]
    named = [block for block in (python or whole) if "ModelNew" in block.text]
    for block in named:
        try:
            parse(block.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = (getattr(error, "lineno", None) or 1) + block.line - 1
            what = getattr(error, "msg", None) or type(error).__name__
            if not block.closed and _ends_early(what, block.text.rstrip().count("\n") + block.line - line):
                text = f"The program ends in the middle ({what}, line {line}): the reply was cut off."
                return rules.EXTRACT_TRUNCATED.worded(text, line)
            return rules.EXTRACT_SYNTAX.finding(what, line, line=line)
    if not blocks:
        return rules.EXTRACT_NO_CODE.finding()
    return rules.EXTRACT_NO_MODEL.finding()


def _ends_early(error: str, lines_after: int) -> bool:
    """Whether the error says that the program was cut off. A bracket that is left open many lines before the end may as
    well be a mistake."""
    if "unterminated triple-quoted" in error:
        return True
    return lines_after < _LAST_LINES and ("was never closed" in error or "expected an indented block" in error)
