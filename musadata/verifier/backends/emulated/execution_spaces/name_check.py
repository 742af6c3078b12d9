"""Whether a CUDA source may use a function or variable where it does not exist: on the device, or on the host.

For most sources the names alone show that they do not: nothing that kernels mention is declared for the host. The
others are given to a front end that knows CUDA, which takes fifty times as long.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from musadata.verifier.compilation.declarations import ALIGNMENT
from musadata.verifier.compilation.lexer import (
    CLOSING,
    OPENING,
    Kind,
    Token,
    Unbalanced,
    closing_index,
    skip_space,
    split,
)
from musadata.verifier.rules.name_lists import read_name_lists

_DEVICE = frozenset({"__global__", "__device__"})
_MEMORY = frozenset({"__device__", "__constant__", "__managed__", "__shared__"})
_CLASSES = ("struct", "class", "union")
_NO_DECLARATIONS = frozenset({"using", "typedef", "friend", "static_assert", "enum", "asm", "public", "private"})
_ATTRIBUTES = frozenset(
    {*ALIGNMENT, "__launch_bounds__", "__maxnreg__", "noexcept", "explicit", "requires", "decltype"}
)
_NUMBERS = frozenset({
    "bool", "char", "short", "int", "long", "unsigned", "float", "double", "size_t", "int64_t", "int32_t", "uint32_t",
    "uint64_t",
})  # fmt: skip
_LIBRARIES = read_name_lists(Path(__file__).with_name("names.txt"))  # see the comments there
HOST_LIBRARY, DEVICE_LIBRARY = frozenset(_LIBRARIES["host"]), frozenset(_LIBRARIES["device"])
_NOT_ON_DEVICES = frozenset({"throw", "try", "catch", "typeid", "dynamic_cast"})


@dataclass
class _Names:
    """How a source's declarations use its names.

    Attributes:
        macros: what each mentions.
        device: what the code of kernels and device functions mentions.
        host, called_by_host: what functions of the host mention, and what of it a bracket follows.
        launched: what stands before `<<<`.
        kernels, device_functions, host_functions, host_variables: what is declared.
        undecided: something that names alone do not decide.
    """

    macros: dict[str, set[str]] = field(default_factory=dict)
    device: set[str] = field(default_factory=set)
    host: set[str] = field(default_factory=set)
    called_by_host: set[str] = field(default_factory=set)
    launched: set[str] = field(default_factory=set)
    kernels: set[str] = field(default_factory=set)
    device_functions: set[str] = field(default_factory=set)
    host_functions: set[str] = field(default_factory=set)
    host_variables: set[str] = field(default_factory=set)
    undecided: bool = False


def may_mix_spaces(sources: Sequence[str]) -> bool:
    """Whether a front end has to read the sources; False only if nothing in them can be wrong."""
    names = _Names()
    try:
        for source in sources:
            tokens = split(source)
            _note_macros(tokens, names)
            program = _without_space(tokens)
            _note_launches(program, names)
            _read_scope(program, names, in_class=False)
    except Unbalanced:
        return True
    device, host = _expanded(names.device, names.macros), _expanded(names.host, names.macros)
    return bool(
        names.undecided
        or device & (names.host_functions | names.host_variables | names.kernels | _NOT_ON_DEVICES | HOST_LIBRARY)
        or host & (names.device_functions | DEVICE_LIBRARY)
        or names.called_by_host & names.kernels
        or names.launched & names.host_functions
    )


def _note_macros(tokens: Sequence[Token], names: _Names) -> None:
    macro: set[str] | None = None
    for index, token in enumerate(tokens):
        if token.is_word("define") and index and tokens[index - 1].is_sign("#"):
            name = tokens[min(skip_space(tokens, index + 1), len(tokens) - 1)].text
            macro = names.macros.setdefault(name, set())
        elif _ends_line(token):
            macro = None
        elif macro is not None and token.kind is Kind.WORD:
            macro.add(token.text)


def _expanded(words: set[str], macros: dict[str, set[str]]) -> set[str]:
    """The words with those of the macros among them, and of the macros among those."""
    known, new = set(words), words & macros.keys()
    while new:
        found = set().union(*(macros[name] for name in new)) - known
        known |= found
        new = found & macros.keys()
    return known


def _without_space(tokens: Sequence[Token]) -> list[Token]:
    """The tokens of the program alone, without directives."""
    kept: list[Token] = []
    in_directive = False
    for index, token in enumerate(tokens):
        if token.kind is Kind.SPACE:
            in_directive = in_directive and not _ends_line(token)
            continue
        if token.is_sign("#") and _begins_line(tokens, index):
            in_directive = True
        if not in_directive:
            kept.append(token)
    return kept


def _ends_line(token: Token) -> bool:
    """Whether a line of the program ends here: one that is continued does not, nor does one in a comment."""
    return token.kind is Kind.SPACE and "\n" in token.text and token.text[0] not in "\\/"


def _begins_line(tokens: Sequence[Token], index: int) -> bool:
    return index == 0 or (tokens[index - 1].kind is Kind.SPACE and (index == 1 or "\n" in tokens[index - 1].text))


def _note_launches(tokens: Sequence[Token], names: _Names) -> None:
    for index, token in enumerate(tokens):
        before = index - 1
        while token.is_sign("<<<") and before >= 0 and tokens[before].text not in (";", "{", "}", ")"):
            names.launched.add(tokens[before].text)
            before -= 1


def _read_scope(tokens: Sequence[Token], names: _Names, *, in_class: bool) -> None:
    """Note the declarations of a namespace or class."""
    for head, body in _statements(tokens):
        words = {token.text for token in head if token.kind is Kind.WORD}
        if not head or words & _NO_DECLARATIONS:
            names.device.update(_words(body))
            continue
        if words & {"namespace", "extern"} and _parameters(head) is None and (body or "namespace" in words):
            _read_scope(body, names, in_class=False)
            continue
        if words.intersection(_CLASSES) and body and _parameters(head) is None:
            _read_scope(body, names, in_class=True)
            continue
        _note_declaration(head, body, words, names, in_class=in_class)


def _note_declaration(
    head: Sequence[Token], body: Sequence[Token], words: set[str], names: _Names, *, in_class: bool
) -> None:
    parameters = _parameters(head)
    mentioned = _words(body) | words
    if parameters is None:
        if not (words & _MEMORY or _is_constant(head, words)):
            names.host_variables |= words if not in_class or "static" in words else set()
        names.device |= _words(body)
        return
    name = head[parameters - 1]
    if words & _DEVICE:
        names.undecided |= _has_variable_length(body, _words(head[parameters:]))
        names.device |= mentioned - {name.text}
        if "__host__" in words:
            names.host |= mentioned - {name.text}
        if "__global__" in words:
            names.kernels.add(name.text)
            names.undecided |= in_class or _is_unusual_kernel(head, parameters, words)
        elif "__host__" not in words:
            names.device_functions.add(name.text)
    elif "constexpr" in words or "consteval" in words:
        names.device |= mentioned - {name.text}
        names.host |= mentioned - {name.text}
    else:
        names.host |= mentioned - {name.text}
        names.called_by_host |= _called(body)
        names.host_functions.add(name.text)
        names.undecided |= bool(_words(body) & _DEVICE)  # a lambda for the device
        # Whose member it is, or between what an operator stands, only types say.
        is_given = any(token.is_word("default", "delete") for token in head)
        names.undecided |= (in_class and not is_given) or "operator" in words


def _statements(tokens: Sequence[Token]) -> Iterator[tuple[Sequence[Token], Sequence[Token]]]:
    """Every declaration of a scope: what stands before its braces or semicolon, and what stands in the braces."""
    start = index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.is_sign(";"):
            yield tokens[start:index], ()
            start = index + 1
        elif token.is_sign("{"):
            end = closing_index(tokens, index)
            yield tokens[start:index], tokens[index + 1 : end]
            start, index = end + 1, end
        elif token.kind is Kind.SIGN and token.text in OPENING:
            index = closing_index(tokens, index)
        elif token.kind is Kind.SIGN and token.text in CLOSING:
            raise Unbalanced(f"bracket {token.text} on line {token.line} was never opened")
        index += 1
    yield tokens[start:], ()


def _parameters(head: Sequence[Token]) -> int | None:
    """Index of the bracket that opens a function's parameters, or None if something else is declared."""
    index = 0
    while index < len(head):
        token = head[index]
        if token.is_sign("="):
            return None
        if token.is_sign("("):
            if index and head[index - 1].kind is Kind.WORD and head[index - 1].text not in _ATTRIBUTES:
                return index
            if index > 1 and any(before.is_word("operator") for before in head[max(0, index - 4) : index]):
                return index
            index = closing_index(head, index)
        elif token.is_sign("["):  # an attribute, or the length of an array
            index = closing_index(head, index)
        index += 1
    return None


def _is_constant(head: Sequence[Token], words: set[str]) -> bool:
    """Whether a single number is declared that a device may know, too."""
    is_plain = not any(token.kind is Kind.SIGN and token.text in "[*&" for token in head)
    return is_plain and bool(words & {"const", "constexpr"}) and bool(words & _NUMBERS)


def _is_unusual_kernel(head: Sequence[Token], parameters: int, words: set[str]) -> bool:
    """Whether a kernel is declared as none may be, or nearly so."""
    is_marked = "void" not in words or bool(words & {"__device__", "__host__", "constexpr", "consteval", "auto"})
    given = "".join(token.text for token in head[parameters : closing_index(head, parameters) + 1])
    return is_marked or "&&" in given or "...)" in given


def _has_variable_length(body: Sequence[Token], parameters: set[str]) -> bool:
    """Whether an array is declared as long as a parameter says."""
    for index, token in enumerate(body):
        is_declared = index > 1 and body[index - 2].text in _NUMBERS and body[index - 1].kind is Kind.WORD
        if token.is_sign("[") and is_declared and _words(body[index : closing_index(body, index)]) & parameters:
            return True
    return False


def _called(tokens: Sequence[Token]) -> set[str]:
    return {token.text for token, after in pairwise(tokens) if token.kind is Kind.WORD and after.is_sign("(")}


def _words(tokens: Sequence[Token]) -> set[str]:
    return {token.text for token in tokens if token.kind is Kind.WORD}
