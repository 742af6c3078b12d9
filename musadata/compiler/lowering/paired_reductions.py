"""Which reductions of a kernel are found in one loop with the next: extremes with their places, softmax, moments."""

from musadata.compiler.ir.scalar import Call, Choose, Literal, Local, Scalar, plain, same
from musadata.compiler.lowering.fusion import Reduce, Stage


def is_extreme(one: object, other: object) -> bool:
    """Whether a stage finds the largest or smallest of some values, and the next the place of it."""
    if not (isinstance(one, Reduce) and isinstance(other, Reduce)) or other.kind != f"arg{one.kind}":
        return False
    return one.axes == other.axes and bool(one.axes) and same(one.value, other.value)


def is_softmax(one: Stage, other: Stage) -> bool:
    """Whether a stage finds the maximum of some values, and the next sums up their exponentials below it."""
    if not (isinstance(one, Reduce) and isinstance(other, Reduce)):
        return False
    if (one.kind, other.kind, one.axes) != ("fast_max", "sum", other.axes) or not one.axes:
        return False
    match plain(other.value):
        case Call(operation="exp", arguments=(exponent,)):
            match plain(exponent):
                case Call(operation="sub", arguments=(value, largest)):
                    return _is_local(_unshifted(largest), one.local) and same(value, one.value)
    return False


def _unshifted(largest: Scalar) -> Scalar:
    """The maximum that a logsumexp takes away, unless it is infinite."""
    match plain(largest):
        case Choose(condition=Call(operation="isinf", arguments=(tested,)), yes=Literal(value=0), no=kept):
            return kept if same(tested, kept) else largest
    return largest


def is_shifted(below: Reduce) -> bool:
    return any(isinstance(node, Call) and node.operation == "isinf" for node in below.value.walk())


def _is_local(value: Scalar, name: str) -> bool:
    value = plain(value)
    return isinstance(value, Local) and value.name == name


def is_moments(one: Stage, other: Stage) -> bool:
    """Whether a stage sums up some values, and the next their squared distances from the mean."""
    if not (isinstance(one, Reduce) and isinstance(other, Reduce)):
        return False
    if (one.kind, other.kind, one.axes) != ("sum", "sum", other.axes) or not one.axes:
        return False
    match plain(other.value):
        case Call(operation="mul", arguments=(distance, again)) if same(distance, again):
            match plain(distance):
                case Call(operation="sub", arguments=(value, mean)):
                    return same(value, one.value) and _is_mean(mean, one.local)
    return False


def _is_mean(value: Scalar, total: str) -> bool:
    match plain(value):
        case Call(operation="div", arguments=(sum_, count)):
            return _is_local(sum_, total) and not count.variables and not count.locals
    return False
