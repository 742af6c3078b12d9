"""Modules whose result holds `None` or numbers beside tensors: a subclass returns the tensors alone."""

import inspect
import re
from typing import Any

import torch

from musadata.mining.arguments.attempt_execution import AttemptRunner, tensors
from musadata.mining.arguments.attempts import Attempt
from musadata.mining.slicing.renaming import rename_text


def return_tensors(source: str, attempt: Attempt, class_name: str) -> str:
    """The definitions, with a subclass if the module returns a tuple, list or dictionary with other items as well.

    Args:
        class_name: what `Model` is called then.
    """
    runner = AttemptRunner(source, 1)
    model = runner.load()
    places = _tensor_places(runner.call(attempt))
    if not places:
        return source
    taken = set(re.findall(r"\w+", source))
    own = next(
        item for item in (class_name, *(f"{class_name}{number}" for number in range(2, 1000))) if item not in taken
    )
    names = list(inspect.signature(model.forward).parameters)[1 : 1 + len(attempt.draws)]  # type: ignore[attr-defined]
    kept = ", ".join(f"result[{place!r}]" for place in places)
    return (
        f"{rename_text(source, {'Model': own}).rstrip()}\n\n\nclass Model({own}):\n"
        f"    def forward({', '.join(['self', *names])}):\n"
        f"        result = super().forward({', '.join(names)})\n        return {kept}\n"
    )


def _tensor_places(result: Any) -> list[int | str]:
    """Indices or keys of the items that hold tensors alone, if others do not; [] if nothing has to be chosen."""
    items = (
        list(result.items())
        if type(result) is dict
        else list(enumerate(result))
        if type(result) in (tuple, list)
        else []
    )
    found = [key for key, value in items if _is_tensors(value)]
    return found if len(found) < len(items) and all(isinstance(key, (int, str)) for key in found) else []


def _is_tensors(value: Any) -> bool:
    if type(value) in (tuple, list):
        return bool(value) and all(map(_is_tensors, value))
    return isinstance(value, torch.Tensor) and bool(tensors(value))
