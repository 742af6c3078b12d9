"""Registering `__device__` and `__constant__` variables as memory of the device.

For the compiler that replaces nvcc they are variables of the host, which host code could read and write. On a device,
host code would access a copy of its own, which no kernel sees.
"""

from collections.abc import Sequence

from musadata.verifier.compilation.declarations import ALIGNMENT, declaration_end, in_directive, opens_namespace
from musadata.verifier.compilation.lexer import Kind, Token, closing_index, skip_space_back, split_commas

# Declarations without a definition or an address, and variables that the host may read as well.
_EXCLUDED = frozenset({
    "extern", "const", "constexpr", "template", "typedef", "using", "friend", "operator",
    "__managed__", "__shared__", "__global__",
})  # fmt: skip
_TYPES = ("struct", "union", "class", "enum")


def announce_variables(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with a call after each such definition at namespace scope, on its line."""
    result: list[Token] = []
    scopes: list[bool] = []  # for each open brace, whether it is a namespace's
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_sign("{"):
            scopes.append(opens_namespace(result))
        elif token.is_sign("}") and scopes:
            scopes.pop()
        result.append(token)
        index += 1
        if token.is_word("__device__", "__constant__") and all(scopes) and not in_directive(result):
            end = declaration_end(tokens, index)
            names = _names(_statement_before(result), tokens[index:end])
            if names:
                result += tokens[index : end + 1]
                constant = any(found.is_word("__constant__") for found in (token, *tokens[index:end]))
                text = " ".join(_announce(name) + (_limit(name) if constant else "") for name in names)
                result.append(Token(Kind.SIGN, text, tokens[end].line))
                index = end + 1
    return result


def _announce(name: str) -> str:
    return f" static const int emulator_of_{name} = emulator::announce_variable((const void*)&{name}, sizeof({name}));"


def _limit(name: str) -> str:
    return f' static_assert(sizeof({name}) <= 65536, "there are 64 KB of __constant__ memory");'


def _statement_before(tokens: Sequence[Token]) -> list[Token]:
    """The tokens at the end of `tokens` that belong to the same statement."""
    index = len(tokens) - 1
    while index >= 0 and not (tokens[index].kind is Kind.SIGN and tokens[index].text in ";{}#"):
        index -= 1
    if index >= 0 and tokens[index].is_sign("#"):  # a directive ends with its line
        index = next((at for at in range(index, len(tokens)) if "\n" in tokens[at].text), len(tokens))
    return list(tokens[index + 1 :])


def _names(before: Sequence[Token], rest: Sequence[Token]) -> list[str]:
    """The variables of a declaration, none if it declares something else. `rest` ends before its semicolon."""
    if any(token.text in _EXCLUDED for token in before if token.kind is Kind.WORD):
        return []
    names = [_name(part) for part in split_commas(rest)]
    return [name for name in names if name] if all(names) else []


def _name(declarator: Sequence[Token]) -> str:
    """The last word before the initialiser; empty for a function and for excluded declarations."""
    name = ""
    index = 0
    while index < len(declarator):
        token = declarator[index]
        if token.kind is Kind.SIGN and token.text in "=[{":
            break
        if token.is_sign("("):
            before = skip_space_back(declarator, index - 1)
            if before < 0 or not declarator[before].is_word(*ALIGNMENT):
                return ""
            index = closing_index(declarator, index)
        elif token.text in _EXCLUDED:
            return ""
        elif token.kind is Kind.WORD and not token.is_word(*ALIGNMENT):
            name = token.text
        index += 1
    opens_type = index < len(declarator) and declarator[index].is_sign("{")
    return "" if opens_type and any(token.is_word(*_TYPES) for token in declarator[:index]) else name
