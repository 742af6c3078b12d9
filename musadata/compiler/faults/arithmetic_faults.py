"""Faults of what is computed: identities, scales, casts, conditions, constants."""

import re
from dataclasses import replace
from typing import Any

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.catalogue import WORDS, fault
from musadata.compiler.faults.fault_context import Change, FaultContext, KernelSite, first
from musadata.compiler.faults.kernel_changes import divisor_of, unscaled, whole_factor
from musadata.compiler.ir.code import (
    Apply,
    Assign,
    Binary,
    Constant,
    Declare,
    Expression,
    Function,
    Name,
    Number,
    Unary,
    names_of,
    of_kind,
    rebuild,
)

_MAXIMUM = re.compile(r"\w*max(_\w+)?")
_MOST_FOR_CORRECTION = 200  # elements: with more, dividing by one less is hard to tell from rounding


def _change_divisor(context: FaultContext, change: Change) -> Candidate | None:
    """Replace a division by a converted integer; one by an integer that is always 1 is left as it is."""

    def changed(node: Any) -> Expression | None:
        divisor = divisor_of(node)
        values = None if divisor is None else context.values_of(str(divisor))
        return None if values is not None and set(values) == {1} else change(node)

    return context.replace_node(changed)


@fault
def wrong_identity(context: FaultContext) -> Candidate | None:
    alone = len(context.candidate.graph.outputs) == 1  # beside others, no input may show it

    def edit(site: KernelSite) -> Function | None:
        updates = of_kind(site.function, Assign)

        def from_one(node: Any) -> Declare | None:
            match node:
                case Declare("float" | "double", ((name, Number("0.0f" | "0.0" as zero)),)) if not node.sizes:
                    own = [one for one in updates if one.target == name]
                    # A running maximum scales the start to 0.
                    rescaled = any(one.sign == "=" and _scales(one.value, name) for one in own)
                    is_sum = any(one.sign == "+=" for one in own) and not rescaled
                    one = Number(zero.replace("0.0", "1.0"))
                    return replace(node, variables=((name, one),)) if is_sum else None
            return None

        def from_zero(node: Any) -> Declare | None:
            match node:
                case Declare("float" | "double", ((name, Constant("INFINITY") | Unary("-", Constant("INFINITY"))),)):
                    calls = [one.value for one in updates if one.target == name and isinstance(one.value, Apply)]
                    compares = any(one.function in ("maximum", "minimum") for one in calls)
                    return replace(node, variables=((name, Number("0.0f")),)) if compares and alone else None
            return None

        return context.changed(site, from_one) or context.changed(site, from_zero)

    # The last kernel first: a normalisation of what an earlier one adds up may take the same error from all of it.
    return first(context.with_functions([(site, edit(site))]) for site in reversed(context.sites()))


def _scales(value: Expression, name: Name) -> bool:
    """Whether a value is `name * expf(...)`, or begins with that."""
    match value:
        case Binary(left, "*", Apply("expf", _)):
            return left == name
        case Binary(left, "+", _):
            return _scales(left, name)
    return False


@fault
def forgotten_scale(context: FaultContext) -> Candidate | None:
    return _change_divisor(context, unscaled)


@fault
def missing_cast(context: FaultContext) -> Candidate | None:
    return _change_divisor(context, whole_factor)


@fault
def wrong_correction(context: FaultContext) -> Candidate | None:
    def one_less(node: Any) -> Expression | None:
        match node:
            case Binary(Name(name), "/", Number() as length) if name.endswith("_squares"):
                shows = 1 < length.whole <= _MOST_FOR_CORRECTION
                return Binary(node.left, "/", Number(f"{length.whole - 1}.0f")) if shows else None
        return None

    return context.replace_node(one_less, lambda site: site.calls("rsqrtf"))


@fault
def unstable_softmax(context: FaultContext) -> Candidate | None:
    """All kernels of the softmax alike: where one of them subtracts the maximum, quotients are wrong for any values."""
    sites = list({site.emitted.text: site for site in context.sites()}.values())
    shifts = [call for site in sites for call in of_kind(site.function, Apply) if _unshifted(call) is not None]
    online = any("max" in name for call in shifts for name in names_of(_unshifted(call)))
    changed = [(site, rebuild(site.function, _unshifted)) for site in sites]
    left = [one for _, function in changed for one in of_kind(function, Binary) if one.sign == "-"]
    is_whole = not any(isinstance(one.right, Name) and _MAXIMUM.fullmatch(one.right.name) for one in left)
    takes_logarithm = any(site.calls("logf") for site in sites)
    if not shifts or online or not is_whole or takes_logarithm:
        return None
    return context.with_functions([(site, new) for site, new in changed if new != site.function])


def _unshifted(node: Any) -> Apply | None:
    """An exponential of a value without its maximum."""
    match node:
        case Apply("expf", (Binary(value, "-", Name(name)),)) if "max" in name:
            return Apply("expf", (value,))
    return None


@fault
def wrong_constant(context: FaultContext) -> Candidate | None:
    def instead(right: str, wrong: str) -> Candidate | None:
        number = Number(wrong)
        in_kernel = context.replace_first(lambda node: number if node == Number(right) else None)
        return context.replace_in_helper(right, wrong) or in_kernel

    return first(instead(*pair) for pair in WORDS["wrong_constant"].items())
