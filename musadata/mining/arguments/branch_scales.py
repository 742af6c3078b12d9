"""Opening branches that a tiny default closes.

ConvNeXt multiplies each block's branch by 1e-6 at first: whoever returns the input unchanged would be right.
"""

import inspect
import re
from collections.abc import Sequence
from dataclasses import replace

from musadata.mining.arguments.attempt_execution import AttemptRunner
from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.defaults import default_text

SCALES = re.compile(r"init_val|init_scale|layer_?scale|(^|_)gamma|res(idual)?_scale|ls_init")
TINY = 1e-3
OPEN = "0.5"


def open_branches(runner: AttemptRunner, attempt: Attempt, parameters: Sequence[inspect.Parameter]) -> Attempt:
    """The attempt with a scale of 0.5 in place of each tiny one, where the module still runs."""
    for place, item in enumerate(parameters):
        trial = _opened(attempt, parameters, place) if SCALES.search(item.name) else None
        if trial is not None and not runner.exhausted and runner.attempt(trial).ok:
            attempt = trial
    return attempt


def _opened(attempt: Attempt, parameters: Sequence[inspect.Parameter], place: int) -> Attempt | None:
    """The attempt with another scale at this place; None if the one there is not tiny."""
    default = parameters[place].default
    value = attempt.init[place] if place < len(attempt.init) else repr(default)
    if not re.fullmatch(r"-?\d+\.?\d*(e-?\d+)?", value) or abs(float(value)) > TINY or value == "0":
        return None
    between = [default_text(item.default) for item in parameters[len(attempt.init) : place]]
    if None in between:
        return None
    texts = [*attempt.init, *map(str, between)]
    return replace(attempt, init=(*texts[:place], OPEN, *texts[place + 1 :]))
