"""Which functions of an extension's C++ a candidate's program can reach, so that others are not held against it.

Works on tokens and by name alone: whatever is not certainly the body of a function or class that is never named counts
as reached, which includes macros, initialisers and registrations.
"""

import ast
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from musadata.cpp import CLOSING, OPENING, WORD, Code, Unbalanced

_COMPUTES_NAMES = {"getattr", "__getattr__", "__getattribute__", "__dict__", "vars", "attrgetter", "methodcaller"}
_OTHERS = r"[=\[]|\b(?:struct|class|union|enum|__attribute__)\b"
_CLASS = re.compile(rf"\s*(?:class|struct)\s+({WORD})\s*(?:\bfinal\s*)?(?::[^:].*)?", re.DOTALL)
# What runs, or is found, without the name of its class.
_UNNAMED = re.compile(r"\b(?:inline|friend|constructor|__attribute__)\b|\[\s*\[")
_SCOPE = re.compile(r'\bnamespace\b|^\s*extern\s*"_"\s*$')
_MODULE = "PYBIND11_MODULE"
_BINDING = re.compile(r'\bdef\s*\(\s*(?:"(\w+)"\s*,)?')
_Part = tuple[int, int]  # of a source: from, to


@dataclass
class _Scope:
    """A source, what it holds outside of its functions, and the functions, by their possible names."""

    code: Code
    words: set[str] = field(default_factory=set)
    parts: list[_Part] = field(default_factory=list)
    functions: list[tuple[set[str], _Part]] = field(default_factory=list)


def named_in(program: str) -> frozenset[str] | None:
    """Names that a candidate's Python may call in an extension; None if it computes names."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) | ast.Attribute(_, name) | ast.alias(name) | ast.Constant(str(name)):
                found.add(name)
    return None if found & _COMPUTES_NAMES else frozenset(found)


def unreached_lines(sources: Sequence[str], called: frozenset[str]) -> list[frozenset[int]]:
    """For each source the lines that hold nothing but parts of functions that nobody calls."""
    try:
        scopes = [_read(source) for source in sources]
    except Unbalanced:
        return [frozenset() for _ in sources]
    waiting = [(scope, *function) for scope in scopes for function in scope.functions]
    reached = {"", *called}.union(*(scope.words for scope in scopes))
    while new := [one for one in waiting if one[1] & reached]:
        waiting = [one for one in waiting if not one[1] & reached]
        reached |= {word for scope, _, (start, end) in new for word in _words(scope.code.mask[start:end])}
    return [_lines_of(scope, {part for one, _, part in waiting if one is scope}) for scope in scopes]


def _lines_of(scope: _Scope, unreached: set[_Part]) -> frozenset[int]:
    starts = [0, *(end.end() for end in re.finditer("\n", scope.code.text))]
    lines: dict[bool, set[int]] = {False: set(), True: set()}
    for part in (*scope.parts, *(part for _, part in scope.functions)):
        lines[part not in unreached] |= {
            bisect(starts, word.start()) for word in re.compile(r"\S+").finditer(scope.code.mask, *part)
        }
    return frozenset(lines[False] - lines[True])


def _read(source: str) -> _Scope:
    """A source's functions, and what is outside of them.

    Raises:
        Unbalanced: a bracket is never closed.
    """
    whole = Code(source)
    code = whole.without_directives()
    scope = _Scope(code, {word for directive in whole.find(r"#[^\n]*") for word in _words(directive[0])})
    head = 0
    while (at := code.outside("[;{}]", head)) < len(code.mask):
        if code.mask[at] != "{":
            _add_statement(scope, (head, at + 1))
            head = at + 1
        elif _SCOPE.search(code.mask[head:at]):
            head = at + 1
        else:
            end = code.closing(at) + 1
            _add_block(scope, (head, at), (at, end))
            head = end
    _add_statement(scope, (head, len(code.mask)))
    return scope


def _add_statement(scope: _Scope, part: _Part) -> None:
    """A declaration names what it declares, and does not call it."""
    mask = scope.code.mask[slice(*part)]
    scope.words |= _words(mask) - (set() if "=" in mask else _declared(mask))
    scope.parts.append(part)


def _add_block(scope: _Scope, head: _Part, body: _Part) -> None:
    """The body of a function or class, if what is before it has its name, and nothing that calls it unseen."""
    mask = scope.code.mask[slice(*head)]
    names, words = _declared(mask), _words(mask)
    first = re.match(rf"\s*({WORD})?", mask)
    class_name = _class_name(scope.code, mask, body)
    if class_name:
        scope.functions.append(({class_name}, body))
        words -= {class_name}
    elif names == {_MODULE}:
        scope.functions += _bindings(scope.code, body)
    elif not re.search(_OTHERS, _outside_brackets(mask)) and names - {first[1] if first else None}:
        scope.functions.append((names, body))
        words -= names
    else:
        words |= _words(scope.code.mask[slice(*body)])
        scope.parts.append(body)
    scope.words |= words
    scope.parts.append(head)


def _class_name(code: Code, head: str, body: _Part) -> str:
    """The name of a class without which nothing of its body runs; "" for anything else."""
    found = _CLASS.fullmatch(_outside_brackets(head))
    ends = re.compile(r"\s*;").match(code.mask, body[1])
    return found[1] if found and ends and not _UNNAMED.search(code.mask, *body) else ""


def _bindings(code: Code, body: _Part) -> Iterator[tuple[set[str], _Part]]:
    """The statements of a module's definition, each as a function by the names under which it binds others; "" if they
    are not certain."""
    start, end = body
    for statement in re.compile(r"[^;]*;").finditer(code.mask, start + 1, end - 1):
        text = code.text[slice(*statement.span())]
        bound = [found[1] for found in _BINDING.finditer(text)]
        is_certain = bound and all(bound) and len(re.findall(r"\bdef\b", statement[0])) == len(bound)
        yield set(bound) if is_certain else {""}, statement.span()


def _declared(mask: str) -> set[str]:
    """The words before brackets that are within no other brackets: a function's name is among them."""
    return set(re.findall(rf"({WORD})\s*\(", _outside_brackets(mask)))


def _outside_brackets(mask: str) -> str:
    """What is outside of all brackets and of a template's parameters; of brackets the first sign is kept."""
    found, depth, angles, sign = "", 0, 0, re.compile(r"\btemplate\s*(<)|->|>>>|.", re.DOTALL)
    for part in sign.finditer(mask):
        if part[1] or (part[0] == "<" and angles):
            angles += 1
        elif part[0] == ">" and angles:
            angles -= 1
        elif not angles and depth == 0:
            found += part[0]
        depth += (part[0] in OPENING) - (part[0] in CLOSING)
    return found


def _words(mask: str) -> set[str]:
    return set(re.findall(WORD, mask))
