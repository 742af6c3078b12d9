"""The operands of PTX instructions, as C++."""

from collections.abc import Callable
from dataclasses import dataclass

TYPES = {
    "b8": "uint8_t", "u8": "uint8_t", "s8": "int8_t", "b16": "uint16_t", "u16": "uint16_t", "s16": "int16_t",
    "b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t", "b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t",
    "f32": "float", "f64": "double", "f16": "__half", "bf16": "__nv_bfloat16", "f16x2": "__half2",
    "bf16x2": "__nv_bfloat162", "pred": "bool",
}  # fmt: skip
SPECIAL = {
    **{f"%tid.{axis}": f"threadIdx.{axis}" for axis in "xyz"},
    **{f"%ntid.{axis}": f"blockDim.{axis}" for axis in "xyz"},
    **{f"%ctaid.{axis}": f"blockIdx.{axis}" for axis in "xyz"},
    **{f"%nctaid.{axis}": f"gridDim.{axis}" for axis in "xyz"},
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
FLOATS = ("f32", "f64")
PACKED = ("f16", "bf16", "f16x2", "bf16x2")
WIDER = {"u16": "uint32_t", "s16": "int32_t", "u32": "uint64_t", "s32": "int64_t",
          "u64": "unsigned __int128", "s64": "__int128"}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """One value as C++, or those between braces; `is_address`: what stood between brackets."""

    values: tuple[str, ...]
    is_address: bool = False

    @property
    def text(self) -> str:
        return self.values[0]


# From the opcode's modifiers and the operands to a statement; it raises an error if PTX has no such form.
Writer = Callable[[list[str], list[Operand]], str]


def read(operand: Operand, cpp: str) -> str:
    (value,) = operand.values
    return f"emulator::ptx::as<{cpp}>({value})"


def put(operand: Operand, value: str) -> str:
    (target,) = operand.values
    return "(void)0" if target == "_" else f"emulator::ptx::put({target}, {value})"


def put_all(targets: Operand, value: str) -> str:
    puts = " ".join(
        f"emulator::ptx::put({target}, emulator_made.at[{i}]);"
        for i, target in enumerate(targets.values)
        if target != "_"
    )
    return f"{{ const auto emulator_made = {value}; {puts} }}"


def listed(operand: Operand, cpp: str) -> str:
    return ", ".join(f"emulator::ptx::as<{cpp}>({value})" for value in operand.values)
