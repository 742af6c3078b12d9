"""Statements of CUDA C++ device code, and what the tokens of one tell without the rest of its function.

Few distinct statements make up most kernels (an index, a guard, a barrier), so each text is read once and kept.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import yaml

Tokens = tuple[str, ...]
WORDS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("kernel_words.yaml").read_text(encoding="utf-8"))
TECHNIQUES = yaml.safe_load(Path(__file__).with_name("techniques.yaml").read_text(encoding="utf-8"))
_MARKED_BY = {name: re.compile(pattern) for name, pattern in TECHNIQUES["tokens"].items()}
_MARKED = re.compile("|".join(pattern.pattern for pattern in _MARKED_BY.values()))
_TOKEN = re.compile(  # the most frequent ones first; the space behind a token would fail at every alternative
    r"([A-Za-z_]\w*|[;,(){}\[\]]|\.\s*[A-Za-z_]\w*|->\s*\w+|\.?\d[\w.]*(?:(?<=[eE])[-+]\d+f?)?"
    r"|<<=|>>=|[-+*/%&|^<>=!]=|&&|\|\||<<|>>|\+\+|--|::|[^\s\w])\s*"
)
_QUALIFIERS, _TYPES = (frozenset(WORDS[key].split()) for key in ("qualifiers", "types"))
_CONTROL = frozenset({"if", "for", "while", "switch"})
_BUILT_IN = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_MARKS = frozenset({"(", ")", ",", "else", "do"})
_ASSIGNING = frozenset({"=", "+=", "-=", "*=", "/=", "|=", "^=", "&=", "%=", "<<=", ">>="})


@dataclass(eq=False, slots=True)
class Assignment:
    """What a statement assigns.

    Attributes:
        target: the variable or array; of `x[i] = …` it is x.
        place, sign: the tokens before the sign, and the sign.
        words: names in the value.
        indexed: those of them that have a subscript.
        divided: whether the value is a quotient, subscripts aside.
    """

    target: str
    place: Tokens
    sign: str
    words: Tokens
    indexed: Tokens
    divided: bool


@dataclass(eq=False, slots=True)
class Statement:
    """A statement without qualifiers and declared types.

    Attributes:
        tokens: its tokens; `threadIdx.x` is one, and so is a field.
        assignment: what it assigns, if it does.
        shared, array, pointer: names that it declares as shared memory, as a thread's array, as a pointer.
        stepped: the variable of `i++`.
    """

    tokens: Tokens
    assignment: Assignment | None
    shared: Tokens
    array: str
    pointer: str
    stepped: str

    @property
    def target(self) -> str:
        return self.assignment.target if self.assignment else ""


def read_tokens(text: str) -> list[str]:
    """The tokens of a text, without qualifiers."""
    return [token for token in _TOKEN.findall(text) if token not in _QUALIFIERS]


def read_statements(body: str) -> Iterator[Statement]:
    """The statements of a function's body.

    They end at semicolons, braces, commas between declarations, and after the head of a control statement, so braces
    around a single statement do not matter.
    """
    depth = control = 0
    for text in body.replace("{", ";").replace("}", ";").split(";"):
        if text := text.strip():
            found, depth, control = _read_piece(text, depth, control)
            yield from found


@lru_cache(maxsize=8192)
def _read_piece(text: str, depth: int, control: int) -> tuple[tuple[Statement, ...], int, int]:
    """The statements up to a semicolon or brace.

    `depth` counts open parentheses, and `control` is the depth at which the head of a control statement ends, or 0;
    both are also returned, as they are at the end.
    """
    found: list[Statement] = []
    current: list[str] = []
    tokens = read_tokens(text)
    for token, after in zip(tokens, [*tokens[1:], ";"], strict=True):
        if token in _MARKS:
            if token == "(":
                depth += 1
                if not control and current and current[-1] in _CONTROL:
                    control = depth
            elif token == ")":
                depth -= 1
                if control and depth < control:
                    control = 0
                    found.append(_read_statement(_in_one_form([*current, token])))
                    current = []
                    continue
            elif token != "," or (depth <= control and after.isidentifier()):
                if current:
                    found.append(_read_statement(_in_one_form(current)))
                current = []
                continue
        elif token in _TYPES and after.isidentifier():
            continue
        elif token[0] in ".-":
            token = "".join(token.split())
            if current and current[-1] in _BUILT_IN:
                current[-1] += "_" + token[1:]  # one token, since another axis is another value
                continue
        current.append(token)
    if current:
        found.append(_read_statement(_in_one_form(current)))
    return tuple(found), depth, control


def _in_one_form(tokens: list[str]) -> Tokens:
    """`++i`, `i++` and `i += 1` alike."""
    if tokens[0] in ("++", "--") and len(tokens) > 1:
        tokens = [tokens[1], tokens[0], *tokens[2:]]
    elif len(tokens) > 2 and tokens[2] == "1" and tokens[1] in ("+=", "-="):
        tokens = [tokens[0], tokens[1][0] * 2, *tokens[3:]]
    return tuple(tokens)


def _read_statement(tokens: Tokens) -> Statement:
    shared, array, pointer = _read_declaration(tokens)
    stepped = tokens[0] if tokens[1:2] in (("++",), ("--",)) else ""
    return Statement(tokens, _read_assignment(tokens), shared, array, pointer, stepped)


@lru_cache(maxsize=1 << 14)
def marks_of(token: str) -> frozenset[str]:
    """The techniques that a token shows."""
    if not _MARKED.fullmatch(token):
        return frozenset()
    return frozenset(name for name, pattern in _MARKED_BY.items() if pattern.fullmatch(token))


def _read_declaration(tokens: Tokens) -> tuple[Tokens, str, str]:
    """Names of shared arrays, of a thread's array, and of a pointer."""
    if "__shared__" in tokens:
        arrays = [before for before, token in pairwise(tokens) if token == "[" and before != "]"]
        return tuple(arrays) if "[" in tokens else tokens[-1:], "", ""
    if "[" in tokens[:3] and (tokens[-1] == "=" or _ASSIGNING.isdisjoint(tokens)):
        return (), tokens[tokens.index("[") - 1], ""
    if "=" in tokens and (at := tokens.index("=")) >= 2 and tokens[at - 2] in ("*", "&"):
        return (), "", tokens[at - 1]
    return (), "", ""


def _read_assignment(tokens: Tokens) -> Assignment | None:
    if _ASSIGNING.isdisjoint(tokens):
        return None
    at = 0
    while tokens[at] not in _ASSIGNING:
        at += 1
    target = _owner(tokens, at - 1)
    return Assignment(target, tokens[:at], tokens[at], *_read_value(tokens[at + 1 :])) if target else None


def _read_value(value: Tokens) -> tuple[Tokens, Tokens, bool]:
    divided, depth = False, 0
    for token in value:
        depth += (token in "([") - (token in ")]")
        divided |= not depth and token in ("/", ">>")
    indexed = tuple(before for before, token in pairwise(value) if token == "[" and before.isidentifier())
    return tuple(filter(str.isidentifier, value)), indexed, divided


def _owner(tokens: Tokens, at: int) -> str:
    """The name before a position, over subscripts and fields."""
    while at >= 0 and tokens[at] == "]":
        depth = 0
        while at >= 0:
            depth += (tokens[at] == "]") - (tokens[at] == "[")
            at -= 1
            if not depth:
                break
    if at >= 1 and is_field(tokens[at]):
        return _owner(tokens, at - 1)
    return tokens[at] if at >= 0 and tokens[at].isidentifier() else ""


def is_field(token: str) -> bool:
    """Whether a token is an access to a field, such as `.x` or `->size`."""
    return token[:2] == "->" or (token[0] == "." and token[1:2].isalpha())
