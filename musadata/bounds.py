"""Bounds of the configuration's numbers, each beside its field: `seconds: Annotated[float, Within(0.1)] = 20.0`."""

import dataclasses
import math
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple


class Within(NamedTuple):
    """The least and the most that a number may be."""

    least: float
    most: float = math.inf

    def problem(self, value: float) -> str:
        """What is wrong with a number; "" if nothing is."""
        if self.least <= value <= self.most:
            return ""
        wanted = f"from {self.least:g} to {self.most:g}" if self.most < math.inf else f"{self.least:g} or more"
        return f"is {value}, but must be {wanted}"


def find_out_of_bounds(config: Any) -> Iterator[tuple[str, str]]:
    """The keys of a part of the configuration whose numbers are out of their bounds, and what is wrong with each."""
    hints = typing.get_type_hints(type(config), include_extras=True)
    for name, hint in hints.items():
        value = getattr(config, name)
        parts = {f"{name}[{at}]": one for at, one in enumerate(value)} if isinstance(value, tuple) else {name: value}
        for place, part in parts.items():
            if dataclasses.is_dataclass(part):
                yield from ((f"{place}.{key}", what) for key, what in find_out_of_bounds(part))
        for bounds in getattr(hint, "__metadata__", ()):
            if what := bounds.problem(value):
                yield name, what
