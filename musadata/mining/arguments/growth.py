"""Ending the construction of a module that grows without reason. Runs inside the sandbox.

A guess of 24 for the depth of a tree makes sixteen million modules of it; three such guesses took a quarter of the time
that all of timm did.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.modules import module as modules
from torch.nn.parameter import is_lazy

MAX_MODULES = 10_000
MAX_PARAMETERS = 128_000_000  # no module with half as many was ever found to run
CHARGE_OF_MODULES = 15_000_000  # in parameters: another guess may do better, but not every one may be like this


class TooLarge(Exception):
    """`charge`: how many parameters the attempt counts for."""

    def __init__(self, what: str, charge: int):
        self.charge = charge
        super().__init__(f"too many {what}")


@contextmanager
def bounded_size() -> Iterator[None]:
    """Raise `TooLarge` out of a constructor that goes beyond these limits, where it gives a module its next part."""
    built = parameters = 0

    def count_module(owner: Any, name: str, part: Any) -> None:
        nonlocal built
        built += 1
        if built > MAX_MODULES:
            raise TooLarge("modules", CHARGE_OF_MODULES)

    def count_parameters(owner: Any, name: str, value: Any) -> None:
        nonlocal parameters
        if value is not None and not is_lazy(value):
            parameters += value.nelement()
        if parameters > MAX_PARAMETERS:
            raise TooLarge("parameters", parameters)

    hooks = [
        modules.register_module_module_registration_hook(count_module),
        modules.register_module_parameter_registration_hook(count_parameters),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
