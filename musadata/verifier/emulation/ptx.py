"""Inline PTX into C++, for the few instructions that CUDA C++ has no other word for."""

import re
from collections.abc import Sequence

from musadata.verifier.emulation.errors import Unsupported
from musadata.verifier.lexer import Kind, Token, closing_index, join, split_commas

_SPECIAL = {
    "%laneid": "emulator::musadata_lane()",
    "%warpid": "emulator::musadata_warp()",
    "%tid.x": "threadIdx.x",
    "%tid.y": "threadIdx.y",
    "%tid.z": "threadIdx.z",
    "%ntid.x": "blockDim.x",
    "%ctaid.x": "blockIdx.x",
    "%ctaid.y": "blockIdx.y",
    "%nctaid.x": "gridDim.x",
    "%lanemask_lt": "((1u << emulator::musadata_lane()) - 1)",
}
_UNARY = {
    "ex2.approx.f32": "exp2f",
    "ex2.approx.ftz.f32": "exp2f",
    "lg2.approx.f32": "log2f",
    "lg2.approx.ftz.f32": "log2f",
    "rcp.approx.f32": "__frcp_rn",
    "rcp.approx.ftz.f32": "__frcp_rn",
    "rcp.rn.f32": "__frcp_rn",
    "rsqrt.approx.f32": "rsqrtf",
    "rsqrt.approx.ftz.f32": "rsqrtf",
    "sqrt.approx.f32": "sqrtf",
    "sqrt.rn.f32": "sqrtf",
    "tanh.approx.f32": "__tanhf",
    "sin.approx.f32": "sinf",
    "cos.approx.f32": "cosf",
}
_BINARY = {"add.f32": "+", "mul.f32": "*", "sub.f32": "-", "add.s32": "+", "mul.lo.s32": "*", "and.b32": "&"}
_TYPES = {"f32": "float", "f64": "double", "u32": "unsigned", "s32": "int", "b32": "unsigned", "u64": "uint64_t"}
_CACHE_HINTS = r"(\.(nc|ca|cg|cs|cv|lu|wb|wt|relaxed|weak|volatile|gpu|L[12]::\w+|L1::no_allocate))*"
_LOAD = re.compile(rf"ld{_CACHE_HINTS}\.global{_CACHE_HINTS}\.({'|'.join(_TYPES)})")
_STORE = re.compile(rf"st{_CACHE_HINTS}\.global{_CACHE_HINTS}\.({'|'.join(_TYPES)})")
_WHOLE_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]+|\d+)[uU]?")
_COPY_ASYNC = re.compile(r"cp\.async\.c[ag]\.shared(\.\w+)*\.global(\.[\w:]+)*")


def translate(tokens: Sequence[Token], line: int) -> str:
    """C++ for the inside of the brackets of an `asm` statement, without its semicolon.

    Raises:
        Unsupported: an instruction is not among the few that are known.
    """
    template, operands = _parse(tokens)
    statements = [_instruction(text.strip(), operands, line) for text in template.split(";") if text.strip(" \t\n{}")]
    return "do { " + " ".join(f"{statement};" for statement in statements) + " } while (0)"


def _parse(tokens: Sequence[Token]) -> tuple[str, list[str]]:
    sections: list[list[Token]] = [[]]
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind is Kind.SIGN and token.text in "([{":
            end = closing_index(tokens, index)
            sections[-1].extend(tokens[index : end + 1])
            index = end + 1
            continue
        if token.is_sign(":"):
            sections.append([])
        elif token.is_sign("::"):
            sections.extend([[], []])
        else:
            sections[-1].append(token)
        index += 1
    literals = [token.text for token in sections[0] if token.kind is Kind.STRING]
    template = "".join(literal[1:-1] for literal in literals).replace("\\n", "\n").replace("\\t", " ")
    operands = [operand for section in sections[1:3] for part in split_commas(section) if (operand := _operand(part))]
    return template, operands


def _operand(tokens: Sequence[Token]) -> str:
    """`"=r"(lane)` without its constraint."""
    for index, token in enumerate(tokens):
        if token.is_sign("("):
            return join(tokens[index : closing_index(tokens, index) + 1])
    return ""


def _instruction(text: str, operands: Sequence[str], line: int) -> str:
    text = re.sub(r"//[^\n]*", "", text.replace("%%", "%")).strip()
    opcode, _, rest = text.partition(" ")
    parts = [part.strip("[] ") for part in rest.split(",")] if rest.strip() else []
    values = [_value(part, operands) for part in parts]
    statement = _statement(opcode, [value or "" for value in values])
    if not statement:
        raise Unsupported(f"inline PTX {opcode} (line {line})")
    if None in values:
        raise Unsupported(f"{parts[values.index(None)]} in inline PTX (line {line})")
    return statement


def _statement(opcode: str, values: Sequence[str]) -> str:
    """Nothing if the instruction is not known."""
    if opcode.startswith("cp.async") and _COPY_ASYNC.fullmatch(opcode) and len(values) >= 3:
        return f"emulator::copy_async({', '.join(values)})"
    if re.fullmatch(r"cp\.async\.(commit_group|wait_group|wait_all)|(membar|fence)\..*", opcode):
        return "(void)0"
    if re.fullmatch(r"mov\.[bus](32|64)", opcode) and len(values) == 2:
        return f"{values[0]} = {values[1]}"
    if _LOAD.fullmatch(opcode) and len(values) == 2:
        return f"{values[0]} = *(const {_TYPES[opcode.rpartition('.')[2]]}*)({values[1]})"
    if _STORE.fullmatch(opcode) and len(values) == 2:
        return f"*({_TYPES[opcode.rpartition('.')[2]]}*)({values[0]}) = {values[1]}"
    if opcode in _UNARY and len(values) == 2:
        return f"{values[0]} = {_UNARY[opcode]}({values[1]})"
    if opcode in _BINARY and len(values) == 3:
        return f"{values[0]} = {values[1]} {_BINARY[opcode]} {values[2]}"
    if opcode.startswith("fma.rn") and opcode.endswith("f32") and len(values) == 4:
        return f"{values[0]} = fmaf({values[1]}, {values[2]}, {values[3]})"
    return ""


def _value(text: str, operands: Sequence[str]) -> str | None:
    """What is neither a known register, an operand by its number, nor a number, cannot be said in C++."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    numbered = re.fullmatch(r"%(\d+)", text)
    if numbered and int(numbered[1]) < len(operands):
        return operands[int(numbered[1])]
    bits = re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text)
    if bits:
        return f"__uint_as_float(0x{bits[1]}u)"
    return text if _WHOLE_NUMBER.fullmatch(text) else None
