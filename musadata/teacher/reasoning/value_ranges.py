"""Between which bounds the values of tensors lie whatever the inputs are, as far as their operators say so."""

from collections.abc import Callable, Mapping, Sequence
from math import inf

from musadata.operators import column
from musadata.teacher.reasoning.kernel_plan import Call

Range = tuple[float, float]
ANY: Range = (-inf, inf)


def ranges_of(calls: Sequence[Call]) -> dict[str, Range]:
    """The bounds of the calls' results, by name; of NaN nothing is said."""
    known: dict[str, Range] = {}
    for call in calls:
        for fact in call.outputs[:1]:
            known[fact.name] = _range(call, known)
    return known


def _range(call: Call, known: Mapping[str, Range]) -> Range:
    write = _RULES.get(call.packet)
    if write is not None:
        return write(call, known)
    low, high = column("range").get(call.packet, ANY)
    return low, high


def _first(call: Call, known: Mapping[str, Range]) -> Range:
    return known.get(call.source.name, ANY) if call.operands else ANY


def _abs(call: Call, known: Mapping[str, Range]) -> Range:
    low, high = _first(call, known)
    return (max(low, -high, 0.0), max(abs(low), abs(high)))


def _clamp(call: Call, known: Mapping[str, Range]) -> Range:
    low, high = _first(call, known)
    if len(call.operands) > 1:
        return ANY
    least = _number(call.argument("min") or call.argument("min_val"), -inf)
    most = _number(call.argument("max") or call.argument("max_val"), inf)
    return (min(max(low, least), most), min(max(high, least), most))


def _mul(call: Call, known: Mapping[str, Range]) -> Range:
    low = _first(call, known)[0]
    other = known.get(call.names[1], ANY)[0] if len(call.names) > 1 else _number(call.argument("other"), -inf)
    is_square = len(call.names) > 1 and call.names[0] == call.names[1]
    return (0.0, inf) if is_square or min(low, other) >= 0 else ANY


def _pow(call: Call, known: Mapping[str, Range]) -> Range:
    is_even = call.argument("exponent") in ("2", "2.0", "4", "4.0")
    return (0.0, inf) if is_even or _first(call, known)[0] >= 0 else ANY


def _sign(call: Call, known: Mapping[str, Range]) -> Range:
    low, high = _first(call, known)
    return (0.0 if low >= 0 else -1.0, 0.0 if high <= 0 else 1.0)


def _add(call: Call, known: Mapping[str, Range]) -> Range:
    if call.argument("alpha", "1") not in ("1", "1.0") or not call.operands:
        return ANY
    low, high = _first(call, known)
    if len(call.operands) > 1:
        other = known.get(call.names[1], ANY)
    else:
        number = _number(call.argument("other"), inf)
        other = ANY if number == inf else (number, number)
    return (low + other[0], high + other[1])


def _same(call: Call, known: Mapping[str, Range]) -> Range:
    return _first(call, known)


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


_RULES: dict[str, Callable[[Call, Mapping[str, Range]], Range]] = {
    "abs": _abs,
    "clamp": _clamp,
    "hardtanh": _clamp,
    "mul": _mul,
    "pow": _pow,
    "sign": _sign,
    "add": _add,
    **dict.fromkeys(
        ("view", "slice", "transpose", "permute", "expand", "unsqueeze", "squeeze", "select", "amax"), _same
    ),
    **dict.fromkeys(("amin", "mean", "clone", "t", "_unsafe_view", "reshape", "max_pool2d_with_indices"), _same),
    **dict.fromkeys((f"avg_pool{rank}d" for rank in (1, 2, 3)), _same),
}
