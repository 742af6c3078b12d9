"""Claims about the axis along which an operator reduces, normalises, scans or moves."""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.facts import RESHAPES, Facts, base_name, products
from musadata.teacher.grounding.lexicon import LEXICON, WORDS

_AXES: dict[str, list[int]] = LEXICON["axes"]
_DIMENSIONS: dict[str, list[int]] = LEXICON["dimensions"]
_NO_REDUCTION = frozenset(LEXICON["no_reduction"].split())


class Action(NamedTuple):
    """An operator that acts along some axes of a shape."""

    fact: TensorFact
    shape: tuple[int, ...]
    axes: frozenset[int]

    @property
    def counts(self) -> set[int]:
        """Elements of these axes, of any of them taken together."""
        return set(products(tuple(self.shape[axis] for axis in self.axes)))


def action(facts: Facts, fact: TensorFact) -> Action | None:
    """The axes along which an operator acts; None if it has no such argument."""
    operands, name = facts.operands(fact), base_name(fact.operator)
    if not operands or not operands[0].shape or name in RESHAPES or "dim0=" in fact.arguments:
        return None
    shape = operands[0].shape
    normalised = re.search(r"normalized_shape=\[([0-9, ]+)\]", fact.arguments)
    named = facts.argument([fact], "dim") if re.search(r"\bdims?=", fact.arguments) else set()
    if normalised:
        named = set(range(-len(normalised[1].split(",")), 0))
    elif not named and name in ("sum", "mean", "amax", "amin", "max", "min", "prod") and not fact.shape:
        named = set(range(len(shape)))
    axes = frozenset(axis % len(shape) for axis in named if -len(shape) <= axis < len(shape))
    return Action(fact, shape, axes) if axes else None


def judge_axes(view: View) -> Iterator[Claim]:
    reduces = WORDS.reduces.search(view.skeleton)
    if not (reduces or any(m.by_operator for m in view.mentions)) or WORDS.hypothetical.search(view.skeleton):
        return
    numbers: set[int] = set()
    if not WORDS.of_layout.search(view.skeleton):
        yield from _numbered(view, numbers)
    if reduces and not WORDS.other_sum.search(view.skeleton):
        yield from _counted(view, numbers)
        yield from _named(view)


def _chosen(view: View, end: int) -> list[Action]:
    """What acts in a sentence: the operator named last before a place, else any of the trace."""
    facts = view.facts
    made = [m for m in view.mentions if m.by_operator]
    acting = {m.at: found for m in made if (found := [act for fact in m.facts if (act := action(facts, fact))])}
    before = [at for at in acting if view.sentence.start(at) <= end]
    if before:
        return acting[before[-1]]
    if made and any(not action(facts, fact) for m in made for fact in m.facts if base_name(fact.operator) != "pow"):
        return []
    found = [act for fact in facts.tensors if (act := action(facts, fact))]
    return [act for act in found if base_name(act.fact.operator) not in _NO_REDUCTION]


def _numbered(view: View, numbers: set[int]) -> Iterator[Claim]:
    """ "The softmax runs over dim 1"."""
    for match in WORDS.numbered_axis.finditer(view.skeleton):
        acts = _chosen(view, match.start())
        if (
            "accumul" in view.skeleton
            or not acts
            or _is_denied(view, match.start())
            or _is_of_another_call(view, match.start())
        ):
            continue
        if match["number"]:
            number = int(match["number"][1:])
            view.taken.add(number)
            named = [int(view.quantity(number).value) * (-1 if match["minus"] else 1)]
        else:
            named = _AXES[match["word"]]
        numbers.update(named)
        holds = any(axis % len(act.shape) in act.axes for act in acts for axis in named)
        yield judged(ClaimKind.DIMENSION, match[0], holds, "another axis in the trace")


def _counted(view: View, numbers: set[int]) -> Iterator[Claim]:
    """ "Averages over the 24 rows": as many as that axis has, and not as another one has."""
    for match in WORDS.counted_axis.finditer(view.skeleton):
        at = int(match["count"])
        acts = [act for act in _chosen(view, match.start()) if base_name(act.fact.operator) not in _NO_REDUCTION]
        if at in view.taken or not acts or _is_denied(view, match.start()):
            continue
        acts = [act for act in acts if any(axis % len(act.shape) in act.axes for axis in numbers)] or acts
        value = view.quantity(at).value
        results = [fact for m in view.mentions if not m.by_operator for fact in m.facts]  # "`mean` = … over the 8 rows"
        results = [fact for fact in results if fact.operator and fact.role != "output"]
        holds = any(value in act.counts | view.facts.reduced(act.fact) for act in acts)
        holds = holds or any(value in view.facts.reduced(fact) for fact in results)
        if holds or any(value in products(act.shape) and value > 1 for act in acts):
            view.taken.add(at)
            yield judged(ClaimKind.DIMENSION, view.words(at), holds, "not what goes into one result")


def _named(view: View) -> Iterator[Claim]:
    """ "Averages over the channels"."""
    for match in WORDS.named_axis.finditer(view.skeleton):
        acts = [act for act in _chosen(view, match.start()) if base_name(act.fact.operator) not in _NO_REDUCTION]
        acts = [act for act in acts if math.prod(act.shape[axis] for axis in act.axes) > 1]
        if not acts or _is_denied(view, match.start()):
            continue
        word = match["noun"]
        names = _DIMENSIONS.get(word) or _DIMENSIONS[word.rstrip("s")]
        holds = any(axis % len(act.shape) in act.axes for act in acts for axis in names if -axis <= len(act.shape))
        yield judged(ClaimKind.DIMENSION, match[0], holds, "another axis in the trace")


def _is_denied(view: View, place: int) -> bool:
    return bool(WORDS.negated.search(view.skeleton[:place][-50:]))


def _is_of_another_call(view: View, place: int) -> bool:
    """Whether it is an argument of a call that the trace does not know: "repeat_interleave(2, dim=1)"."""
    before = view.skeleton[: place + 1]
    opened = re.search(r"(\S+) \([^()]*$", before)
    known = {view.items[m.at].text.lower() for m in view.mentions}
    return opened is not None and before[place] in "(," and opened[1] not in known
