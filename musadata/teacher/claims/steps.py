"""The form of an analysis: six steps under headings, and a section with the claims of their sentences."""

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

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

CLAIMS = "claims"  # the section that may follow the six steps
_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\da-z])")
_FEWEST_WORDS = 3  # of a sentence

_NAMES = {re.sub(r"[\s-]+", "", name): name for name in (*STEPS, CLAIMS)}
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*|__)?(?:step[ \t]*)?(?:[1-7][.):]?[ \t]*)?(?:\*\*|__)?[ \t]*(?P<name>"
    + "|".join(r"[ \t-]*".join(re.split(r"[\s-]", name)) for name in (*STEPS, CLAIMS))
    + r")(?:\*\*|__)?[ \t]*:?[ \t]*(?:\*\*|__)?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def parse_steps(text: str) -> tuple[ReasoningStep, ...]:
    """Those of the six steps that an answer has, in their order; what a model thinks before (`</think>`) is dropped."""
    found = read_sections(text)
    return tuple(ReasoningStep(step, found[step]) for step in STEPS if step in found)


def read_sections(text: str) -> dict[str, str]:
    """The six steps and `CLAIMS`, as far as an answer has them."""
    text = text.rsplit("</think>", 1)[-1]
    found: dict[str, str] = {}
    matches = list(_HEADING.finditer(text))
    for match, following in itertools.zip_longest(matches, matches[1:]):
        body = text[match.end() : following.start() if following else len(text)].strip()
        if body:
            found.setdefault(_NAMES[re.sub(r"[\s-]+", "", match["name"].lower())], body)
    return found


def render_steps(steps: Sequence[ReasoningStep]) -> str:
    """Six steps as one text under their headings; `parse_steps` reads it back."""
    return "\n\n".join(f"{heading(step.step)}\n\n{step.text.strip()}" for step in steps)


@cache
def heading(step: str) -> str:
    """A step's heading: `### 4. Index mapping`."""
    return f"### {STEPS.index(step) + 1}. {step.capitalize()}"


def split_sentences(text: str) -> list[str]:
    """The sentences of a step, without code blocks, headings and marks of lists."""
    lines = (line.strip().lstrip("-*•> ").strip() for line in _CODE.sub("\n", text).splitlines())
    parts = (part for line in lines if not line.startswith("#") for part in _SENTENCE_END.split(line))
    return [part for part in parts if len(part.split()) >= _FEWEST_WORDS]


def parse_claims(text: str) -> list[tuple[str, str]]:
    """Sentences and expressions in the section "Claims" of an answer."""
    return stated_claims(read_objects(read_sections(text).get(CLAIMS, "")))


def stated_claims(items: Any) -> list[tuple[str, str]]:
    """The sentences and expressions of a foreign list of `{"sentence": "…", "claim": "…"}`."""
    objects = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    pairs = ((item.get("sentence"), item.get("claim")) for item in objects)
    return [(one, claim) for one, claim in pairs if isinstance(one, str) and isinstance(claim, str)]


def render_analysis(steps: Sequence[ReasoningStep], claims: Iterable[tuple[str, str]]) -> str:
    """Six steps and their claims as `parse_steps` and `parse_claims` read them."""
    lines = [json.dumps({"sentence": one, "claim": claim}, ensure_ascii=False) for one, claim in claims]
    section = f"\n\n### {CLAIMS.capitalize()}\n\n[\n" + ",\n".join(lines) + "\n]" if lines else ""
    return render_steps(steps) + section


def read_objects(reply: str) -> list[dict[str, Any]]:
    """The list of objects in a reply, in a fence or not; empty if there is none."""
    start, end = reply.find("["), reply.rfind("]")
    try:
        value = json.loads(reply[start : end + 1], strict=False) if start >= 0 else []
    except (ValueError, RecursionError):
        return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
