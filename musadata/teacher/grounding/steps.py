"""Reading the six steps out of an answer."""

import itertools
import re

from musadata.records import ReasoningStep

# The paper's six steps.
STEPS = (
    "semantic decomposition",
    "scalar mathematics",
    "shape calculation",
    "index mapping",
    "boundary handling",
    "error pre-analysis",
)

_NAMES = {re.sub(r"[\s-]+", "", step): step for step in STEPS}
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*|__)?(?:step[ \t]*)?(?:[1-6][.):]?[ \t]*)?(?:\*\*|__)?[ \t]*(?P<name>"
    + "|".join(r"[ \t-]*".join(re.split(r"[\s-]", step)) for step in STEPS)
    + r")(?:\*\*|__)?[ \t]*:?[ \t]*(?:\*\*|__)?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def parse_steps(text: str) -> tuple[ReasoningStep, ...]:
    """Those of the six steps that an answer has, in their order; what a model thinks before (`</think>`) is dropped."""
    text = text.rsplit("</think>", 1)[-1]
    found: dict[str, str] = {}
    matches = list(_HEADING.finditer(text))
    for match, following in itertools.zip_longest(matches, matches[1:]):
        body = text[match.end() : following.start() if following else len(text)].strip()
        step = _NAMES[re.sub(r"[\s-]+", "", match["name"].lower())]
        if body:
            found.setdefault(step, body)
    return tuple(ReasoningStep(step, found[step]) for step in STEPS if step in found)
