"""The device functions of a candidate as statements whose tokens do not depend on comments, layout or qualifiers.

A lexer of regular expressions reads them: a parser would take longer than the whole selection may (tree-sitter-cuda
needs 0.5 ms for a program of 4 KB).
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import yaml

from musadata.syntax import parse

Statement = tuple[str, ...]
WORDS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("kernel_words.yaml").read_text(encoding="utf-8"))

_NOISE = re.compile(r"/(?:/[^\n]*|\*.*?\*/)|\"(?:\\.|[^\"\\\n])*\"|\\\n", re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.M)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
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
_TOKEN = re.compile(  # the most frequent ones first
    r"[A-Za-z_]\w*|[;,(){}\[\]]|\.\s*[A-Za-z_]\w*|->\s*\w+|\.?\d[\w.]*(?:(?<=[eE])[-+]\d+f?)?"
    r"|<<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\+\+|--|::|[^\s\w]"
)
_QUALIFIERS, _TYPES = (frozenset(WORDS[key].split()) for key in ("qualifiers", "types"))
_CONTROL = frozenset({"if", "for", "while", "switch"})


@dataclass(frozen=True, eq=False)
class Function:
    """A device function: its name, whether it is a kernel, its parameters and the statements of its body.

    `statements` hold tokens without qualifiers and declared types. `constants` are the names that stand for numbers,
    `types` those that stand for types.
    """

    name: str
    is_kernel: bool
    header: Statement
    statements: tuple[Statement, ...]
    constants: frozenset[str]
    types: frozenset[str]

    @cached_property
    def tokens(self) -> frozenset[str]:
        return frozenset().union(*self.statements)


@dataclass(frozen=True)
class DeviceCode:
    """What a candidate runs on the device, and the rest of its CUDA C++, both without comments and strings."""

    functions: tuple[Function, ...]
    host: str


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


def read_device_code(code: str) -> DeviceCode:
    """The functions of CUDA C++ that run on the device, in their order, and the text around them."""
    code = _NOISE.sub(" ", code)
    constants = set(_CONSTANT.findall(code))
    if "#" in code:
        constants.update(_DEFINED.findall(code))
        code = _DIRECTIVE.sub("", code)
    types = {name for word, pattern in _NAMED_TYPES.items() if word in code for name in pattern.findall(code)}
    fixed, named = frozenset(constants), frozenset(types)
    functions: list[Function] = []
    host, end = [], 0
    for start in _device_functions(code):
        body = code.find("{", start)
        if start < end or body < 0 or code.find(";", start, body) >= 0:
            continue  # inside of another function, or a declaration
        close = _closing(code, body)
        before = code[end:start]
        host.append(before)
        template = before[before.rfind(";") + 1 :] if "template" in before else ""
        functions.append(_read_function(template, code[start:body], code[body + 1 : close], fixed, named))
        end = close + 1
    host.append(code[end:])
    return DeviceCode(tuple(functions), "".join(host))


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


@lru_cache(maxsize=1024)  # helpers such as the sum of a warp are in many programs
def _read_function(before: str, header: str, body: str, constants: frozenset[str], types: frozenset[str]) -> Function:
    templates = _TEMPLATE.findall(before)
    values = {name for parameters in templates for name in _TEMPLATE_VALUE.findall(" " + parameters)}
    types = types | {name for parameters in templates for name in _TEMPLATE_TYPE.findall(parameters)}
    header = _BOUNDS.sub("", header) if "__launch_bounds__" in header else header
    named = _NAME_OF.search(header)
    return Function(
        name=named.group(1) if named else "",
        is_kernel="__global__" in header,
        header=tuple(
            token for token in _TOKEN.findall(header, named.end() - 1 if named else 0) if token not in _QUALIFIERS
        ),
        statements=tuple(_statements(_words(body))),
        constants=frozenset(constants | values - types),
        types=frozenset(types),
    )


def _words(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(text) if token not in _QUALIFIERS]


def _statements(tokens: list[str]) -> Iterator[Statement]:
    """Cut at semicolons, braces, commas between declarations, and after the head of a control statement.

    So braces around a single statement do not matter. Declared types are left out.
    """
    current: list[str] = []
    depth = control = 0  # of parentheses; the depth at which a head ends, or 0
    following = tokens[1:]
    following.append(";")
    for token, after in zip(tokens, following, strict=False):
        if token in _MARKS:
            if token == "(":
                depth += 1
                if not control and current and current[-1] in _CONTROL:
                    control = depth
            elif token == ")":
                depth -= 1
                if control and depth < control:
                    control = 0
                    current.append(token)
                    yield _in_one_form(current)
                    current = []
                    continue
            elif token == ",":
                if depth > control or not (after[0].isalpha() or after[0] == "_"):
                    current.append(token)
                    continue
                yield from (_in_one_form(current),) if current else ()
                current = []
                continue
            else:
                if current:
                    yield _in_one_form(current)
                current = []
                continue
        elif token in _TYPES and (after[0].isalpha() or after[0] == "_"):
            continue
        if token[0] in ".-":
            token = "".join(token.split())
            if current and current[-1] in _BUILT_IN:
                current[-1] += "_" + token[1:]  # one token, since another axis is another value
                continue
        current.append(token)
    if current:
        yield _in_one_form(current)


_BUILT_IN = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_MARKS = frozenset({"(", ")", ",", ";", "{", "}", "else", "do"})


def _in_one_form(tokens: list[str]) -> Statement:
    """`++i`, `i++` and `i += 1` alike."""
    if tokens[0] in ("++", "--") and len(tokens) > 1:
        tokens = [*tokens[1:2], tokens[0], *tokens[2:]]
    elif len(tokens) > 2 and tokens[2] == "1" and tokens[1] in ("+=", "-="):
        tokens = [tokens[0], tokens[1][0] * 2, *tokens[3:]]
    return tuple(tokens)
