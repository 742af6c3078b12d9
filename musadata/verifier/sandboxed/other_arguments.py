"""Inside the sandbox: other arguments for a reference's constructor, found by trying what matters to it."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_MOST_TRIED, _MOST_FOUND = 16, 4
_FEW = 8  # a smaller integer is a window, a stride, a dimension; a larger one may be a size
_WHOLE_WARPS = 64
_SMALL = 0.05


def with_defaults(kind: type, arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a constructor, and after them the defaults of the next ones, as far as these are plain."""
    found = list(arguments)
    try:
        parameters = [*inspect.signature(kind).parameters.values()][len(found) :]
    except (TypeError, ValueError):
        return found
    for one in parameters:
        is_plain = one.default is None or isinstance(one.default, (bool, int, float, str, tuple))
        if one.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD or not is_plain:
            break
        found.append(one.default)
    return found


def vary_arguments(arguments: Sequence[Any], matters: Callable[[list[Any]], bool]) -> Iterator[list[Any]]:
    """The arguments with one number or truth value another one, for each with which the reference runs and gives
    another result. Sizes are as even as they were."""
    tried = found = 0
    for at, value in enumerate(arguments):
        for other in _others(value):
            trial = [*arguments[:at], other, *arguments[at + 1 :]]
            tried += 1
            if tried <= _MOST_TRIED and found < _MOST_FOUND and matters(trial):
                found += 1
                yield trial
                break


def _others(value: Any) -> list[Any]:
    """What may stand in its place, the best first."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        even = min(value & -value, _WHOLE_WARPS)
        step = 1 if abs(value) < _FEW else even * max(1, value // (4 * even))
        return [value + step, value - step, *([2 * value, value // 2] if value > 1 else [])]
    if isinstance(value, float):
        return [1.5 * value, 0.5 * value] if abs(value) >= _SMALL else [0.375, -0.375]
    if isinstance(value, (tuple, list)) and value:
        columns = zip(*map(_others, value), strict=False)
        return [type(value)(others) for others in columns]
    return []
