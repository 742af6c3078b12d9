"""Whether a CUDA source may use a function or variable where it does not exist: on the device, or on the host.

For most sources the names alone show that they do not: nothing that kernels mention is declared for the host. The
others are given to a front end that knows CUDA, which takes fifty times as long.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from musadata.cpp import ALIGNMENT, WORD, Code, Unbalanced
from musadata.verifier.rules.name_lists import read_name_lists

_DEVICE = frozenset({"__global__", "__device__"})
_MEMORY = frozenset({"__device__", "__constant__", "__managed__", "__shared__"})
_CLASSES = ("struct", "class", "union")
_NO_DECLARATIONS = frozenset({"using", "typedef", "friend", "static_assert", "enum", "asm", "public", "private"})
_ATTRIBUTES = frozenset(
    {*ALIGNMENT, "__launch_bounds__", "__maxnreg__", "noexcept", "explicit", "requires", "decltype"}
)
_NUMBERS = (
    "bool", "char", "short", "int", "long", "unsigned", "float", "double", "size_t", "int64_t", "int32_t", "uint32_t",
    "uint64_t",
)  # fmt: skip
_LAST_WORD = re.compile(rf"\b({WORD})\Z")
_OPERATOR = re.compile(r"\boperator\b(?:\s*[^\w\s]){1,3}\Z")
_ARRAY = rf"\b(?:{'|'.join(_NUMBERS)})\s+{WORD}\s*\["
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
            code = Code(source)
            for define in code.find(rf"#\s*define\s+({WORD})([^\n]*)"):
                names.macros.setdefault(define[1], set()).update(_words(define[2]))
            program = code.without_directives()
            for launch in program.find("<<<"):
                start = max(program.mask.rfind(sign, 0, launch.start()) for sign in ";{})") + 1
                names.launched |= _words(program.mask[start : launch.start()])
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


def _expanded(words: set[str], macros: dict[str, set[str]]) -> set[str]:
    """The words with those of the macros among them, and of the macros among those."""
    known, new = set(words), words & macros.keys()
    while new:
        found = set().union(*(macros[name] for name in new)) - known
        known |= found
        new = found & macros.keys()
    return known


def _read_scope(code: Code, names: _Names, *, in_class: bool) -> None:
    """Note the declarations of a namespace or class."""
    for head, body in _statements(code):
        words, parameters = _words(head.mask), _parameters(head)
        if not head.mask.strip() or words & _NO_DECLARATIONS:
            names.device |= _words(body.mask)
        elif words & {"namespace", "extern"} and parameters is None and (body.mask or "namespace" in words):
            _read_scope(body, names, in_class=False)
        elif words.intersection(_CLASSES) and body.mask and parameters is None:
            _read_scope(body, names, in_class=True)
        elif parameters is None:
            if not (words & _MEMORY or _is_constant(head, words)):
                names.host_variables |= words if not in_class or "static" in words else set()
            names.device |= _words(body.mask)
        else:
            _note_function(head, parameters, body, names, in_class=in_class)


def _note_function(head: Code, parameters: int, body: Code, names: _Names, *, in_class: bool) -> None:
    words, name = _words(head.mask), head.before(parameters, _LAST_WORD)
    own = {name[1] if name else ""}
    mentioned = (_words(body.mask) | words) - own
    if words & _DEVICE:
        names.undecided |= _has_variable_length(body, _words(head.mask[parameters:]))
        names.device |= mentioned
        if "__host__" in words:
            names.host |= mentioned
        if "__global__" in words:
            names.kernels |= own
            names.undecided |= in_class or _is_unusual_kernel(head, parameters, words)
        elif "__host__" not in words:
            names.device_functions |= own
    elif "constexpr" in words or "consteval" in words:
        names.device |= mentioned
        names.host |= mentioned
    else:
        names.host |= mentioned
        names.called_by_host |= {call[1] for call in body.find(rf"({WORD})\s*\(")}
        names.host_functions |= own
        names.undecided |= bool(_words(body.mask) & _DEVICE)  # a lambda for the device
        # Whose member it is, or between what an operator stands, only types say.
        names.undecided |= (in_class and not words & {"default", "delete"}) or "operator" in words


def _statements(code: Code) -> Iterator[tuple[Code, Code]]:
    """Every declaration of a scope: what stands before its braces or semicolon, and what stands in the braces."""
    start, nothing = 0, code[0:0]
    while (at := code.outside(r"[;{)}\]]", start)) < len(code.mask):
        if code.mask[at] == ";":
            yield code[start:at], nothing
            start = at + 1
        elif code.mask[at] == "{":
            end = code.closing(at)
            yield code[start:at], code[at + 1 : end]
            start = end + 1
        else:
            raise Unbalanced(f"bracket {code.mask[at]} was never opened")
    yield code[start:], nothing


def _parameters(head: Code) -> int | None:
    """Where the bracket is that opens a function's parameters, or None if something else is declared."""
    place, sign = 0, re.compile(r"[=(\[]")  # the last of them before an attribute, or the length of an array
    while (found := sign.search(head.mask, place)) and found[0] != "=":
        if found[0] == "(":
            name = head.before(found.start(), _LAST_WORD)
            if (name and name[1] not in _ATTRIBUTES) or head.before(found.start(), _OPERATOR):
                return found.start()
        place = head.closing(found.start()) + 1
    return None


def _is_constant(head: Code, words: set[str]) -> bool:
    """Whether a single number is declared that a device may know, too."""
    return (
        not set("[*&") & set(head.mask) and bool(words & {"const", "constexpr"}) and bool(words.intersection(_NUMBERS))
    )


def _is_unusual_kernel(head: Code, parameters: int, words: set[str]) -> bool:
    """Whether a kernel is declared as none may be, or nearly so."""
    is_marked = "void" not in words or bool(words & {"__device__", "__host__", "constexpr", "consteval", "auto"})
    given = "".join(head.mask[parameters : head.closing(parameters) + 1].split())
    return is_marked or "&&" in given or "...)" in given


def _has_variable_length(body: Code, parameters: set[str]) -> bool:
    """Whether an array is declared as long as a parameter says."""
    arrays = body.find(_ARRAY)
    return any(_words(body.mask[one.end() : body.closing(one.end() - 1)]) & parameters for one in arrays)


def _words(mask: str) -> set[str]:
    return set(re.findall(WORD, mask))
