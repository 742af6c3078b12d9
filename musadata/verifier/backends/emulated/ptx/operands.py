"""The operands of PTX instructions, as C++."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_BITS = (8, 16, 32, 64)
INTEGERS = {f"{kind}{bits}": f"{'' if kind == 's' else 'u'}int{bits}_t" for kind in "bus" for bits in _BITS}
REALS = {"f32": "float", "f64": "double"}
HALVES = {"f16": "__half", "bf16": "__nv_bfloat16", "f16x2": "__half2", "bf16x2": "__nv_bfloat162"}
TYPES = {**INTEGERS, "pred": "bool", **REALS, **HALVES}
WIDER = {"u16": "uint32_t", "s16": "int32_t", "u32": "uint64_t", "s32": "int64_t",
         "u64": "unsigned __int128", "s64": "__int128"}  # fmt: skip
_PLACES = (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))
SPECIAL = {
    **{f"%{name}.{axis}": f"{variable}.{axis}" for name, variable in _PLACES for axis in "xyz"},
    "%laneid": "emulator::musadata_lane()",
    "%warpid": "emulator::musadata_warp()",
    "%smid": "emulator::ptx::multiprocessor()",
    "%nsmid": "132u",
    "%clock": "static_cast<uint32_t>(clock64())",
    "%clock64": "clock64()",
    "%globaltimer": "__globaltimer()",
    "%globaltimer_lo": "static_cast<uint32_t>(__globaltimer())",
    "%lanemask_lt": "((1u << emulator::musadata_lane()) - 1)",
    "%lanemask_le": "((2u << emulator::musadata_lane()) - 1)",
    "%lanemask_eq": "(1u << emulator::musadata_lane())",
    "%lanemask_ge": "(~0u << emulator::musadata_lane())",
    "%lanemask_gt": "(~1u << emulator::musadata_lane())",
    "WARP_SZ": "32",
}


@dataclass(frozen=True)
class Operand:
    """One value as C++, or those between braces; `is_address`: what stood between brackets."""

    values: tuple[str, ...]
    is_address: bool = False

    @property
    def text(self) -> str:
        """The value; a ValueError if there are several."""
        (value,) = self.values
        return value


# From the opcode's modifiers and the operands to a statement; it raises an error if PTX has no such form.
Writer = Callable[[list[str], list[Operand]], str]


def listed(operand: Operand, cpp: str) -> str:
    """Its values, read as a type of C++."""
    return ", ".join(f"emulator::ptx::as<{cpp}>({value})" for value in operand.values)


def read(operand: Operand, cpp: str) -> str:
    """The same of one value."""
    return listed(Operand((operand.text,)), cpp)


def put(operand: Operand, value: str) -> str:
    """A statement that stores a value; nothing for `_`, a result that is not used."""
    return "(void)0" if operand.text == "_" else f"emulator::ptx::put({operand.text}, {value})"


def put_parts(targets: Operand, value: str, parts: Sequence[str]) -> str:
    """A statement that stores parts of a value, which they call `emulator_made`."""
    puts = [f"{put(Operand((to,)), part)};" for to, part in zip(targets.values, parts, strict=True) if to != "_"]
    return f"{{ const auto emulator_made = {value}; {' '.join(puts)} }}"


def put_all(targets: Operand, value: str) -> str:
    """The same with all of a vector."""
    return put_parts(targets, value, [f"emulator_made.at[{at}]" for at in range(len(targets.values))])
