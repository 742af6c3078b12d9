"""The first sentence of a docstring, fit for one line."""

import ast
import re

MAX_LENGTH = 96
ROLE = re.compile(r":[\w:]+:`~?([^`<]*?)\s*(?:<[^`]*>)?`")


def docstring_text(node: ast.AST) -> str:
    """All string literals of a docstring statement, or of an assignment to `__doc__`, joined."""
    found = [item for item in ast.walk(node) if isinstance(item, ast.Constant)]
    found.sort(key=lambda item: (item.lineno, item.col_offset))
    return "".join(item.value for item in found if isinstance(item.value, str))


def first_sentence(node: ast.AST) -> str:
    """The first sentence of a docstring statement, "" if it has none that fits on one line."""
    paragraph = docstring_text(node).strip().split("\n\n")[0]
    sentence = re.split(r"(?<=[.!])\s", " ".join(paragraph.split()))[0]
    sentence = ROLE.sub(r"\1", sentence).replace("``", "`").strip()
    plain = len(sentence) <= MAX_LENGTH and not re.search(r'[\\{}]|"""|:\w+:|>>>|::', sentence) and sentence.isascii()
    return sentence.rstrip(":") if plain and len(sentence) > 8 and not sentence.endswith('"') else ""
