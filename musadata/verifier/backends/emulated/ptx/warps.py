"""PTX instructions that lanes carry out together."""

import re

from musadata.verifier.backends.emulated.ptx.memory import place
from musadata.verifier.backends.emulated.ptx.operands import TYPES, Operand, listed, put, put_all, read


def barrier(modifiers: list[str], operands: list[Operand]) -> str:
    if modifiers[:2] == ["warp", "sync"]:
        return f"__syncwarp({read(operands[0], 'uint32_t')})"
    whole_block = [operand.values for operand in operands] == [("0",)]
    if [word for word in modifiers if word not in ("cta", "aligned")] != ["sync"] or not whole_block:
        return ""
    return "__syncthreads()"


_DIRECTIONS = {"up": "kUp", "down": "kDown", "bfly": "kButterfly", "idx": "kIndex"}


def shuffle(modifiers: list[str], operands: list[Operand]) -> str:
    sync, direction, kind = modifiers
    *targets, value, by, limits, mask = operands
    if sync != "sync" or kind != "b32":
        return ""
    given = ", ".join(read(operand, "uint32_t") for operand in (value, by, limits, mask))
    call = f"emulator::ptx::shuffle<emulator::ptx::Direction::{_DIRECTIONS[direction]}>({given}, &emulator_inside)"
    inside = f" {put(targets[1], 'emulator_inside')};" if len(targets) > 1 else ""
    return f"{{ bool emulator_inside; {put(targets[0], call)};{inside} }}"


def vote(modifiers: list[str], operands: list[Operand]) -> str:
    sync, kind, _ = modifiers
    target, predicate, mask = operands
    function = {"ballot": "__ballot_sync", "any": "__any_sync", "all": "__all_sync"}[kind]
    if sync != "sync":
        return ""
    return put(target, f"{function}({read(mask, 'uint32_t')}, {read(predicate, 'bool')})")


def match(modifiers: list[str], operands: list[Operand]) -> str:
    any_, sync, kind = modifiers
    target, value, mask = operands
    if (any_, sync) != ("any", "sync"):
        return ""
    return put(target, f"__match_any_sync({read(mask, 'uint32_t')}, {read(value, TYPES[kind])})")


def reduce(modifiers: list[str], operands: list[Operand]) -> str:
    _, operation, kind = modifiers
    target, value, mask = operands
    cpp = {"s32": "int", "u32": "unsigned", "b32": "unsigned"}[kind]
    if operation not in ("add", "min", "max", "and", "or", "xor"):
        return ""
    return put(target, f"__reduce_{operation}_sync({read(mask, 'uint32_t')}, {read(value, cpp)})")


_LOAD_MATRIX = re.compile(r"sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(?:::cta)?(\.trans)?\.b16")
_MULTIPLY = re.compile(r"sync\.aligned\.m16n8k(\d+)\.row\.col\.f32\.(f16|bf16|tf32)\.\2\.f32")


def load_matrix(modifiers: list[str], operands: list[Operand]) -> str:
    form = _LOAD_MATRIX.fullmatch(".".join(modifiers))
    target, address = operands
    if form is None or len(target.values) != int(form[1]):
        return ""
    transposed = "true" if form[2] or form[3] else "false"
    return put_all(target, f"emulator::ptx::load_matrix<{form[1]}, {transposed}>({place(address, ['shared'])})")


def multiply(modifiers: list[str], operands: list[Operand]) -> str:
    form = _MULTIPLY.fullmatch(".".join(modifiers))
    target, a, b, c = operands
    if form is None or form[1] not in (("4", "8") if form[2] == "tf32" else ("8", "16")):
        return ""
    cpp = {"f16": "__half", "bf16": "__nv_bfloat16", "tf32": "float"}[form[2]]
    arrays = "".join(
        f"const {kind} emulator_{name}[] = {{{listed(given, kind)}}}; "
        for kind, name, given in (("uint32_t", "a", a), ("uint32_t", "b", b), ("float", "c", c))
    )
    words = int(form[1]) // (4 if form[2] == "tf32" else 8)
    if (len(target.values), len(a.values), len(b.values), len(c.values)) != (4, 2 * words, words, 4):
        return ""
    call = f"emulator::ptx::multiply<{cpp}, {form[1]}>(emulator_a, emulator_b, emulator_c)"
    return f"{{ {arrays}{put_all(target, call)} }}"
