"""The device functions of a candidate as statements that do not depend on comments, layout or qualifiers.

A lexer of regular expressions reads them: a parser would take longer than the whole selection may (tree-sitter-cuda
needs 0.5 ms for a program of 4 KB).
"""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache

from musadata.sampling.statements import Assignment, Statement, Tokens, marks_of, read_statements, read_tokens
from musadata.syntax import parse

_NOISE = re.compile(r"/(?:/[^\n]*|\*.*?\*/)|\"(?:\\.|[^\"\\\n])*\"|\\\n", re.S)
_DIRECTIVE = re.compile(r"#(?<!'#)[ \t]*(?:define[ \t]+(\w+))?.*")  # which no quoted sign begins
_NAMED_TYPES = {
    **{word: re.compile(rf"{word}\s+(\w+)") for word in ("struct", "class", "using", "namespace")},
    "typedef": re.compile(r"typedef\s[^;{}]*?(\w+)\s*;"),
}
_CONSTANT = re.compile(r"const(?:expr)?\s+(?:\w+\s+){1,3}(\w+)\s*=\s*(?:0x[\da-fA-F]+|[-\dA-Z_.+*/() f])+;")
_TEMPLATE = re.compile(r"template\s*<([^>]*)>")
_TEMPLATE_VALUE = re.compile(r"(?<!typename)(?<!class)\s(\w+)\s*(?:=[^,]*)?(?:,|$)")
_TEMPLATE_TYPE = re.compile(r"\b(?:typename|class)\s+(\w+)")
_NAME_OF = re.compile(r"(\w+)\s*\(")
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]*\)")


@dataclass(eq=False)
class Function:
    """A device function: its name, whether it is a kernel, its parameters and the statements of its body.

    A kernel that only the host launches has no name here, since a name changes nothing of what it does.
    `constants` are the names that stand for numbers, `types` those that stand for types. `tokens` are those of its
    statements, `assignments` what they assign, equal ones once, and `marks` what all tokens show.
    """

    name: str
    is_kernel: bool
    header: Tokens
    statements: tuple[Statement, ...]
    constants: frozenset[str]
    types: frozenset[str]
    tokens: frozenset[str]
    assignments: tuple[Assignment, ...]
    marks: frozenset[str]


def cuda_sources(source: str) -> list[str]:
    """The pieces of CUDA C++ in a candidate, in order; the source itself where it is not Python."""
    found = _triple_quoted(source)
    if found is not None:
        return found
    try:
        tree = parse(source)
    except (SyntaxError, ValueError):
        return [source]
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text for text in strings if "__global__" in text]


def _triple_quoted(source: str) -> list[str] | None:
    """The pieces where all lie in triple quotes of one kind and hold no escapes, which is seen without a parser."""
    quotes = '"""' if "'''" not in source else "'''" if '"""' not in source else ""
    parts = source.split(quotes) if quotes else []
    if len(parts) < 3 or not len(parts) % 2 or any("__global__" in text for text in parts[::2]):
        return None
    if any(
        "\\" in text and before[-1:] not in ("r", "R") for before, text in zip(parts[::2], parts[1::2], strict=False)
    ):
        return None
    if any("#" in text[text.rfind("\n") + 1 :] for text in parts[:-1:2]):  # quotes in a comment
        return None
    return [text for text in parts[1::2] if "__global__" in text]


def read_device_code(code: str) -> list[Function]:
    """The functions of CUDA C++ that run on the device, in their order."""
    code = _NOISE.sub(" ", code)
    constants = set(_CONSTANT.findall(code))
    if "#" in code:
        constants.update(filter(None, _DIRECTIVE.findall(code)))
        code = _DIRECTIVE.sub("", code)
    types = {name for word, pattern in _NAMED_TYPES.items() if word in code for name in pattern.findall(code)}
    fixed, named = frozenset(constants), frozenset(types)
    parts: list[tuple[str, str, str]] = []  # template, header, body
    end = 0
    for start in _device_functions(code):
        opening = code.find("{", start)
        if start < end or opening < 0 or code.find(";", start, opening) >= 0:
            continue  # inside of another function, or a declaration
        close = _closing(code, opening)
        before = code[end:start]
        template = before[before.rfind(";") + 1 :] if "template" in before else ""
        parts.append((template, code[start:opening], code[opening + 1 : close]))
        end = close + 1
    launches = any("<<<" in body for _, _, body in parts)
    functions = []
    for template, header, body in parts:
        name, parameters = _split_header(header)
        is_kernel = "__global__" in header
        kept = name if launches or not is_kernel else ""  # no device code names a kernel that it does not launch
        functions.append(_read_function(template, kept, parameters, body, is_kernel, fixed, named))
    return functions


def _device_functions(code: str) -> list[int]:
    """Where `__global__` and `__device__` stand, in order."""
    found = []
    for word in ("__global__", "__device__"):
        at = code.find(word)
        while at >= 0:
            found.append(at)
            at = code.find(word, at + 1)
    return sorted(found)


def _closing(code: str, start: int) -> int:
    """Where the brace that opens at `start` closes; the end of the text if it does not."""
    depth, at = 0, start
    while True:
        close = code.find("}", at)
        if close < 0:
            return len(code)
        depth += code.count("{", at, close) - 1
        if not depth:
            return close
        at = close + 1


def _split_header(header: str) -> tuple[str, str]:
    """The name of a function, and its parameters."""
    header = _BOUNDS.sub("", header) if "__launch_bounds__" in header else header
    named = _NAME_OF.search(header)
    return (named.group(1), header[named.end() - 1 :]) if named else ("", header)


@lru_cache(maxsize=1024)  # helpers such as the sum of a warp are in many programs
def _read_function(
    template: str,
    name: str,
    parameters: str,
    body: str,
    is_kernel: bool,
    constants: frozenset[str],
    types: frozenset[str],
) -> Function:
    templates = _TEMPLATE.findall(template)
    values = {value for declared in templates for value in _TEMPLATE_VALUE.findall(" " + declared)}
    types = types | {kind for declared in templates for kind in _TEMPLATE_TYPE.findall(declared)}
    header = tuple(read_tokens(parameters))
    statements = tuple(read_statements(body))
    tokens = frozenset().union(*(statement.tokens for statement in statements))
    return Function(
        name=name,
        is_kernel=is_kernel,
        header=header,
        statements=statements,
        constants=frozenset(constants | values - types),
        types=frozenset(types),
        tokens=tokens,
        assignments=tuple({one.tokens: one.assignment for one in statements if one.assignment}.values()),
        marks=frozenset().union(*map(marks_of, tokens.union(header))),
    )
