"""Stopping the construction of a module that is too large. Runs inside the sandbox.

A guess of 24 for the depth of a tree constructs sixteen million modules; three such guesses took a quarter of the time
for all of timm.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.modules import module as modules
from torch.nn.parameter import is_lazy

MAX_MODULES = 10_000
MAX_PARAMETERS = 144_000_000  # a VGG has 138 million, of which many networks keep the convolutions alone
CHARGE_OF_MODULES = 15_000_000  # parameters charged for too many modules: allows another guess, but not many


class TooLarge(Exception):
    """`charge`: the number of parameters that the attempt counts as."""

    def __init__(self, what: str, charge: int):
        self.charge = charge
        super().__init__(f"too many {what}")


@contextmanager
def bounded_size() -> Iterator[None]:
    """Raise `TooLarge` in a constructor when it registers a submodule or parameter beyond these limits."""
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
