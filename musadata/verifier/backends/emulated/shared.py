"""`__shared__` declarations into references to slots of the running block's shared memory.

Each declaration gets a static slot beside it, so that every instantiation of a template has memory of its own, as in
CUDA. Dynamic shared memory becomes a pointer; at file scope, where a pointer cannot be recomputed, a macro.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from musadata.verifier.compilation.declarations import ALIGNMENT, declaration_end, in_directive, opens_namespace
from musadata.verifier.compilation.lexer import (
    CLOSING,
    OPENING,
    Kind,
    Token,
    closing_index,
    join,
    opening_index,
    skip_space,
    skip_space_back,
    split_commas,
)

_PREFIXES = ("extern", "static", "volatile", "const")


@dataclass(frozen=True)
class _Variable:
    type: str
    name: str
    dimensions: str


def rewrite_shared(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with every `__shared__` declaration replaced."""
    result: list[Token] = []
    scopes: list[bool] = []  # for each open brace, whether it is a namespace's
    at_file_scope: dict[str, str] = {}
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_sign("{"):
            scopes.append(opens_namespace(result))
        elif token.is_sign("}") and scopes:
            scopes.pop()
        if token.is_word("__shared__") and not in_directive(result):
            prefixes = _take_prefixes(result)
            end = declaration_end(tokens, index + 1)
            text = _declare(tokens[index + 1 : end], prefixes, all(scopes), at_file_scope, tokens[end].line)
            lines = join(tokens[index : end + 1]).count("\n")
            if "\n#define" not in text:
                text += "\n" * (lines - text.count("\n"))
            result.append(Token(Kind.SIGN, text, token.line))
            index = end + 1
            continue
        result.append(token)
        index += 1
    return result


def _take_prefixes(result: list[Token]) -> list[str]:
    """The qualifiers before `__shared__`, which are removed from the result."""
    prefixes: list[str] = []
    while True:
        index = skip_space_back(result, len(result) - 1)
        if index < 0:
            return prefixes
        if result[index].is_word(*_PREFIXES):
            prefixes.append(result[index].text)
            del result[index:]
        elif result[index].is_sign(")"):
            opening = opening_index(result, index)
            name = skip_space_back(result, opening - 1)
            if name < 0 or not result[name].is_word(*ALIGNMENT):
                return prefixes
            del result[name:]
        else:
            return prefixes


def _declare(
    tokens: Sequence[Token], prefixes: list[str], at_file_scope: bool, file_scope_names: dict[str, str], line: int
) -> str:
    definition, rest = _split_definition(_without_qualifiers(tokens, prefixes))
    variables = _variables(rest)
    texts = [definition]
    for variable in variables:
        type_ = ("volatile " if "volatile" in prefixes else "") + variable.type
        if "extern" in prefixes or variable.dimensions.replace(" ", "") == "[]":
            element = type_ + _without_first_dimension(variable.dimensions)
            pointer = f"emulator::dynamic_shared<{element}>()"
            if at_file_scope:
                file_scope_names[variable.name] = element
                texts.append(f"\n#define {variable.name} ({pointer})\n#line {line}\n")
            elif file_scope_names.get(variable.name) != element:
                texts.append(f"auto* const {variable.name} = {pointer};")
        else:
            slot = f"emulator_shared_{variable.name}"
            declaration = f"static emulator::Shared<{type_}{variable.dimensions}> {slot};"
            if at_file_scope:
                texts.append(f"{declaration}\n#define {variable.name} ({slot}.here())\n#line {line}\n")
            else:
                texts.append(f"{declaration} auto& {variable.name} = {slot}.here();")
    return " ".join(text for text in texts if text)


def _without_qualifiers(tokens: Sequence[Token], prefixes: list[str]) -> list[Token]:
    """Alignment goes (every slot is aligned to 16 bytes or more), `extern` and `volatile` are noted."""
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_word(*ALIGNMENT):
            opening = skip_space(tokens, index + 1)
            index = closing_index(tokens, opening) + 1
            continue
        if token.is_word("extern", "static", "volatile"):
            prefixes.append(token.text)
        else:
            kept.append(token)
        index += 1
    return kept


def _split_definition(tokens: list[Token]) -> tuple[str, list[Token]]:
    """`struct {...} name` into the definition of a named type and a declaration that uses it."""
    start = skip_space(tokens, 0)
    if start >= len(tokens) or not tokens[start].is_word("struct", "union", "class"):
        return "", tokens
    brace = next((index for index, token in enumerate(tokens) if token.is_sign("{")), None)
    if brace is None:
        return "", tokens
    end = closing_index(tokens, brace)
    head = join(tokens[start:brace]).split()
    name = head[1] if len(head) > 1 else f"emulator_shared_type_{tokens[start].line}"
    definition = f"{head[0]} {name} {join(tokens[brace : end + 1])};"
    return definition, [Token(Kind.WORD, name, tokens[start].line), Token(Kind.SPACE, " ", 0), *tokens[end + 1 :]]


def _variables(tokens: Sequence[Token]) -> list[_Variable]:
    parts = split_commas(tokens)
    first = _variable(parts[0], "")
    base = first.type.rstrip("*& \n\t")
    return [first] + [_variable(part, base) for part in parts[1:]]


def _variable(tokens: Sequence[Token], base: str) -> _Variable:
    depth = angle = 0
    end = len(tokens)
    for index, token in enumerate(tokens):
        if token.kind is not Kind.SIGN:
            continue
        if token.text == "[" and depth == 0 and angle <= 0:
            end = index
            break
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth == 0:
            angle += {"<": 1, ">": -1, ">>>": -3}.get(token.text, 0)
    name = skip_space_back(tokens, end - 1)
    if name < 0:
        return _Variable(base, "", "")
    type_ = (base + " " + join(tokens[:name])).strip()
    return _Variable(type_, tokens[name].text, _in_parentheses(tokens[end:]).strip())


def _in_parentheses(dimensions: Sequence[Token]) -> str:
    """`[N >> 2]` as `[(N >> 2)]`, since it becomes part of a template's argument."""
    text, index = "", 0
    while index < len(dimensions):
        if not dimensions[index].is_sign("["):
            text += dimensions[index].text
            index += 1
            continue
        close = closing_index(dimensions, index)
        size = join(dimensions[index + 1 : close])
        text += f"[({size})]" if ">" in size else f"[{size}]"
        index = close + 1
    return text


def _without_first_dimension(dimensions: str) -> str:
    """`[][4]` is a pointer to `[4]`."""
    closing = dimensions.find("]")
    return dimensions[closing + 1 :] if closing >= 0 else ""
