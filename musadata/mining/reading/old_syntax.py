"""Files of Python 2 in the syntax of today: `print` statements, `except E, error`, tabs beside spaces.

Each line keeps its number, so that what is said of lines holds for the file as it is.
"""

import ast
import re

MAX_CORRECTIONS = 400  # of one file
INDENT = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)
# What the parser says of a line, and how the line is written today.
REWRITTEN = (
    (r"multiple exception types", r"except\s+(.+?)\s*,\s*(\w+)\s*:", r"except \1 as \2:"),
    (r"invalid syntax", r"\braise\s+([\w.]+)\s*,\s*(.+?)\s*$", r"raise \1(\2)"),
    (r"invalid syntax", r"(\S)\s*<>\s*(\S)", r"\1 != \2"),
    (r"invalid syntax", r"\bexec\s+(.+?)\s+in\s+(.+?)\s*$", r"exec(\1, \2)"),
    (r"invalid syntax", r"\basync\s*=(?!=)", "non_blocking="),  # of PyTorch's copies
    (r"leading zeros", r"(?<![\w.])0+(?=[0-7]+\b)", "0o"),
    (r"invalid (decimal|hexadecimal) literal", r"\b(\d+|0x[\da-fA-F]+)[lL]\b", r"\1"),
)


def parse_today(text: str) -> tuple[ast.Module, str]:
    """The syntax tree of a text, and the text in the syntax that it was parsed from.

    Raises:
        SyntaxError: it is no Python of any version.
    """
    for _ in range(MAX_CORRECTIONS):
        try:
            tree = ast.parse(text)
        except TabError:
            corrected = _with_spaces(text, 8)
        except SyntaxError as error:
            corrected = _corrected(text, error)
            if corrected == text:
                raise
        else:
            spaced = _with_spaces(text, 4)
            return (tree, text) if spaced == text else (ast.parse(spaced), spaced)
        text = corrected
    return ast.parse(text), text


def _with_spaces(text: str, width: int) -> str:
    return INDENT.sub(lambda found: found[0].expandtabs(width), text) if "\t" in text else text


def _corrected(text: str, error: SyntaxError) -> str:
    """The text with the statement corrected that the parser refuses; unchanged if it is not known how."""
    lines = text.splitlines(keepends=True)
    first, last = (error.lineno or 0) - 1, (error.end_lineno or error.lineno or 0) - 1
    if not 0 <= first <= last < len(lines):
        return text
    if error.msg.startswith("Missing parentheses in call to") and error.offset and error.end_offset:
        end = error.end_offset - 1
        lines[last] = f"{lines[last][:end]}){lines[last][end:]}"
        start = error.offset - 1
        word = re.match(r"(print|exec)\s+", lines[first][start:])
        if word:
            lines[first] = f"{lines[first][:start]}{word[1]}({lines[first][start + word.end() :]}"
            return "".join(lines)
        return text
    for message, pattern, written in REWRITTEN:
        if re.search(message, error.msg):
            line = re.sub(pattern, written, lines[first].rstrip("\r\n"))
            ending = lines[first][len(lines[first].rstrip("\r\n")) :]
            if line + ending != lines[first]:
                lines[first] = line + ending
                return "".join(lines)
    return text
