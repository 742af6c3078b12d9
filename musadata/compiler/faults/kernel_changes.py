"""Changes of one node of a kernel, by the names that `kinds.yaml` has for them: what takes its place, or None where the
mistake cannot be made there."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from musadata.compiler.ir.code import (
    Apply,
    Assign,
    Binary,
    Body,
    Choice,
    Expression,
    Group,
    Loop,
    Name,
    Number,
    Run,
    Statement,
    Unary,
    code,
    covering,
    has_brackets,
    of_kind,
)

GONE: Body = ()


def uncombined(node: Any) -> Body | None:
    match node:
        case Assign(Name(target), "=", Apply(function, (Name(own), *_))) if own == target:
            return GONE if function.startswith(("block_", "warp_")) else None
    return None


def one_step_short(node: Any) -> Loop | None:
    match node:
        case Loop(kind="int" | "int64_t", condition=Binary(Name(), "<", limit)) if not node.short:
            starts = node.first in (code(0), Name("lane"), Name("threadIdx.x"))
            is_plain = not any(isinstance(part, Binary) and part.sign != "*" for part in of_kind(limit, Binary))
            strides = isinstance(limit, Number) and node.step is not None
            takes_most = any(call.function == "fmaxf" for call in of_kind(node.body, Apply))
            if starts and is_plain and not strides and not takes_most and not has_brackets(limit):
                less = code(limit.value - 1) if isinstance(limit, Number) and limit.value else limit - 1
                return replace(node, condition=Name(node.name) < less)
    return None


def _is_at_least_zero(node: Any) -> bool:
    return isinstance(node, Binary) and node.sign == ">=" and node.right == code(0) and not has_brackets(node.left)


def without_lower_bound(node: Any) -> Expression | None:
    match node:
        case Binary(left, "&&", right) if _is_at_least_zero(left):
            return right
        case Binary(Binary(left, "&&", middle), "&&", right) if _is_at_least_zero(middle):
            return Binary(left, "&&", right)
    return None


def past_the_tail(node: Any) -> Expression | None:
    match node:
        case Apply(name, (start, part, left, aligned)) if name.startswith("store_vector"):
            width = int(name.removeprefix("store_vector<").removesuffix(">"))
            return Apply(name, (start, part, covering(left, width) * width, aligned))
    return None


def overflowing_softplus(node: Any) -> Expression | None:
    match node:
        case Choice(Binary(x, ">", Number("20.0f")), same, Apply("log1pf", (Apply("expf", (inner,)),)) as sum_):
            return sum_ if x == same == inner else None
    return None


def within_tanh(node: Any) -> bool:
    """Whether a tanh takes an overflow away."""
    return isinstance(node, Apply) and node.function == "tanhf" and overflowing_softplus(node.arguments[0]) is not None


def without_carry(node: Any) -> Body | None:
    match node:
        case Assign(Name(carry), "+=" | "*=", Name(piece)) if carry.startswith("carry") and piece.startswith("piece"):
            return GONE
        case Assign(Name(carry), "=", Apply(_, (Name(own), Name(piece)))) if own == carry and piece.startswith("piece"):
            return GONE
    return None


def racing_addition(node: Any) -> Statement | None:
    match node:
        case Run(Apply("atomicAdd", (Unary("&", element), value))):
            return Assign(element, "+=", value)
    return None


def divisor_of(node: Any) -> Expression | None:
    """What a division converts to a floating-point number."""
    match node:
        case Binary(_, "/", Apply("static_cast<float>" | "static_cast<double>", (divisor,))):
            return divisor
    return None


def unscaled(node: Any) -> Expression | None:
    return node.left if divisor_of(node) is not None else None


def whole_factor(node: Any) -> Expression | None:
    divisor = divisor_of(node)
    return None if divisor is None else node.left * Group(Binary(code(1), "/", Group(divisor)))


CHANGES: Mapping[str, Callable[[Any], Any]] = {
    change.__name__: change
    for change in (
        *(uncombined, one_step_short, without_lower_bound, past_the_tail),
        *(overflowing_softplus, without_carry, racing_addition),
    )
}
