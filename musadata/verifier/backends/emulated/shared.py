"""`__shared__` declarations into references to slots of the running block's shared memory.

Each declaration gets a static slot beside it, so that every instantiation of a template has memory of its own, as in
CUDA. Dynamic shared memory becomes a pointer; at file scope, where a pointer cannot be recomputed, a macro.
"""

import re
from dataclasses import dataclass

from musadata.cpp import ALIGNMENT, Code, Edit

_PREFIX = re.compile(r"\b(extern|static|volatile|const)\Z")
_ALIGNED = re.compile(rf"\b(?:{'|'.join(ALIGNMENT)})\Z")
_CLOSED = re.compile(r"\)\Z")
_TYPE = re.compile(r"\s*(struct|union|class)\b\s*([\w$]*)")
_NAME = re.compile(r"([\w$]+)\Z")
_SIZE = re.compile(r"\[([^\[\]]*>[^\[\]]*)\]")


@dataclass(frozen=True)
class _Variable:
    type: str
    name: str
    dimensions: str


def rewrite_shared(code: Code) -> Code:
    """The code with every `__shared__` declaration replaced."""
    edits: list[Edit] = []
    at_file_scope: dict[str, str] = {}
    for found, is_at_file_scope in code.scoped(r"\b__shared__\b"):
        if (edits and found.start() < edits[-1][1]) or code.in_directive(found.start()):
            continue
        start, prefixes = _take_prefixes(code, found.start())
        end = code.outside(";", found.end())
        text = _declare(code[found.end() : end], prefixes, is_at_file_scope, at_file_scope, code.line(end))
        if "\n#define" not in text:
            text += code.lines(start, end + 1)[text.count("\n") :]
        edits.append((start, end + 1, text))
    return code.edited(edits)


def _take_prefixes(code: Code, place: int) -> tuple[int, list[str]]:
    """Where the qualifiers before `__shared__` begin, and those that are words."""
    prefixes: list[str] = []
    while True:
        prefix, closed = code.before(place, _PREFIX), code.before(place, _CLOSED)
        if prefix:
            prefixes.append(prefix[1])
            place = prefix.start()
        elif closed:
            aligned = code.before(code.opening(closed.start()), _ALIGNED)
            if aligned is None:
                return place, prefixes
            place = aligned.start()
        else:
            return place, prefixes


def _declare(
    declared: Code, prefixes: list[str], at_file_scope: bool, file_scope_names: dict[str, str], line: int
) -> str:
    declared = declared.without_alignment()  # every slot is aligned to 16 bytes or more
    words = list(declared.find(r"\b(?:extern|static|volatile)\b"))
    prefixes = [*prefixes, *(word[0] for word in words)]
    definition, base, rest = _split_definition(declared.edited((*word.span(), "") for word in words), line)
    texts = [definition]
    for variable in _variables(rest, base):
        type_ = ("volatile " if "volatile" in prefixes else "") + variable.type
        if "extern" in prefixes or variable.dimensions.replace(" ", "") == "[]":
            element = type_ + variable.dimensions.partition("]")[2]  # `[][4]` is a pointer to `[4]`
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


def _split_definition(declared: Code, line: int) -> tuple[str, str, Code]:
    """`struct {...} name` into the definition of a named type, the type's name, and what is declared."""
    kind, brace = _TYPE.match(declared.mask), declared.mask.find("{")
    if kind is None or brace < 0:
        return "", "", declared
    name, end = kind[2] or f"emulator_shared_type_{line}", declared.closing(brace) + 1
    return f"{kind[1]} {name} {declared[brace:end]};", name, declared[end:]


def _variables(declared: Code, base: str) -> list[_Variable]:
    first, *others = declared.split_commas()
    variable = _variable(first, base)
    return [variable, *(_variable(part, variable.type.rstrip("*& \n\t")) for part in others)]


def _variable(declarator: Code, base: str) -> _Variable:
    end = next(declarator.outside_angles("["), len(declarator.mask))
    name = declarator.before(end, _NAME)
    if name is None:
        return _Variable(base, "", "")
    type_ = f"{base} {declarator[: name.start()]}".strip()
    # `[N >> 2]` as `[(N >> 2)]`, since it becomes part of a template's argument.
    return _Variable(type_, name[1], _SIZE.sub(r"[(\1)]", str(declarator[end:])).strip())
