"""PTX instructions that load, store, add atomically and copy."""

import re
from collections.abc import Sequence

from musadata.verifier.backends.emulated.ptx.operands import TYPES, Operand, listed, put, put_all, read

_HINTS = re.compile(r"nc|ca|cg|cs|cv|lu|wb|wt|weak|volatile|L1::\w+|L2::\w+|cta|gpu|sys|global|shared(::cta)?")
_ATOMIC = ("relaxed", "acquire", "release", "acq_rel")


def place(operand: Operand, modifiers: Sequence[str]) -> str:
    if not operand.is_address:
        raise ValueError
    space = "shared" if any(modifier in ("shared", "shared::cta") for modifier in modifiers) else "global"
    return f"emulator::ptx::{space}({operand.text})"


def _access(name: str, modifiers: Sequence[str], values: Operand) -> tuple[str, str]:
    """Type of the elements, and the function that loads or stores as many as `values` has."""
    *middle, kind = modifiers
    count, atomic = 1, False
    for modifier in middle:
        if modifier in ("v2", "v4", "v8"):
            count = int(modifier[1])
        elif modifier in _ATOMIC:  # other threads may access it at the same time
            atomic = True
        elif not _HINTS.fullmatch(modifier):
            raise ValueError
    if len(values.values) != count or (atomic and count > 1):
        raise ValueError
    cpp = TYPES[kind]
    return cpp, f"emulator::ptx::{name}_atomic<{cpp}>" if atomic else f"emulator::ptx::{name}<{cpp}, {count}>"


def load(modifiers: list[str], operands: list[Operand]) -> str:
    target, address = operands[:2]
    _, function = _access("load", modifiers, target)
    return put_all(target, f"{function}({place(address, modifiers)})")


def store(modifiers: list[str], operands: list[Operand]) -> str:
    address, source = operands[:2]
    cpp, function = _access("store", modifiers, source)
    fence = "emulator::musadata_note_fence(), " if "release" in modifiers else ""
    return f"{fence}{function}({place(address, modifiers)}, {{{{{listed(source, cpp)}}}}})"


_OF_ATOMICS = re.compile(
    r"global|shared(::cta)?|relaxed|acquire|release|acq_rel|cta|gpu|sys|noftz|v[24]|L2::cache_hint"
)
_ATOMIC_FUNCTIONS = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "and": "atomicAnd", "or": "atomicOr",
    "xor": "atomicXor", "exch": "atomicExch", "inc": "atomicInc", "dec": "atomicDec", "cas": "atomicCAS",
}  # fmt: skip


def atomic(modifiers: list[str], operands: list[Operand]) -> str:
    cpp = TYPES[modifiers[-1]]
    if not all(word in _ATOMIC_FUNCTIONS or _OF_ATOMICS.fullmatch(word) for word in modifiers[:-1]):
        return ""
    (function,) = [_ATOMIC_FUNCTIONS[modifier] for modifier in modifiers if modifier in _ATOMIC_FUNCTIONS]
    target, address, *values = operands
    vector = next((int(modifier[1]) for modifier in modifiers if modifier in ("v2", "v4")), 1)
    if vector > 1:
        return _vector_atomic(function, cpp, target, place(address, modifiers), values[0])
    fence = "emulator::musadata_note_fence(), " if set(modifiers) & {"release", "acq_rel"} else ""
    inputs = "".join(f", {read(value, cpp)}" for value in values[: 2 if function == "atomicCAS" else 1])
    call = f"emulator::{function}(emulator::ptx::place<{cpp}>({place(address, modifiers)}){inputs})"
    return fence + (call if target.values == ("_",) else put(target, call))


def _vector_atomic(function: str, cpp: str, target: Operand, address: str, source: Operand) -> str:
    if target.values != ("_",):
        raise ValueError
    calls = " ".join(
        f"{function}(emulator::ptx::place<{cpp}>(emulator_to) + {index}, emulator::ptx::as<{cpp}>({value}));"
        for index, value in enumerate(source.values)
    )
    return f"{{ char* const emulator_to = {address}; {calls} }}"


def reduction(modifiers: list[str], operands: list[Operand]) -> str:
    return atomic(modifiers, [Operand(("_",)), *operands])


def copy_async(modifiers: list[str], operands: list[Operand]) -> str:
    if modifiers[:2] not in (["async", "ca"], ["async", "cg"]) or len(operands) < 3:
        return ""
    target, source, *sizes = operands[: len(operands) - ("L2::cache_hint" in modifiers)]
    given = "".join(f", {read(size, 'int')}" for size in sizes)
    return f"emulator::copy_async({read(target, 'uint32_t')}, emulator::ptx::global({source.text}){given})"
