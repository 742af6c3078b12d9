"""Registering `__device__` and `__constant__` variables as memory of the device.

For the compiler that replaces nvcc they are variables of the host, which host code could read and write. On a device,
host code would access a copy of its own, which no kernel sees.
"""

import re

from musadata.cpp import WORD, Code, Edit

# Declarations without a definition or an address, and variables that the host may read as well.
_EXCLUDED = frozenset({
    "extern", "const", "constexpr", "template", "typedef", "using", "friend", "operator",
    "__managed__", "__shared__", "__global__",
})  # fmt: skip
_TYPES = frozenset({"struct", "union", "class", "enum"})
_WORD = re.compile(WORD)
_END_OF_NAME = re.compile(r"[=\[{(]")


def announce_variables(code: Code) -> Code:
    """The code with a call after each such definition at namespace scope, on its line."""
    edits: list[Edit] = []
    plain = code.without_directives()
    for found, is_at_file_scope in plain.scoped(r"\b__(?:device|constant)__\b"):
        if not is_at_file_scope or (edits and found.start() < edits[-1][1]):
            continue
        start, end = found.end(), code.outside(";", found.end())
        before = plain.mask[max(plain.mask.rfind(sign, 0, start) for sign in ";{}") + 1 : start]
        names = (
            [] if _EXCLUDED.intersection(_WORD.findall(before)) else list(map(_name, code[start:end].split_commas()))
        )
        if names and all(names) and end < len(code.mask):
            constant = "__constant__" in code.mask[found.start() : end]
            text = " ".join(_announce(name) + (_limit(name) if constant else "") for name in names)
            edits.append((end + 1, end + 1, text))
    return code.edited(edits)


def _announce(name: str) -> str:
    return f" static const int emulator_of_{name} = emulator::announce_variable((const void*)&{name}, sizeof({name}));"


def _limit(name: str) -> str:
    return f' static_assert(sizeof({name}) <= 65536, "there are 64 KB of __constant__ memory");'


def _name(declarator: Code) -> str:
    """The last word before the initialiser; empty for a function, a type and excluded declarations."""
    mask = declarator.without_alignment().mask
    end = _END_OF_NAME.search(mask)
    words = _WORD.findall(mask[: end.start()] if end else mask)
    opens_type = end is not None and end[0] == "{" and not _TYPES.isdisjoint(words)
    is_other = not words or not _EXCLUDED.isdisjoint(words) or opens_type or (end is not None and end[0] == "(")
    return "" if is_other else words[-1]
