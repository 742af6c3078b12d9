"""PTX instructions and what they are in C++: opcode and operands in, a statement out.

Most are rows of instructions.yaml. The others are here, and in `memory` those that access it.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import yaml

from musadata.verifier.backends.emulated.ptx import memory
from musadata.verifier.backends.emulated.ptx.operands import (
    HALVES,
    INTEGERS,
    REALS,
    TYPES,
    WIDER,
    Operand,
    Writer,
    listed,
    put,
    put_all,
    put_parts,
    read,
)

_KINDS = {"integer": (*INTEGERS, "pred"), "factor": WIDER, "real": REALS, "any": TYPES}
_MODIFIERS = {
    "round": r"(?:\.(?:rn|rz|rm|rp|ftz|approx|full|sat|NaN))*",
    "half": r"(?:\.(?:rn|ftz|approx))*",
    "nan": r"(?=.*\.NaN\b)",
    "more": r"(?:\.[\w:]+)*",
}
_NAMED = re.compile(r"<(?:(\w+):)?([\w|]+)>")
_PART = re.compile(r"\$(?:(?P<place>[\d*]):(?P<kind>\w+)|\{?(?P<word>[a-z]+)\}?)")


@cache
def _rows() -> list[tuple[re.Pattern[str], str]]:
    def spell(named: re.Match[str]) -> str:
        group, words = named.groups()
        return f"(?P<{group}>{'|'.join(_KINDS.get(words, [words]))})" if group else _MODIFIERS[words]

    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return [(re.compile(_NAMED.sub(spell, form.replace(".", r"\."))), made) for form, made in rows.items()]


def statement(opcode: str, operands: Sequence[Operand]) -> str:
    """A statement of C++ without its semicolon; nothing if the instruction is not known."""
    name, *modifiers = opcode.split(".")
    try:
        for form, made in _rows():
            if found := form.fullmatch(opcode):
                return _write(made, found.groupdict(), modifiers, operands)
        return _HANDLERS[name](modifiers, list(operands))
    except (IndexError, KeyError, ValueError):
        return ""  # PTX has no such form


def _write(made: str, words: dict[str, str], modifiers: list[str], operands: Sequence[Operand]) -> str:
    """The C++ of a row, whose form has these words; nothing if it takes another number of operands."""
    places = {int(part["place"]) for part in _PART.finditer(made) if (part["place"] or "*") != "*"}
    if places and len(operands) != max(places) + 1:
        return ""

    def spell(part: re.Match[str]) -> str:
        place, kind, word = part.groups()
        if word:
            return WIDER[words["t"]] if word == "wide" else TYPES.get(words[word], words[word])
        cpp = WIDER[words["t"]] if kind == "wide" else TYPES[words.get(kind, kind)]
        return ", ".join(read(one, cpp) for one in (operands[1:] if place == "*" else [operands[int(place)]]))

    text = _PART.sub(spell, made.removeprefix("!"))
    text = f"__saturatef({text})" if "sat" in modifiers else text
    return text if made.startswith("!") else put(operands[0], text)


def _move(modifiers: list[str], operands: list[Operand]) -> str:
    """Also of a word that is put together from several, or of the parts of one."""
    target, source = operands
    (kind,) = modifiers
    cpp, parts = TYPES[kind], max(len(target.values), len(source.values))
    if parts == 1:
        return put(target, read(source, cpp))
    bits = int(re.sub(r"\D", "", kind))
    if min(len(target.values), len(source.values)) != 1 or bits not in (32, 64):
        raise ValueError
    whole, part, width = f"uint{bits}_t", f"uint{bits // parts}_t", bits // parts
    if len(target.values) > 1:
        shifted = [f"{part}(emulator_made >> {width * number})" for number in range(parts)]
        return put_parts(target, read(source, whole), shifted)
    pieces = (f"{whole}({read(Operand((value,)), part)}) << {width * at}" for at, value in enumerate(source.values))
    return put(target, " | ".join(pieces))


# With NaN the plain ones never hold and those with a u always do.
_COMPARISONS = {
    "eq": "{0} == {1}", "ne": "({0} < {1} || {0} > {1})", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}",
    "ge": "{0} >= {1}", "lo": "{0} < {1}", "ls": "{0} <= {1}", "hi": "{0} > {1}", "hs": "{0} >= {1}",
    "equ": "!({0} < {1} || {0} > {1})", "neu": "{0} != {1}", "ltu": "!({0} >= {1})", "leu": "!({0} > {1})",
    "gtu": "!({0} <= {1})", "geu": "!({0} < {1})", "num": "({0} == {0} && {1} == {1})",
    "nan": "({0} != {0} || {1} != {1})",
}  # fmt: skip


def _compare(modifiers: list[str], operands: list[Operand]) -> str:
    comparison, *middle, kind = modifiers
    if middle not in ([], ["ftz"]) or kind in HALVES:
        return ""
    *targets, left, right = operands
    holds = _COMPARISONS[comparison].format(read(left, TYPES[kind]), read(right, TYPES[kind]))
    values = zip(targets, ("emulator_holds", "!emulator_holds"), strict=False)
    puts = " ".join(f"{put(target, value)};" for target, value in values)
    return f"{{ const bool emulator_holds = {holds}; {puts} }}"


_TO_WHOLE = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _convert(modifiers: list[str], operands: list[Operand]) -> str:
    *middle, to, from_ = modifiers
    target, *sources = operands
    if to == "tf32":
        return put(target, f"emulator::ptx::to_tf32({read(sources[0], 'float')})")
    rounding = [word for word in middle if word not in ("ftz", "sat", "relu", "satfinite")]
    if to.endswith("x2"):
        if rounding not in (["rn"], ["rz"]):
            raise ValueError
        high, low = [_to_half(to[:-2], middle, read(source, "float")) for source in sources]
        return put(target, f"{TYPES[to]}{{{low}, {high}}}")
    value = read(sources[0], TYPES[from_])
    if from_ in ("f16", "bf16"):
        value, from_ = f"{value}.to_float()", "f32"
    if rounding and rounding[0] in _TO_WHOLE:
        value = f"std::{_TO_WHOLE[rounding[0]]}({value})"
    if to in HALVES:
        return put(target, _to_half(to, middle, f"float({value})"))
    if to in REALS:
        made = f"{TYPES[to]}({value})"
        return put(target, f"__saturatef({made})" if "sat" in middle else made)
    limited = "emulator::saturate" if from_ in REALS else "emulator::ptx::clamp" if "sat" in middle else ""
    return put(target, f"{limited}<{TYPES[to]}>({value})" if limited else f"{TYPES[to]}({value})")


def _to_half(kind: str, middle: Sequence[str], value: str) -> str:
    if "satfinite" in middle:
        raise ValueError
    value = f"emulator::ptx::larger_or_nan({value}, 0.0f)" if "relu" in middle else value
    return f"{TYPES[kind]}::from_float({value})"


def _barrier(modifiers: list[str], operands: list[Operand]) -> str:
    whole_block = [operand.values for operand in operands] == [("0",)]
    is_plain = [word for word in modifiers if word not in ("cta", "aligned")] == ["sync"]
    return "__syncthreads()" if whole_block and is_plain else ""


_DIRECTIONS = {"up": "kUp", "down": "kDown", "bfly": "kButterfly", "idx": "kIndex"}


def _shuffle(modifiers: list[str], operands: list[Operand]) -> str:
    sync, direction, kind = modifiers
    *targets, value, by, limits, mask = operands
    if sync != "sync" or kind != "b32":
        return ""
    given = ", ".join(read(operand, "uint32_t") for operand in (value, by, limits, mask))
    call = f"emulator::ptx::shuffle<emulator::ptx::Direction::{_DIRECTIONS[direction]}>({given}, &emulator_inside)"
    inside = f" {put(targets[1], 'emulator_inside')};" if len(targets) > 1 else ""
    return f"{{ bool emulator_inside; {put(targets[0], call)};{inside} }}"


_LOAD_MATRIX = re.compile(r"sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(?:::cta)?(\.trans)?\.b16")
_MULTIPLY = re.compile(r"sync\.aligned\.m16n8k(\d+)\.row\.col\.f32\.(f16|bf16|tf32)\.\2\.f32")


def _load_matrix(modifiers: list[str], operands: list[Operand]) -> str:
    form = _LOAD_MATRIX.fullmatch(".".join(modifiers))
    target, address = operands
    if form is None or len(target.values) != int(form[1]):
        return ""
    transposed = "true" if form[2] or form[3] else "false"
    place = memory.place(address, ["shared"])
    return put_all(target, f"emulator::ptx::load_matrix<{form[1]}, {transposed}>({place})")


def _multiply(modifiers: list[str], operands: list[Operand]) -> str:
    form = _MULTIPLY.fullmatch(".".join(modifiers))
    target, a, b, c = operands
    if form is None or form[1] not in (("4", "8") if form[2] == "tf32" else ("8", "16")):
        return ""
    words = int(form[1]) // (4 if form[2] == "tf32" else 8)
    if (len(target.values), len(a.values), len(b.values), len(c.values)) != (4, 2 * words, words, 4):
        return ""
    arrays = "".join(
        f"const {kind} emulator_{name}[] = {{{listed(given, kind)}}}; "
        for kind, name, given in (("uint32_t", "a", a), ("uint32_t", "b", b), ("float", "c", c))
    )
    cpp = {**TYPES, "tf32": "float"}[form[2]]
    call = f"emulator::ptx::multiply<{cpp}, {form[1]}>(emulator_a, emulator_b, emulator_c)"
    return f"{{ {arrays}{put_all(target, call)} }}"


_HANDLERS: dict[str, Writer] = {
    "ld": memory.load,
    "ldu": memory.load,
    "st": memory.store,
    "atom": memory.atomic,
    "red": memory.reduction,
    "cp": memory.copy_async,
    "mov": _move,
    "setp": _compare,
    "cvt": _convert,
    "bar": _barrier,
    "barrier": _barrier,
    "shfl": _shuffle,
    "ldmatrix": _load_matrix,
    "mma": _multiply,
}
