"""Printing index formulas and scalars as C++ expressions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import numpy as np
import yaml

from musadata.teacher.compiler.ir.index_formulas import Atom, Index, Opaque, Operation, Size, Variable, of
from musadata.teacher.compiler.ir.scalar import (
    MATH_FUNCTIONS,
    Buffer,
    Call,
    Cast,
    Choose,
    Compare,
    Formula,
    Literal,
    Load,
    Local,
    Named,
    Scalar,
)
from musadata.teacher.compiler.lowering.layout import flatten

ATOM, UNARY, PRODUCT, SUM, RELATION, EQUAL, BITS, BOTH, EITHER, TERNARY = 100, 90, 80, 70, 60, 55, 50, 40, 30, 10

C_TYPES = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
}
# Printed with `{f}` as the suffix of single-precision functions.
_FUNCTIONS = {
    **{name: f"{name}{{f}}({{a}})" for name in (*MATH_FUNCTIONS, "floor", "ceil", "trunc")},
    **{name: f"{name}{{f}}({{a}}, {{b}})" for name in ("atan2", "fmod", "hypot", "copysign", "fmax", "fmin", "pow")},
    **{name: f"{name}({{a}})" for name in ("isnan", "isinf", "isfinite")},
    "round": "rint{f}({a})",
}
_INFIX = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "eq": ("==", EQUAL),
    "ne": ("!=", EQUAL),
    "lt": ("<", RELATION),
    "le": ("<=", RELATION),
    "gt": (">", RELATION),
    "ge": (">=", RELATION),
    "and": ("&&", BOTH),
    "or": ("||", EITHER),
    "bitwise_and": ("&", BITS - 1),
    "bitwise_xor": ("^", BITS - 2),
    "bitwise_or": ("|", BITS - 3),
}
_PREFIX = {"neg": "-", "not": "!", "bitwise_not": "~"}
_LEVELS = {**dict.fromkeys(_PREFIX, UNARY), "reciprocal": PRODUCT, "trunc_divide": PRODUCT}
_TEMPLATES = yaml.safe_load(
    Path(__file__).parent.joinpath("templates/device_functions.yaml").read_text(encoding="utf-8")
)
DEVICE_FUNCTIONS = {name: Template(text) for name, text in _TEMPLATES["functions"].items()}
REDUCTIONS = {name: Template(text) for name, text in _TEMPLATES["reductions"].items()}
_CONSTANTS = {
    "sqrt_half": math.sqrt(0.5),
    "sqrt_2_over_pi": math.sqrt(2 / math.pi),
    "cubic": 0.044715,
    "half": 0.5,
    "one": 1.0,
}


def device_function(name: str, dtype: str) -> str:
    """The source of a device function for one type."""
    suffix, floating = "f" if dtype == "float32" else "", dtype.startswith("float")
    return DEVICE_FUNCTIONS[name].substitute(
        {constant: number_text(value, dtype) for constant, value in _CONSTANTS.items()},
        T=C_TYPES[dtype],
        quotient=f"floor{suffix}(a / b)" if floating else "a / b - ((a % b != 0) && ((a < 0) != (b < 0)))",
        rest=f"fmod{suffix}(a, b)" if floating else "a % b",
        **{function: f"{function}{suffix}" for function in ("exp", "erf", "tanh")},
    )


def number_text(value: float | int | bool, dtype: str) -> str:
    """A literal of a type, as short as it can be."""
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
        return ATOM if not isinstance(atom, Opaque) else self._scalar_level(atom.scalar)

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
        flat = flatten(list(index), list(buffer.shape))
        if any(_computed(position) for position in index) and not any(_computed(of(a)) for a in flat.atoms()):
            return self.index(flat)  # the reshaping cancels out
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
        return tuple(variables) == self.flat[0] and all(
            v is not None and v.extent == size for v, size in zip(variables, sizes, strict=True)
        )

    def scalar(self, value: Scalar, level: int = 0) -> str:
        """A scalar expression; values that were given a variable appear by its name."""
        if id(value) in self.named:
            return self.named[id(value)]
        text = self._text(value)
        return f"({text})" if self._scalar_level(value) < level else text

    def _scalar_level(self, value: Scalar) -> int:
        if id(value) in self.named:
            return ATOM
        if isinstance(value, Named):
            return self._scalar_level(value.value)
        if isinstance(value, Formula):
            return self._level(value.index)
        if isinstance(value, Compare):
            return RELATION if value.relation != "==" else EQUAL
        if isinstance(value, Choose):
            return TERNARY
        if isinstance(value, Literal):
            return ATOM if isinstance(value.value, bool) or not value.value < 0 else UNARY
        if isinstance(value, Call):
            return _INFIX[value.operation][1] if value.operation in _INFIX else _LEVELS.get(value.operation, ATOM)
        return ATOM

    def _text(self, value: Scalar) -> str:
        if isinstance(value, Named):
            return self._text(value.value) if id(value.value) not in self.named else self.named[id(value.value)]
        if isinstance(value, Literal):
            return number_text(value.value, value.dtype)
        if isinstance(value, Load):
            return self.load(value)
        if isinstance(value, Local):
            return (self.rename or {}).get(value.name, value.name)
        if isinstance(value, Formula):
            return self.index(value.index)
        if isinstance(value, Compare):
            return f"{self.index(value.left, SUM)} {value.relation} {self.index(value.right, SUM)}"
        if isinstance(value, Cast):
            return self._cast(value)
        if isinstance(value, Choose):
            condition = self.scalar(value.condition, TERNARY + 1)
            return f"{condition} ? {self.scalar(value.yes, TERNARY)} : {self.scalar(value.no, TERNARY)}"
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

    def _call(self, value: Call) -> str:
        operation, dtype = value.operation, value.dtype
        first = value.arguments[0]
        if operation in _INFIX:
            return self._infix(value)
        if operation in _PREFIX:
            return f"{_PREFIX[operation]}{self.scalar(first, UNARY)}"
        if operation == "reciprocal":
            return f"{number_text(1.0, dtype)} / {self.scalar(first, PRODUCT + 1)}"
        if operation == "abs":
            return f"{'fabsf' if dtype == 'float32' else 'fabs' if dtype == 'float64' else 'abs'}({self.scalar(first)})"
        if operation in ("floor", "ceil", "trunc", "round") and not dtype.startswith("float"):
            return self.scalar(first)
        if operation == "trunc_divide":
            text = f"{self.scalar(first, PRODUCT)} / {self.scalar(value.arguments[1], PRODUCT + 1)}"
            return f"{'truncf' if dtype == 'float32' else 'trunc'}({text})" if dtype.startswith("float") else text
        if operation == "fmod" and not dtype.startswith("float"):
            return f"({self.scalar(first, PRODUCT)} % {self.scalar(value.arguments[1], PRODUCT + 1)})"
        names = dict(zip("ab", (self.scalar(a) for a in value.arguments), strict=False))
        if operation in DEVICE_FUNCTIONS:
            self.functions[operation, dtype] = None
            return f"{operation}({', '.join(names.values())})"
        return _FUNCTIONS[operation].format(f="f" if dtype == "float32" else "", **names)

    def _infix(self, value: Call) -> str:
        sign, level = _INFIX[value.operation]
        left, right = value.arguments
        if value.operation in ("and", "or"):
            # Brackets where `&&` and `||` are mixed, so that readers need not know their precedence.
            mixed = {"and": level, "or": BOTH + 1}[value.operation]
            texts = [self.scalar(x, level if self._scalar_level(x) == level else mixed) for x in (left, right)]
            return f"{texts[0]} {sign} {texts[1]}"
        return f"{self.scalar(left, level)} {sign} {self.scalar(right, level + 1)}"


def _computed(index: Index) -> bool:
    return any(isinstance(atom, Operation) and atom.kind in ("//", "%") for atom in index.atoms())
