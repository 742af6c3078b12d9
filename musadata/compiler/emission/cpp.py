"""Index formulas and scalars as C++ expressions, and the functions that combine partial results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import yaml

from musadata.compiler.ir.code import (
    BOTH,
    EITHER,
    EQUAL,
    THREAD_X,
    UNARY,
    Assign,
    Binary,
    Choice,
    Constant,
    Expression,
    Group,
    Name,
    Number,
    Unary,
    apply,
    bracketed,
    code,
    product,
    walk,
)
from musadata.compiler.ir.index_formulas import (
    ONE,
    ZERO,
    Atom,
    Index,
    Opaque,
    Operation,
    Size,
    Variable,
    exact_part,
    of,
)
from musadata.compiler.ir.printing import text_of
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

_TEMPLATES = Path(__file__).parent / "templates"
_DEVICE = yaml.safe_load(_TEMPLATES.joinpath("device_functions.yaml").read_text(encoding="utf-8"))
DEVICE_FUNCTIONS = {name: Template(text) for name, text in _DEVICE["functions"].items()}
REDUCTIONS = {name: Template(text) for name, text in _DEVICE["reductions"].items()}
_WRITTEN = yaml.safe_load(_TEMPLATES.joinpath("expressions.yaml").read_text(encoding="utf-8"))
C_TYPES: dict[str, str] = _WRITTEN["types"]
VECTORS: dict[str, dict[str, Any]] = _WRITTEN["vectors"]
_INFIX: dict[str, str] = _WRITTEN["infix"]
_PREFIX: dict[str, str] = _WRITTEN["prefix"]
_CONSTANTS: dict[str, float] = _WRITTEN["constants"]
_FUNCTIONS = dict.fromkeys(MATH_FUNCTIONS, "{name}{f}")
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


def vector_functions(dtype: str, *names: str) -> list[str]:
    """The device functions of these names that move and multiply vectors, for one type of elements."""
    return [_DEVICE["vectors"][name].format(**VECTORS[dtype]) for name in names]


def number_text(value: float | int | bool | Given, dtype: str) -> str:
    """A literal of a type, as short as it can be."""
    return number(value, dtype).text


def number(value: float | int | bool | Given, dtype: str) -> Expression:
    """A literal of a type."""
    if isinstance(value, Given):
        return Name(value.name)
    if dtype == "bool":
        return Constant("true" if value else "false")
    if not dtype.startswith("float"):
        return code(int(value))
    if math.isnan(value):
        return Constant("NAN")
    digits = repr(abs(float(value)))
    if dtype == "float32":
        with np.errstate(over="ignore"):
            digits = str(np.float32(abs(value)))
        digits = f"{digits}f" if "." in digits or "e" in digits else f"{digits}.0f"
    size = Constant("INFINITY") if "inf" in digits else Number(digits)
    return Unary("-", size) if math.copysign(1, value) < 0 else size


@dataclass
class Printer:
    """Writes formulas and scalars as C++, with the names that a kernel gives to sizes, values and positions.

    Attributes:
        named: what stands for scalars that are already held in a variable.
        functions: device functions that were used, in order, as (name, dtype).
        flat: the axes of the kernel and what stands for the flat position over them, if it is known.
        rename: what stands for variables, sizes and registers that go by another name (inside of a tile, say).
        positions: what stands for index formulas that are already held in a variable.
    """

    named: dict[Scalar, Expression] = field(default_factory=dict)
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    flat: tuple[tuple[Variable, ...], Expression] | None = None
    rename: Mapping[str, Expression] | None = None
    positions: dict[Index, Expression] = field(default_factory=dict)

    def index(self, index: Index, level: int = 0) -> Expression:
        """An index formula; in brackets if it binds less than a level."""
        return bracketed(total(self.terms(index)), level)

    def terms(self, index: Index) -> list[tuple[str, Expression]]:
        """What a formula adds up, each with its sign."""
        if index in self.positions:
            return [("+", self.positions[index])]
        for formula, name in self.positions.items():
            factor, rest = exact_part(index, formula)  # of a flat position over batch and row, the length of a row
            is_part = factor != ZERO and len(rest.terms) + len(formula.terms) <= len(index.terms)
            if is_part and len(formula.terms) > 1 and not factor.variables:
                own = name if factor == ONE else product(name, self.index(factor))
                return [("+", own), *(self.terms(rest) if rest != ZERO else ())]
        ordered = sorted(index.terms, key=lambda term: (term[1] < 0, -len(term[0]), -abs(term[1])))
        return [("-" if one < 0 else "+", self._monomial(monomial, abs(one), one < 0)) for monomial, one in ordered]

    def _monomial(self, monomial: tuple[Atom, ...], coefficient: int, nested: bool) -> Expression:
        if not monomial:
            return code(coefficient)
        many = len(monomial) > 1 or coefficient != 1
        factors = [self._atom(atom, many or nested) for atom in monomial]
        if coefficient != 1:
            factors.insert(0 if all(isinstance(a, Size) for a in monomial) else 1, code(coefficient))
        return product(*factors)

    def _atom(self, atom: Atom, nested: bool) -> Expression:
        if isinstance(atom, (Variable, Size)):
            return (self.rename or {}).get(atom.name) or Name(atom.name)
        if isinstance(atom, Opaque):
            return bracketed(self.scalar(atom.scalar), UNARY if nested else 0)
        if of(atom) in self.positions:
            return self.positions[of(atom)]
        left, right = self.index(atom.left), self.index(atom.right)
        if atom.kind in ("min", "max"):
            return apply(atom.kind, left, right)
        quotient = Binary(left, {"//": "/", "%": "%"}[atom.kind], right)
        return Group(quotient) if nested else quotient

    def offset(self, buffer: Buffer, index: tuple[Index, ...]) -> Expression:
        """The flat position of an element of a contiguous buffer, in Horner's form."""
        if self.flat is not None and self.is_flat(buffer, index):
            return self.flat[1]
        if (flat := reshaped(buffer, index)) is not None:
            return self.index(flat)
        found: Expression | None = None
        prefix = Index(())
        for position, size in zip(index, buffer.shape, strict=True):
            prefix = prefix * size + position
            if len(prefix.terms) > 1 and prefix in self.positions:  # the flat position so far has a name
                found = self.positions[prefix]
                continue
            if found is None:
                found = self.index(position) if position.terms else None
                continue
            found = found if size.constant == 1 else found * self.index(size)
            found = total([("+", found), *self.terms(position)])
        return found or code(0)

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

    def scalar(self, value: Scalar) -> Expression:
        """A scalar expression; values that were given a variable appear by its name."""
        if value in self.named:
            return self.named[value]
        match value:
            case Named():
                return self.scalar(value.value)
            case Literal():
                return number(value.value, value.dtype)
            case Load():
                return self.load(value)
            case Local():
                return (self.rename or {}).get(value.name) or Name(value.name)
            case Formula():
                return self.index(value.index)
            case Compare():
                return Binary(self.index(value.left), value.relation, self.index(value.right))
            case Cast():
                return self._cast(value)
            case Choose():
                return Choice(self.scalar(value.condition), self.scalar(value.yes), self.scalar(value.no))
        assert isinstance(value, Call)
        return self._call(value)

    def load(self, value: Load) -> Expression:
        """An element of a buffer, in the type that is computed with."""
        return loaded(Name(value.buffer.name)[self.offset(value.buffer, value.index)], value.buffer.dtype)

    def _cast(self, value: Cast) -> Expression:
        inner = self.scalar(value.argument)
        if value.dtype == "bool":
            return Group(Binary(bracketed(inner, EQUAL + 1), "!=", code(0)))
        return apply(f"static_cast<{C_TYPES[value.dtype]}>", inner)

    def _call(self, value: Call) -> Expression:
        operation, dtype, floating = value.operation, value.dtype, value.dtype.startswith("float")
        first, *others = (self.scalar(argument) for argument in value.arguments)
        single = "f" if dtype == "float32" else ""
        if operation in _INFIX:
            return self._infix(operation, first, others[0])
        if operation in _PREFIX:
            return Unary(_PREFIX[operation], first)
        if operation == "reciprocal":
            return number(1.0, dtype) / first
        if operation == "abs":
            return apply({"float32": "fabsf", "float64": "fabs"}.get(dtype, "abs"), first)
        if operation in ("floor", "ceil", "trunc", "round") and not floating:
            return first
        if operation == "trunc_divide":
            return apply(f"trunc{single}", first / others[0]) if floating else first / others[0]
        if operation == "fmod" and not floating:
            return Group(first % others[0])
        if operation in DEVICE_FUNCTIONS:
            self.functions[operation, dtype] = None
            return apply(operation, first, *others)
        return apply(_FUNCTIONS[operation].format(name=operation, f=single), first, *others)

    def _infix(self, operation: str, left: Expression, right: Expression) -> Expression:
        sign = _INFIX[operation]
        if operation == "or":  # brackets where `&&` and `||` are mixed, so that readers need not know their precedence
            left, right = (one if one.level == EITHER else bracketed(one, BOTH + 1) for one in (left, right))
        return Binary(left, sign, right)


def total(terms: Sequence[tuple[str, Expression]]) -> Expression:
    """A sum of what has signs."""
    if not terms:
        return code(0)
    (sign, first), *others = terms
    found = first if sign == "+" else negated(first)
    for sign, one in others:
        found = _added(found, one) if sign == "+" else Binary(found, sign, one)
    return found


def _added(left: Expression, right: Expression) -> Binary:
    """A sum, without brackets around what is a sum itself."""
    if isinstance(right, Binary) and right.sign in ("+", "-"):
        return Binary(_added(left, right.left), right.sign, right.right)
    return Binary(left, "+", right)


def negated(value: Expression) -> Expression:
    """A product with a sign in front."""
    if isinstance(value, Binary):
        return replace(value, left=negated(value.left))
    return Unary("-", value)


def loaded(element: Expression, dtype: str) -> Expression:
    """An element of a buffer of a type, in the type that is computed with."""
    converted = VECTORS.get(dtype, {}).get("float")
    return apply(converted, element) if converted else element


def reshaped(buffer: Buffer, index: tuple[Index, ...]) -> Index | None:
    """The flat position of an element if it takes fewer quotients than the index: the reshaping cancels out."""
    flat = flatten(index, buffer.shape)
    return flat if _quotients(flat) < sum(map(_quotients, index)) else None


def _quotients(index: Index) -> int:
    """How many different quotients and remainders a formula has, what is inside of them aside."""
    atoms = {atom for monomial, _ in index.terms for atom in monomial}
    return sum(isinstance(atom, Operation) and atom.kind in ("//", "%") for atom in atoms)


def identity(kind: str, dtype: str) -> Expression:
    """What a reduction starts from."""
    if kind in ("any", "all"):
        return number(kind == "all", "bool")
    if kind in ("sum", "prod"):
        return number(0 if kind == "sum" else 1, dtype)
    if dtype.startswith("float"):
        return number(math.inf if kind == "min" else -math.inf, dtype)
    limits = {"int64": "INT64", "int32": "INT"}.get(dtype, "SCHAR")
    return Constant(f"{limits}_{'MIN' if kind != 'min' else 'MAX'}")


def helpers(kernel: Kernel, *templates: str) -> list[str]:
    """The device functions that combine partial results, for each kind and type of reduction."""
    stages = [stage for stage in combined(kernel.reductions) if stage.axes]
    kinds = dict.fromkeys((stage.kind, combined_type(stage)) for stage in stages)
    return [text for template in templates for kind, dtype in kinds for text in _helper(template, kind, dtype)]


def combined(stages: Sequence[Reduce]) -> list[Reduce]:
    """The reductions without the extremes that are found with their places."""
    with_places = [one for one, other in pairwise(stages) if is_extreme(one, other)]
    return [stage for stage in stages if stage not in with_places]


def combined_type(stage: Reduce) -> str:
    """The type of the values that are compared or added up."""
    return stage.value.dtype if stage.kind.startswith("arg") else stage.dtype


def _helper(template: str, kind: str, dtype: str) -> list[str]:
    places = kind.startswith("arg")
    better = {"argmax": ("is_larger", ">"), "argmin": ("is_smaller", "<")}.get(kind, ("", ""))
    texts = []
    if places and template in ("warp", "tree"):
        texts.append(REDUCTIONS["places"].substitute(T=C_TYPES[dtype], better=better[0], sign=better[1]))
    text = REDUCTIONS[f"{template}_places" if places else template].substitute(
        better=better[0],
        T=C_TYPES[dtype],
        warp=helper_name("warp", kind),
        block=helper_name("block", kind),
        column=helper_name("column", kind),
        identity=identity(kind.removeprefix("arg"), dtype),
        **_updates(kind, dtype) if not places else {},
    )
    return [*texts, text]


def _updates(kind: str, dtype: str) -> dict[str, str]:
    """The statements with which a function combines partial results."""
    value, partial = Name("value"), Name("partial")
    shuffled = apply("__shfl_xor_sync", Number("0xffffffff"), value, "offset")
    if kind in ("any", "all"):  # every lane takes part in the shuffle, whatever it has found
        shuffle = Assign(value, "=", Binary(shuffled, "||" if kind == "any" else "&&", value))
    else:
        shuffle = update(kind, dtype, value, shuffled)
    joined = {
        "shuffle": shuffle,
        "joined": update(kind, dtype, value, partial["y"][THREAD_X]),
        "join": update(kind, dtype, partial[THREAD_X], partial[THREAD_X + "stride"]),
    }
    return {name: text_of(one).strip() for name, one in joined.items()}


def helper_name(collective: str, kind: str) -> str:
    """What combines a team's partial results; `maximum` and `minimum` keep NaN, `max` does not."""
    names = {"fast_max": "max", "max": "maximum", "min": "minimum"}
    return f"{collective}_{names.get(kind, kind)}"


def update(kind: str, dtype: str, one: Expression, other: Expression) -> Assign:
    """The statement that combines a partial result into another."""
    if kind in ("sum", "prod"):
        return Assign(one, "+=" if kind == "sum" else "*=", other)
    if kind in ("any", "all"):
        sign = "||" if kind == "any" else "&&"
        is_mixed = any(isinstance(part, Choice) or getattr(part, "sign", "") == "||" for part in walk(other))
        return Assign(one, "=", Binary(one, sign, Group(other) if is_mixed else other))
    function = f"{kind}imum" if kind != "fast_max" else "fmaxf" if dtype == "float32" else "fmax"
    return Assign(one, "=", apply(function, one, other))
