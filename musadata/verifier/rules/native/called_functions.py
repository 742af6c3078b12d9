"""Which functions of an extension's C++ a candidate's program can reach, so that others are not held against it.

Works on tokens and by name alone: whatever is not certainly the body of a function that is never named counts as
reached, which includes methods of classes, macros, initialisers and registrations.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from musadata.verifier.compilation.lexer import CLOSING, OPENING, Kind, Token, Unbalanced, closing_index, split

_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_COMPUTES_NAMES = {"getattr", "__getattr__", "__getattribute__", "__dict__", "vars", "attrgetter", "methodcaller"}
_OTHERS = ("struct", "class", "union", "enum", "__attribute__")
_MODULE = "PYBIND11_MODULE"
_PLAIN = re.compile(r'"\w+"')


@dataclass
class _Scope:
    """What a source holds outside of its functions: words, and lines; and the functions, by their possible names."""

    words: set[str] = field(default_factory=set)
    lines: set[int] = field(default_factory=set)
    functions: list[tuple[set[str], Sequence[Token]]] = field(default_factory=list)


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
    waiting = [function for scope in scopes for function in scope.functions]
    reached = {"", *called}.union(*(scope.words for scope in scopes))
    while new := [one for one in waiting if one[0] & reached]:
        waiting = [one for one in waiting if not one[0] & reached]
        reached |= {word for _, body in new for word in _words(body)}
    unreached = {id(body) for _, body in waiting}
    return [_lines_of(scope, unreached) for scope in scopes]


def _lines_of(scope: _Scope, unreached: set[int]) -> frozenset[int]:
    lines: dict[bool, set[int]] = {False: set(), True: set(scope.lines)}
    for _, body in scope.functions:
        lines[id(body) not in unreached] |= {token.line for token in body}
    return frozenset(lines[False] - lines[True])


def _read(source: str) -> _Scope:
    """A source's functions, and what is outside of them.

    Raises:
        Unbalanced: a bracket is never closed.
    """
    scope = _Scope()
    for directive in _DIRECTIVE.finditer(source):
        scope.words |= _words(split(directive[0]))
    plain = _DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), source)
    tokens = [token for token in split(plain) if token.kind is not Kind.SPACE]
    head, index = 0, 0
    while index < len(tokens):
        text = tokens[index].text
        if text in ("(", "["):
            index = closing_index(tokens, index)
        elif text in (";", "}"):
            _add_statement(scope, tokens[head : index + 1])
            head = index + 1
        elif text == "{":
            if _opens_scope(tokens[head:index]):
                head = index + 1
            else:
                end = closing_index(tokens, index)
                _add_block(scope, tokens[head:index], tokens[index : end + 1])
                index, head = end, end + 1
        index += 1
    _add_statement(scope, tokens[head:])
    return scope


def _opens_scope(head: Sequence[Token]) -> bool:
    words = [token.text for token in head]
    return "namespace" in words or words == ["extern", '"C"']


def _add_statement(scope: _Scope, tokens: Sequence[Token]) -> None:
    """A declaration names what it declares, and does not call it."""
    declared = set() if any(token.is_sign("=") for token in tokens) else _declared(tokens)
    scope.words |= _words(tokens) - declared
    scope.lines |= {token.line for token in tokens}


def _add_block(scope: _Scope, head: Sequence[Token], body: Sequence[Token]) -> None:
    """A function's body, if what is before it has a type and a name, and nothing that calls it unseen."""
    names, outer = _declared(head), _outside_brackets(head)
    is_plain = not any(token.is_sign("=") or token.is_sign("[") or token.is_word(*_OTHERS) for token in outer)
    if names == {_MODULE}:
        scope.functions += _bindings(body)
    elif is_plain and names - {head[0].text}:
        scope.functions.append((names, body))
        head = [token for token in head if token.text not in names]
    else:
        head = [*head, *body]
    scope.words |= _words(head)
    scope.lines |= {token.line for token in head}


def _bindings(body: Sequence[Token]) -> Iterator[tuple[set[str], Sequence[Token]]]:
    """The statements of a module's definition, each as a function by the names under which it binds others."""
    statement: list[Token] = []
    for token in body[1:-1]:
        statement.append(token)
        if token.is_sign(";"):
            yield _bound(statement), statement
            statement = []


def _bound(statement: Sequence[Token]) -> set[str]:
    """The names that a statement binds; "" if they are not certain."""
    texts = [token.text for token in statement]
    named = [texts[at + 2 : at + 4] for at in range(len(texts)) if texts[at : at + 2] == ["def", "("]]
    certain = all(len(two) == 2 and _PLAIN.fullmatch(two[0]) and two[1] == "," for two in named)
    return {two[0].strip('"') for two in named} if named and certain and texts.count("def") == len(named) else {""}


def _declared(tokens: Sequence[Token]) -> set[str]:
    """The words before brackets that are within no other brackets: a function's name is among them."""
    outer = _outside_brackets(tokens)
    return {before.text for before, token in pairwise(outer) if token.is_sign("(") and before.kind is Kind.WORD}


def _outside_brackets(tokens: Sequence[Token]) -> list[Token]:
    """Tokens outside of all brackets and of a template's parameters; of brackets the first sign is kept."""
    found, depth, angles = [], 0, 0
    for before, token in pairwise([None, *tokens]):
        assert token is not None
        if token.is_sign("<") and (angles or (before is not None and before.is_word("template"))):
            angles += 1
        elif token.is_sign(">") and angles:
            angles -= 1
        elif not angles and depth == 0:
            found.append(token)
        if token.kind is Kind.SIGN:
            depth += (token.text in OPENING) - (token.text in CLOSING)
    return found


def _words(tokens: Sequence[Token]) -> set[str]:
    return {token.text for token in tokens if token.kind is Kind.WORD}
