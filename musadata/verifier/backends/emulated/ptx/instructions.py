"""PTX instructions and what they are in C++: opcode and operands in, a statement out."""

import re
from collections.abc import Sequence

from musadata.verifier.backends.emulated.ptx import arithmetic, memory, warps
from musadata.verifier.backends.emulated.ptx.operands import Operand, Writer, put

# Instructions that change the speed only.
_NO_EFFECT = re.compile(
    r"(prefetchu?|applypriority|griddepcontrol|setmaxnreg)\b.*"
    r"|(membar|fence)\.cta|fence\.\w+\.cta|fence\.proxy\..*"
)
_FENCE = re.compile(r"(membar|fence)\.(.*\.)?(gl|gpu|sys|cluster)")


def statement(opcode: str, operands: Sequence[Operand]) -> str:
    """A statement of C++ without its semicolon; nothing if the instruction is not known."""
    if _NO_EFFECT.fullmatch(opcode):
        return "(void)0"
    if _FENCE.fullmatch(opcode):
        return "emulator::musadata_note_fence()"
    name, *modifiers = opcode.split(".")
    handler = _HANDLERS.get(name)
    try:
        return handler(modifiers, list(operands)) if handler else ""
    except (IndexError, KeyError, ValueError):
        return ""  # PTX has no such form


_ARITHMETIC = (
    "add", "sub", "mul", "div", "rem", "fma", "min", "max", "and", "or", "xor", "not", "cnot", "neg", "abs", "rcp",
    "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "copysign",
)  # fmt: skip
_HANDLERS: dict[str, Writer] = {
    **{name: arithmetic.arithmetic(name) for name in _ARITHMETIC},
    "mad": arithmetic.multiply_add,
    "ld": memory.load,
    "ldu": memory.load,
    "st": memory.store,
    "atom": memory.atomic,
    "red": memory.reduction,
    "cp": memory.copy_async,
    "createpolicy": memory.policy,
    "cvta": memory.convert_address,
    "mov": arithmetic.move,
    "setp": arithmetic.compare,
    "selp": arithmetic.select,
    "shl": arithmetic.shift("shift_left"),
    "shr": arithmetic.shift("shift_right"),
    "bfe": arithmetic.words("emulator::ptx::extract", "[us](32|64)", "", "uint32_t"),
    "bfi": arithmetic.words("emulator::ptx::insert", "b(32|64)", "", "", "uint32_t"),
    "prmt": arithmetic.words("emulator::ptx::permute", "b32", "uint32_t"),
    "lop3": arithmetic.words("emulator::ptx::look_up", "b32", "uint32_t"),
    "dp4a": arithmetic.words("__dp4a", r"([us]32)\.\1", ""),
    "popc": arithmetic.count("__popc"),
    "clz": arithmetic.count("__clz"),
    "brev": arithmetic.count("__brev"),
    "shf": arithmetic.funnel,
    "cvt": arithmetic.convert,
    "bar": warps.barrier,
    "barrier": warps.barrier,
    "shfl": warps.shuffle,
    "vote": warps.vote,
    "match": warps.match,
    "redux": warps.reduce,
    "activemask": lambda modifiers, operands: put(operands[0], "__activemask()"),
    "ldmatrix": warps.load_matrix,
    "mma": warps.multiply,
    "nanosleep": lambda modifiers, operands: "__nanosleep(0)",
    "trap": lambda modifiers, operands: "__trap()",
}
