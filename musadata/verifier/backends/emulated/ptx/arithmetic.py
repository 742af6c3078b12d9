"""PTX instructions from registers to registers: arithmetic, bits, comparisons, conversions."""

import re
from collections.abc import Sequence

from musadata.verifier.backends.emulated.ptx.operands import FLOATS, PACKED, TYPES, WIDER, Operand, Writer, put, read


def move(modifiers: list[str], operands: list[Operand]) -> str:
    target, source = operands
    (kind,) = modifiers
    if kind == "pred":
        return put(target, read(source, "bool"))
    cpp = TYPES[kind]
    if len(source.values) > 1 or len(target.values) > 1:
        return _repack(int(re.sub(r"\D", "", kind)), target, source)
    return put(target, read(source, cpp))


def _repack(bits: int, target: Operand, source: Operand) -> str:
    parts = max(len(target.values), len(source.values))
    if min(len(target.values), len(source.values)) != 1 or bits not in (32, 64):
        raise ValueError
    whole, width = f"uint{bits}_t", bits // parts
    part = f"uint{width}_t"
    if len(source.values) > 1:
        pieces = " | ".join(
            f"{whole}(emulator::ptx::as<{part}>({value})) << {width * index}"
            for index, value in enumerate(source.values)
        )
        return put(target, pieces)
    puts = " ".join(
        f"emulator::ptx::put({value}, {part}(emulator_whole >> {width * index}));"
        for index, value in enumerate(target.values)
        if value != "_"
    )
    return f"{{ const auto emulator_whole = {read(source, whole)}; {puts} }}"


# With NaN the plain ones never hold and those with a u always do.
_COMPARISONS = {
    "eq": "{0} == {1}", "ne": "({0} < {1} || {0} > {1})", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}",
    "ge": "{0} >= {1}", "lo": "{0} < {1}", "ls": "{0} <= {1}", "hi": "{0} > {1}", "hs": "{0} >= {1}",
    "equ": "!({0} < {1} || {0} > {1})", "neu": "{0} != {1}", "ltu": "!({0} >= {1})", "leu": "!({0} > {1})",
    "gtu": "!({0} <= {1})", "geu": "!({0} < {1})", "num": "({0} == {0} && {1} == {1})",
    "nan": "({0} != {0} || {1} != {1})",
}  # fmt: skip


def compare(modifiers: list[str], operands: list[Operand]) -> str:
    comparison, *middle, kind = modifiers
    if middle not in ([], ["ftz"]) or kind in PACKED:
        return ""
    cpp = TYPES[kind]
    *targets, left, right = operands
    a, b = read(left, cpp), read(right, cpp)
    holds = _COMPARISONS[comparison].format(a, b)
    puts = " ".join(
        put(target, value) + ";" for target, value in zip(targets, ("emulator_holds", "!emulator_holds"), strict=False)
    )
    return f"{{ const bool emulator_holds = {holds}; {puts} }}"


def select(modifiers: list[str], operands: list[Operand]) -> str:
    target, yes, no, condition = operands
    cpp = TYPES[modifiers[-1]]
    return put(target, f"{read(condition, 'bool')} ? {read(yes, cpp)} : {read(no, cpp)}")


_ROUNDINGS = {"rn", "rz", "rm", "rp", "ftz", "approx", "full"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "and": "&", "or": "|", "xor": "^"}
_PACKED_FUNCTIONS = {"add": "__hadd", "sub": "__hsub", "mul": "__hmul", "fma": "__hfma", "max": "__hmax",
                     "min": "__hmin", "neg": "__hneg", "abs": "__habs", "ex2": "hexp2", "tanh": "htanh"}  # fmt: skip
_EXTREMES = {"min": "smaller", "max": "larger"}
_FLOAT_FUNCTIONS = {"ex2": "exp2f", "lg2": "log2f", "sin": "sinf", "cos": "cosf", "tanh": "__tanhf"}
_ROOTS = {"rcp": "1 / ({})", "sqrt": "std::sqrt({})", "rsqrt": "1 / std::sqrt({})", "neg": "-{}", "abs": "std::abs({})"}


def arithmetic(name: str) -> Writer:
    """Instructions of one result whose operands are all of the type that ends the opcode."""

    def write(modifiers: list[str], operands: list[Operand]) -> str:
        *middle, kind = modifiers
        target, *inputs = operands
        values = [read(value, TYPES[kind]) for value in inputs]
        if kind in PACKED:
            return put(target, _packed(name, kind, middle, values))
        result = _float_result if kind in FLOATS else _integer_result
        return put(target, result(name, middle, kind, values))

    return write


def _packed(name: str, kind: str, middle: Sequence[str], values: Sequence[str]) -> str:
    if set(middle) - {"rn", "ftz", "approx"}:
        raise ValueError
    function = _PACKED_FUNCTIONS[name]
    if kind.endswith("x2"):
        function = function.replace("hexp2", "h2exp2").replace("htanh", "h2tanh")
        function += "2" if function.startswith("__") else ""
    return f"{function}({', '.join(values)})"


def _float_result(name: str, middle: Sequence[str], kind: str, values: Sequence[str]) -> str:
    nan = "NaN" in middle
    if set(middle) - _ROUNDINGS - {"sat", "NaN"}:
        raise ValueError
    if name in ("min", "max"):
        function = _EXTREMES[name] + ("_or_nan" if nan else "")
        made = f"emulator::ptx::{function}({', '.join(values)})"
    elif name in ("fma", "mad"):
        made = f"std::fma({', '.join(values)})"
    elif name in _SIGNS and name not in ("rem", "and", "or", "xor"):
        made = f"{values[0]} {_SIGNS[name]} {values[1]}"
    elif name in _ROOTS:
        made = _ROOTS[name].format(*values)
    elif name == "copysign":
        made = f"std::copysign({values[1]}, {values[0]})"
    elif kind == "f32":
        made = f"{_FLOAT_FUNCTIONS[name]}({values[0]})"
    else:
        raise ValueError
    return f"__saturatef({made})" if "sat" in middle else made


def _integer_result(name: str, middle: list[str], kind: str, values: Sequence[str]) -> str:
    cpp = TYPES[kind]
    if name in ("mul", "mad"):
        return _product(name, middle, kind, values)
    if middle:
        raise ValueError
    if name in ("min", "max"):
        return f"emulator::ptx::{_EXTREMES[name]}({', '.join(values)})"
    if name in _SIGNS:
        return f"{cpp}({values[0]} {_SIGNS[name]} {values[1]})"
    if kind == "pred":
        return f"!{values[0]}"
    return {"neg": "{1}(-{0})", "abs": "{1}({0} < 0 ? -{0} : {0})", "not": "{1}(~{0})", "cnot": "{1}({0} == 0)"}[
        name
    ].format(values[0], cpp)


def _product(name: str, middle: list[str], kind: str, values: Sequence[str]) -> str:
    (part,) = middle
    cpp, wide = TYPES[kind], WIDER[kind]
    made = {
        "lo": f"{cpp}({values[0]} * {values[1]})",
        "hi": f"emulator::ptx::product_high<{wide}>({values[0]}, {values[1]})",
        "wide": f"{wide}({values[0]}) * {wide}({values[1]})",
    }[part]
    return f"{cpp}({made} + {values[2]})" if name == "mad" else made


def multiply_add(modifiers: list[str], operands: list[Operand]) -> str:
    """`mad.wide` alone adds something wider than its factors."""
    if modifiers[0] == "wide":
        target, a, b, c = operands
        cpp, wide = TYPES[modifiers[1]], WIDER[modifiers[1]]
        return put(target, f"{wide}({read(a, cpp)}) * {wide}({read(b, cpp)}) + {read(c, wide)}")
    return arithmetic("mad")(modifiers, operands)


def shift(function: str) -> Writer:
    def write(modifiers: list[str], operands: list[Operand]) -> str:
        target, value, by = operands
        (kind,) = modifiers
        return put(target, f"emulator::ptx::{function}({read(value, TYPES[kind])}, {read(by, 'uint32_t')})")

    return write


def words(function: str, forms: str, *kinds: str) -> Writer:
    """A call of one result; the last kind holds for all further operands, "" for that of the opcode."""

    def write(modifiers: list[str], operands: list[Operand]) -> str:
        target, *inputs = operands
        if not re.fullmatch(forms, ".".join(modifiers)):
            return ""
        named = [kind or TYPES[modifiers[-1]] for kind in kinds]
        named += named[-1:] * (len(inputs) - len(named))
        values = [read(value, kind) for value, kind in zip(inputs, named, strict=False)]
        return put(target, f"{function}({', '.join(values)})")

    return write


def count(function: str) -> Writer:
    def write(modifiers: list[str], operands: list[Operand]) -> str:
        target, value = operands
        (kind,) = modifiers
        return put(target, f"{function}{'ll' if kind == 'b64' else ''}({read(value, TYPES[kind])})")

    return write


def funnel(modifiers: list[str], operands: list[Operand]) -> str:
    direction, mode, _ = modifiers
    target, low, high, by = operands
    function = {"l": "funnel_left", "r": "funnel_right"}[direction]
    amount = read(by, "uint32_t") + {"wrap": " & 31", "clamp": ""}[mode]
    return put(target, f"emulator::ptx::{function}({read(low, 'uint32_t')}, {read(high, 'uint32_t')}, {amount})")


_TO_WHOLE = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def convert(modifiers: list[str], operands: list[Operand]) -> str:
    *middle, to, from_ = modifiers
    target, *sources = operands
    if to == "tf32":
        return put(target, f"emulator::ptx::to_tf32({read(sources[0], 'float')})")
    rounding = [word for word in middle if word not in ("ftz", "sat", "relu", "satfinite")]
    if to.endswith("x2"):
        return put(target, _convert_pair(to, rounding, middle, sources))
    value = read(sources[0], TYPES[from_])
    if from_ in ("f16", "bf16"):
        value, from_ = f"{value}.to_float()", "f32"
    if rounding and rounding[0] in _TO_WHOLE:
        value = f"std::{_TO_WHOLE[rounding[0]]}({value})"
    if to in ("f16", "bf16"):
        return put(target, f"{TYPES[to]}::from_float({_relu(middle, f'float({value})')})")
    if to in FLOATS:
        return put(target, _saturated(middle, f"{TYPES[to]}({value})"))
    if from_ in FLOATS:
        return put(target, f"emulator::saturate<{TYPES[to]}>({value})")
    return put(target, f"emulator::ptx::clamp<{TYPES[to]}>({value})" if "sat" in middle else f"{TYPES[to]}({value})")


def _saturated(middle: Sequence[str], value: str) -> str:
    return f"__saturatef({value})" if "sat" in middle else value


def _relu(middle: Sequence[str], value: str) -> str:
    if "satfinite" in middle:
        raise ValueError
    return f"emulator::ptx::larger_or_nan({value}, 0.0f)" if "relu" in middle else value


def _convert_pair(to: str, rounding: Sequence[str], middle: Sequence[str], sources: Sequence[Operand]) -> str:
    """The first source goes to the upper half."""
    if list(rounding) not in (["rn"], ["rz"]) or "satfinite" in middle:
        raise ValueError
    high, low = [f"{TYPES[to[:-2]]}::from_float({_relu(middle, read(source, 'float'))})" for source in sources]
    return f"{TYPES[to]}{{{low}, {high}}}"
