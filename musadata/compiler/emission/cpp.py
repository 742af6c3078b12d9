"""Printing index formulas and scalars as C++ expressions, and the functions that combine partial results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from string import Template

import numpy as np
import yaml

from musadata.compiler.ir.index_formulas import Atom, Index, Opaque, Operation, Size, Variable, of
from musadata.compiler.ir.scalar import (
    MATH_FUNCTIONS,
    Buffer,
    Call,
    Cast,
    Choose,
    Compare,
    Formula,
    Given,
    Literal,
    Load,
    Local,
    Named,
    Scalar,
)
from musadata.compiler.lowering.fusion import Kernel, Reduce
from musadata.compiler.lowering.layout import flat_position, flatten
from musadata.compiler.lowering.paired_reductions import is_extreme

ATOM, UNARY, PRODUCT, SUM, RELATION, EQUAL, BOTH, TERNARY = 100, 90, 80, 70, 60, 55, 40, 10

_TEMPLATES = Path(__file__).parent / "templates"
_DEVICE = yaml.safe_load(_TEMPLATES.joinpath("device_functions.yaml").read_text(encoding="utf-8"))
DEVICE_FUNCTIONS = {name: Template(text) for name, text in _DEVICE["functions"].items()}
REDUCTIONS = {name: Template(text) for name, text in _DEVICE["reductions"].items()}
# By the type of elements: the name and source of the function that loads 16 bytes of them.
LOADS: dict[str, tuple[str, str]] = {
    "float32": ("load_four", _DEVICE["load_four"] + "\n"),
    "float16": ("load_eight", _DEVICE["load_eight"].format(T="__half", zero="__float2half") + "\n"),
    "bfloat16": ("load_eight", _DEVICE["load_eight"].format(T="__nv_bfloat16", zero="__float2bfloat16") + "\n"),
}
HELD_ROWS: dict[str, str] = {"load_four": _DEVICE["load_four"], **_DEVICE["held_rows"]}
_HALF_TYPES = {
    "float16": {
        "T": "__half",
        "ptx": "f16",
        "pair": "__floats2half2_rn",
        "float": "__half2float",
        "zero": "__float2half",
    },
    "bfloat16": {
        "T": "__nv_bfloat16",
        "ptx": "bf16",
        "pair": "__floats2bfloat162_rn",
        "float": "__bfloat162float",
        "zero": "__float2bfloat16",
    },
}
_HALF_SPREADS = {dtype: _DEVICE["spread"]["half"].format(**words) + "\n" for dtype, words in _HALF_TYPES.items()}
SPREADS: dict[str, str] = {"float32": _DEVICE["spread"]["float32"] + "\n", **_HALF_SPREADS}
_VECTORS = {"float32": {"V": "float4", "count": 4}, **{key: {"V": "uint4", "count": 8} for key in _HALF_TYPES}}
DOTS: dict[str, str] = {dtype: _DEVICE["dot"].format(**words) + "\n" for dtype, words in _VECTORS.items()}
PAIRS: dict[str, str] = {dtype: _DEVICE["pairs"].format(**words) + "\n" for dtype, words in _HALF_TYPES.items()}
COPY_EIGHT: str = _DEVICE["copy_eight"] + "\n"
STORE_EIGHT: str = _DEVICE["store_eight"] + "\n"
SWIZZLE: str = _DEVICE["swizzle"] + "\n"
_WRITTEN = yaml.safe_load(_TEMPLATES.joinpath("expressions.yaml").read_text(encoding="utf-8"))
C_TYPES: dict[str, str] = _WRITTEN["types"]
_INFIX: dict[str, tuple[str, int]] = _WRITTEN["infix"]
_PREFIX: dict[str, str] = _WRITTEN["prefix"]
_CONSTANTS: dict[str, float] = _WRITTEN["constants"]
_FUNCTIONS = dict.fromkeys(MATH_FUNCTIONS, "{name}{f}({a})")
_FUNCTIONS |= {name: text for text, names in _WRITTEN["functions"].items() for name in names.split()}


def device_function(name: str, dtype: str) -> str:
    """The source of a device function for one type."""
    suffix, floating = "f" if dtype == "float32" else "", dtype.startswith("float")
    return DEVICE_FUNCTIONS[name].substitute(
        {constant: number_text(value, dtype) for constant, value in _CONSTANTS.items()},
        T=C_TYPES[dtype],
        quotient=f"floor{suffix}(a / b)" if floating else "a / b - ((a % b != 0) && ((a < 0) != (b < 0)))",
        rest=f"fmod{suffix}(a, b)" if floating else "a % b",
        or_nan=" || a != a" if floating else "",
        keeps_nan="; keeps NaN, as PyTorch's does" if floating else "",
        **{function: f"{function}{suffix}" for function in ("exp", "erf", "tanh", "log1p")},
    )


def fragment_functions(dtype: str, *names: str) -> str:
    """The functions for fragments of a half type: those that load them (by lines, or transposed), multiply, pack."""
    return "".join(f"{_DEVICE['fragments'][name].format(**_HALF_TYPES[dtype])}\n" for name in names)


def number_text(value: float | int | bool | Given, dtype: str) -> str:
    """A literal of a type, as short as it can be."""
    if isinstance(value, Given):
        return value.name
    if dtype == "bool":
        return "true" if value else "false"
    if not dtype.startswith("float"):
        return str(int(value))
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if dtype == "float32":
        with np.errstate(over="ignore"):
            text = str(np.float32(value))
        if text in ("inf", "-inf"):
            return text.replace("inf", "INFINITY")
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
    return repr(float(value))


@dataclass
class Printer:
    """Prints with the names that a kernel gives to sizes, values and positions.

    Attributes:
        named: text for scalars that are already held in a variable, by identity.
        offsets: for (buffer, index) pairs, a variable that already holds the flat position.
        functions: device functions that were used, in order, as (name, dtype).
        flat: the axes of the kernel and the name of the flat position over them, if it has one.
        rename: text for variables, sizes and registers that go by another name (inside of a tile, say).
        positions: text for index formulas that are already held in a variable.
    """

    named: dict[int, str]
    functions: dict[tuple[str, str], None]
    flat: tuple[tuple[Variable, ...], str] | None = None
    rename: Mapping[str, str] | None = None
    positions: dict[Index, str] = field(default_factory=dict)

    def index(self, index: Index, level: int = 0) -> str:
        """An index formula; `level` is the precedence of what surrounds it."""
        if not index.terms:
            return "0"
        if index in self.positions:
            return self.positions[index]
        parts: list[str] = []
        ordered = sorted(index.terms, key=lambda term: (term[1] < 0, -len(term[0]), -abs(term[1])))
        for monomial, coefficient in ordered:
            text = self._monomial(monomial, abs(coefficient), coefficient < 0)
            sign = "-" if coefficient < 0 else "+"
            parts.append(f" {sign} {text}" if parts else ("-" if sign == "-" else "") + text)
        text = "".join(parts)
        return f"({text})" if self._level(index) < level else text

    def _level(self, index: Index) -> int:
        if index in self.positions or not index.terms:
            return ATOM
        if len(index.terms) > 1:
            return SUM
        monomial, coefficient = index.terms[0]
        if coefficient < 0:
            return UNARY
        if len(monomial) + (abs(coefficient) != 1) > 1:
            return PRODUCT
        atom = index.atom
        if isinstance(atom, Operation) and atom.kind in ("//", "%"):
            return PRODUCT
        return ATOM if not isinstance(atom, Opaque) else self._printed(atom.scalar)[1]

    def _monomial(self, monomial: tuple[Atom, ...], coefficient: int, nested: bool) -> str:
        if not monomial:
            return str(coefficient)
        many = len(monomial) > 1 or coefficient != 1
        factors = [self._atom(atom, many or nested) for atom in monomial]
        if coefficient != 1:
            factors.insert(0 if all(isinstance(a, Size) for a in monomial) else 1, str(coefficient))
        return " * ".join(factors)

    def _atom(self, atom: Atom, nested: bool) -> str:
        if isinstance(atom, (Variable, Size)):
            return (self.rename or {}).get(atom.name, atom.name)
        if isinstance(atom, Opaque):
            return self.scalar(atom.scalar, UNARY if nested else 0)
        if of(atom) in self.positions:
            return self.positions[of(atom)]
        left = self.index(atom.left, PRODUCT if atom.kind in ("//", "%") else 0)
        if atom.kind in ("min", "max"):
            return f"{atom.kind}({left}, {self.index(atom.right)})"
        operator = {"//": "/", "%": "%"}[atom.kind]
        text = f"{left} {operator} {self.index(atom.right, PRODUCT + 1)}"
        return f"({text})" if nested else text

    def offset(self, buffer: Buffer, index: tuple[Index, ...]) -> str:
        """The flat position of an element of a contiguous buffer, in Horner's form."""
        if self.flat is not None and self.is_flat(buffer, index):
            return self.flat[1]
        if (flat := reshaped(buffer, index)) is not None:
            return self.index(flat)
        text, level = "", ATOM
        prefix = Index(())
        for position, size in zip(index, buffer.shape, strict=True):
            prefix = prefix * size + position
            if len(prefix.terms) > 1 and prefix in self.positions:  # the flat position so far has a name
                text, level = self.positions[prefix], ATOM
                continue
            position_text, position_level = self.index(position, SUM if text else 0), self._level(position)
            if text and text != "0":
                if size.constant != 1:
                    factor = self.index(size, PRODUCT + 1)
                    text = f"({text}) * {factor}" if level < PRODUCT else f"{text} * {factor}"
                    level = PRODUCT
                if position.terms:
                    text, level = f"{text} + {position_text}", SUM
            elif position.terms:
                text, level = position_text, position_level
        return text or "0"

    def is_flat(self, buffer: Buffer, index: tuple[Index, ...]) -> bool:
        assert self.flat is not None
        used = [axis for axis, size in zip(index, buffer.shape, strict=True) if size.constant != 1]
        sizes = [size for size in buffer.shape if size.constant != 1]
        variables = [axis.variable for axis in used]
        if None in variables and len(used) < len(self.flat[0]):  # an axis that was split
            axes = self.flat[0]
            return flatten(index, buffer.shape) == flat_position(axes)
        return tuple(variables) == self.flat[0] and all(
            v is not None and v.extent == size for v, size in zip(variables, sizes, strict=True)
        )

    def scalar(self, value: Scalar, level: int = 0) -> str:
        """A scalar expression; values that were given a variable appear by its name."""
        text, own_level = self._printed(value)
        return f"({text})" if own_level < level else text

    def _printed(self, value: Scalar) -> tuple[str, int]:
        """The expression without brackets around it, and its precedence."""
        if id(value) in self.named:
            return self.named[id(value)], ATOM
        match value:
            case Named():
                return self._printed(value.value)
            case Literal():
                is_signed = not isinstance(value.value, (bool, Given)) and value.value < 0
                return number_text(value.value, value.dtype), UNARY if is_signed else ATOM
            case Load():
                return self.load(value), ATOM
            case Local():
                return (self.rename or {}).get(value.name, value.name), ATOM
            case Formula():
                return self.index(value.index), self._level(value.index)
            case Compare():
                text = f"{self.index(value.left, SUM)} {value.relation} {self.index(value.right, SUM)}"
                return text, EQUAL if value.relation == "==" else RELATION
            case Cast():
                return self._cast(value), ATOM
            case Choose():
                condition = self.scalar(value.condition, TERNARY + 1)
                return f"{condition} ? {self.scalar(value.yes, TERNARY)} : {self.scalar(value.no, TERNARY)}", TERNARY
        assert isinstance(value, Call)
        return self._call(value)

    def load(self, value: Load) -> str:
        element = f"{value.buffer.name}[{self.offset(value.buffer, value.index)}]"
        if value.buffer.dtype == "float16":
            return f"__half2float({element})"
        return f"__bfloat162float({element})" if value.buffer.dtype == "bfloat16" else element

    def _cast(self, value: Cast) -> str:
        inner = value.argument
        if value.dtype == "bool":
            return f"({self.scalar(inner, EQUAL + 1)} != 0)"
        return f"static_cast<{C_TYPES[value.dtype]}>({self.scalar(inner)})"

    def _call(self, value: Call) -> tuple[str, int]:
        operation, dtype = value.operation, value.dtype
        first, floating = value.arguments[0], dtype.startswith("float")
        if operation in _INFIX:
            return self._infix(value)
        if operation in _PREFIX:
            return f"{_PREFIX[operation]}{self.scalar(first, UNARY)}", UNARY
        if operation == "reciprocal":
            return f"{number_text(1.0, dtype)} / {self.scalar(first, PRODUCT + 1)}", PRODUCT
        if operation == "abs":
            name = {"float32": "fabsf", "float64": "fabs"}.get(dtype, "abs")
            return f"{name}({self.scalar(first)})", ATOM
        if operation in ("floor", "ceil", "trunc", "round") and not floating:
            return self.scalar(first), ATOM
        if operation == "trunc_divide":
            text = f"{self.scalar(first, PRODUCT)} / {self.scalar(value.arguments[1], PRODUCT + 1)}"
            return f"{'truncf' if dtype == 'float32' else 'trunc'}({text})" if floating else text, PRODUCT
        if operation == "fmod" and not floating:
            return f"({self.scalar(first, PRODUCT)} % {self.scalar(value.arguments[1], PRODUCT + 1)})", ATOM
        names = dict(zip("ab", (self.scalar(a) for a in value.arguments), strict=False))
        if operation in DEVICE_FUNCTIONS:
            self.functions[operation, dtype] = None
            return f"{operation}({', '.join(names.values())})", ATOM
        return _FUNCTIONS[operation].format(name=operation, f="f" if dtype == "float32" else "", **names), ATOM

    def _infix(self, value: Call) -> tuple[str, int]:
        sign, level = _INFIX[value.operation]
        left, right = value.arguments
        if value.operation in ("and", "or"):
            # Brackets where `&&` and `||` are mixed, so that readers need not know their precedence.
            mixed = {"and": level, "or": BOTH + 1}[value.operation]
            printed = [self._printed(x) for x in (left, right)]
            texts = [f"({text})" if own != level and own < mixed else text for text, own in printed]
            return f"{texts[0]} {sign} {texts[1]}", level
        return f"{self.scalar(left, level)} {sign} {self.scalar(right, level + 1)}", level


def reshaped(buffer: Buffer, index: tuple[Index, ...]) -> Index | None:
    """The flat position of an element if it takes fewer quotients than the index: the reshaping cancels out."""
    flat = flatten(index, buffer.shape)
    return flat if _quotients(flat) < sum(map(_quotients, index)) else None


def _quotients(index: Index) -> int:
    """How many different quotients and remainders a formula has, what is inside of them aside."""
    atoms = {atom for monomial, _ in index.terms for atom in monomial}
    return sum(isinstance(atom, Operation) and atom.kind in ("//", "%") for atom in atoms)


def identity(kind: str, dtype: str) -> str:
    """What a reduction starts from."""
    if kind in ("any", "all"):
        return "true" if kind == "all" else "false"
    if kind in ("sum", "prod"):
        return number_text(0 if kind == "sum" else 1, dtype)
    if dtype.startswith("float"):
        return "-INFINITY" if kind != "min" else "INFINITY"
    limits = {"int64": "INT64", "int32": "INT"}.get(dtype, "SCHAR")
    return f"{limits}_{'MIN' if kind != 'min' else 'MAX'}"


def helpers(kernel: Kernel, *templates: str) -> str:
    """The device functions that combine partial results, for each kind and type of reduction."""
    stages = [stage for stage in combined(kernel.reductions) if stage.axes]
    kinds = dict.fromkeys((stage.kind, combined_type(stage)) for stage in stages)
    return "".join(_helper(template, kind, dtype) for template in templates for kind, dtype in kinds)


def combined(stages: Sequence[Reduce]) -> list[Reduce]:
    """The reductions without the extremes that are found with their places."""
    with_places = [one for one, other in pairwise(stages) if is_extreme(one, other)]
    return [stage for stage in stages if stage not in with_places]


def combined_type(stage: Reduce) -> str:
    """The type of the values that are compared or added up."""
    return stage.value.dtype if stage.kind.startswith("arg") else stage.dtype


def _helper(template: str, kind: str, dtype: str) -> str:
    places = kind.startswith("arg")
    better = {"argmax": ("is_larger", ">"), "argmin": ("is_smaller", "<")}.get(kind, ("", ""))
    text = ""
    if places and template in ("warp", "tree"):
        text = REDUCTIONS["places"].substitute(T=C_TYPES[dtype], better=better[0], sign=better[1]) + "\n"
    text += REDUCTIONS[f"{template}_places" if places else template].substitute(
        better=better[0],
        T=C_TYPES[dtype],
        warp=helper_name("warp", kind),
        block=helper_name("block", kind),
        column=helper_name("column", kind),
        identity=identity(kind.removeprefix("arg"), dtype),
        **_updates(kind, dtype) if not places else {},
    )
    return f"{text}\n"


def _updates(kind: str, dtype: str) -> dict[str, str]:
    """The statements with which a function combines partial results."""
    shuffled = "__shfl_xor_sync(0xffffffff, value, offset)"
    if kind in ("any", "all"):  # every lane takes part in the shuffle, whatever it has found
        shuffle = f"value = {shuffled} {'||' if kind == 'any' else '&&'} value;"
    else:
        shuffle = update(kind, dtype, "value", shuffled)
    return {
        "shuffle": shuffle,
        "joined": update(kind, dtype, "value", "partial[y][threadIdx.x]"),
        "join": update(kind, dtype, "partial[threadIdx.x]", "partial[threadIdx.x + stride]"),
    }


def helper_name(collective: str, kind: str) -> str:
    """What combines a team's partial results; `maximum` and `minimum` keep NaN, `max` does not."""
    names = {"fast_max": "max", "max": "maximum", "min": "minimum"}
    return f"{collective}_{names.get(kind, kind)}"


def update(kind: str, dtype: str, one: str, other: str) -> str:
    """The statement that combines a partial result into another."""
    if kind in ("sum", "prod"):
        return f"{one} {'+' if kind == 'sum' else '*'}= {other};"
    if kind in ("any", "all"):
        other = f"({other})" if " ? " in other or " || " in other else other
        return f"{one} = {one} {'||' if kind == 'any' else '&&'} {other};"
    function = f"{kind}imum" if kind != "fast_max" else "fmaxf" if dtype == "float32" else "fmax"
    return f"{one} = {function}({one}, {other});"
