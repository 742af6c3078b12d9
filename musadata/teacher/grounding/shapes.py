"""Claims in tuples and products: shapes, strides, places of elements, arguments."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged, unchecked
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.facts import slices, strides_of
from musadata.teacher.grounding.lexicon import WORDS
from musadata.teacher.grounding.reading import ItemKind

_OF_NAMES, _READS_PLACE = (
    re.compile(r"\(names\) = $"),
    re.compile(r"\b(?:reads?|takes?|from)(?: the)?(?: input| output| element)* $"),
)
_OF_THREADS = re.compile(r"\b(?:threads?|grid|launch|tiles?|tiling|cuda|kernel)\b")
_CLAMPED = re.compile(r"\b(?:clamp\w*|clip\w*|limits?) ")
_BLOCK = re.compile(r"blocks?\b")
_MOST_AXES = 7

Shape = tuple[int, ...]


def judge_tuples(view: View) -> Iterator[Claim]:
    for at, item in view.of_kind(ItemKind.TUPLE):
        if at in view.taken:
            continue
        numbers, before = item.value, view.before(at, 60)
        assert isinstance(numbers, tuple)
        view.taken.add(at)
        if (
            WORDS.before_geometry.search(before)
            or WORDS.supposed.search(before)
            or WORDS.measured_only.match(view.after(at, 24))
        ):
            yield unchecked(ClaimKind.GEOMETRY, item.text)
        elif WORDS.before_strides.search(before):
            yield _strides(view, at, numbers)
        elif WORDS.before_argument.search(before):
            facts = view.facts
            loose = facts.arguments | facts.sizes | {0, 1, 2, 3, 4}
            known = numbers in facts.tuples or numbers in facts.shapes or set(map(abs, numbers)) <= loose
            yield judged(ClaimKind.ARGUMENT, item.text, known, "no such argument")
        elif _OF_NAMES.search(before) or (_READS_PLACE.search(before) and numbers not in view.facts.shapes):
            yield _place(view, at, numbers)
        elif len(numbers) == 2 and _CLAMPED.search(view.skeleton):
            yield unchecked(ClaimKind.ARGUMENT, item.text)
        elif len(numbers) == 2 and numbers[0] == 0 and WORDS.before_interval.search(before):
            yield _interval(view, at, numbers)
        elif WORDS.before_place.search(before) and numbers not in view.facts.shapes:
            yield _place(view, at, numbers)
        else:
            yield _shape(view, at, numbers, item.text)
    for at, item in view.of_kind(ItemKind.PLACE):
        if at and view.items[at - 1].kind is ItemKind.TENSOR and isinstance(item.value, tuple):
            yield _element(view, at, item.value)
    yield from _products(view)


def _element(view: View, at: int, numbers: Shape) -> Claim:
    """`x[3, 1]`: as many indices as axes, or the first ones, or one flat index."""
    name = view.items[at - 1].text
    fact = view.facts.by_name.get(name)
    if fact is None or len(numbers) > len(fact.shape) or (len(numbers) == 1 and numbers[0] < math.prod(fact.shape)):
        return unchecked(ClaimKind.INDEX_RANGE, name + view.items[at].text)
    if len(numbers) == len(fact.shape) and WORDS.before_offset.search(view.skeleton):
        return _place(view, at, numbers)
    inside = all(-size <= n < size for n, size in zip(numbers, fact.shape, strict=False))
    return judged(ClaimKind.INDEX_RANGE, name + view.items[at].text, inside, "no such element")


def _products(view: View) -> Iterator[Claim]:
    """`8 * 33` as a shape: "is 32 by 33", "a 25 × 25 matrix", "from 15 × 8 to 18 × 11"."""
    for at, quantity in view.open_figures():
        if not quantity.factors or len(quantity.sides) > 1:
            continue
        before, after = view.before(at, 50), view.after(at, 40)
        if WORDS.window_noun.match(after):
            view.taken.add(at)
            tuples = view.facts.tuples | {part for shape in view.facts.shapes for part in slices(shape)}
            yield judged(ClaimKind.ARGUMENT, view.words(at), quantity.factors in tuples, "no such window")
        elif WORDS.before_geometry.search(before) or (
            WORDS.counted.match(after) and (not _BLOCK.match(after) or _OF_THREADS.search(view.skeleton))
        ):
            continue
        elif (
            WORDS.measured.match(after)
            or _BLOCK.match(after)
            or WORDS.is_shape.search(before)
            or (WORDS.before_moved.search(before) and WORDS.ends.match(after))
        ):
            view.taken.add(at)
            yield _shape(view, at, quantity.factors, view.items[at].text)


def _strides(view: View, at: int, numbers: Shape) -> Claim:
    subject = view.subject(at)
    before = [mention for mention in view.mentions if mention.at < at]
    if before and WORDS.relative.search(
        view.skeleton[: view.sentence.start(at)]
    ):  # "the result that enters the product"
        before = before[:1]
    named = [fact for mention in before for fact in mention.facts]
    chosen: Iterable[TensorFact] = subject.facts if subject.is_certain else named or view.facts.tensors
    shape = _shape_before(view, at, len(numbers))
    if shape:  # "(64, 32) with strides (1, 64)"
        of_shape = [fact for fact in chosen if fact.shape == shape]
        chosen = of_shape or [fact for fact in view.facts.tensors if fact.shape == shape] or chosen
    known = {fact.stride for fact in chosen}
    good = numbers in known or (len(numbers) <= 3 and numbers in view.facts.tuples)  # of a convolution or pool
    return judged(ClaimKind.STRIDE, f"strides {view.items[at].text}", good, "no such strides")


def _shape_before(view: View, at: int, length: int) -> Shape | None:
    """The only shape of so many axes that stands before an item."""
    shapes = {item.value for place, item in view.of_kind(ItemKind.TUPLE) if place < at}
    found = [shape for shape in shapes if isinstance(shape, tuple) and len(shape) == length]
    return found[0] if len(found) == 1 and found[0] in view.facts.shapes else None


def _interval(view: View, at: int, numbers: Shape) -> Claim:
    """`[0, 64]`: closed, unless the text says otherwise."""
    is_open = WORDS.exclusive.match(view.after(at, 30)) or view.items[at].text.endswith(")")
    subject, facts = view.subject(at), view.facts
    names = {fact.name for fact in subject.facts}
    spans = {span[1] for name, span in facts.spans.items() if not subject.is_named or name in names}
    allowed = spans or {size - 1 for size in facts.sizes | facts.counts}
    return judged(ClaimKind.INDEX_RANGE, view.items[at].text, numbers[1] - bool(is_open) in allowed, "not their range")


def _place(view: View, at: int, numbers: Shape) -> Claim:
    """ "Element (3, 1) is at offset 100"."""
    subject, text = view.subject(at), view.items[at].text
    chosen = [fact for fact in subject.facts if len(fact.shape) == len(numbers)]
    chosen = chosen or [fact for fact in view.facts.tensors if len(fact.shape) == len(numbers)]
    inside = [fact for fact in chosen if all(0 <= n < size for n, size in zip(numbers, fact.shape, strict=True))]
    planes = {fact.shape[-len(numbers) :] for fact in view.facts.tensors if len(fact.shape) > len(numbers)}
    if not inside and any(all(0 <= n < size for n, size in zip(numbers, plane, strict=True)) for plane in planes):
        return unchecked(ClaimKind.INDEX_RANGE, text)
    if not inside:
        return judged(ClaimKind.INDEX_RANGE, text, False, "no tensor has such an element")
    offsets = {
        sum(map(int.__mul__, numbers, steps)) for fact in inside for steps in (fact.stride, strides_of(fact.shape))
    }
    for behind, quantity in view.open_figures():
        if behind > at and WORDS.before_offset.search(view.before(behind, 40)):
            view.taken.add(behind)
            words = f"{text} at {view.items[behind].text}"
            return judged(
                ClaimKind.INDEX_FORMULA, words, int(quantity.value) in offsets, "not the offset of this element"
            )
    return judged(ClaimKind.INDEX_RANGE, text, True, "")


def _shape(view: View, at: int, numbers: Shape, text: str) -> Claim:
    facts, subject = view.facts, view.subject(at)
    gives = subject.made and WORDS.giving.search(view.before(at, 40))  # "the mean drops a dimension, giving (8, 33)"
    if WORDS.returned.search(view.before(at, 80)) or WORDS.is_returned.match(view.after(at, 24)):
        good = any(fact.shape == numbers for fact in facts.outputs)
        return judged(ClaimKind.SHAPE, text, good, "not the shape of an output")
    owned = (subject.is_certain and not WORDS.view_of.search(view.before(at, 60))) or bool(gives)
    chosen: Iterable[TensorFact] = (subject.made if gives else subject.facts) if owned else facts.tensors
    shapes = {fact.shape for fact in chosen}
    parts = {part for shape in shapes for part in slices(shape)} if len(numbers) < _rank(shapes) else set()
    if owned and not WORDS.rearranged.search(view.skeleton):
        tails = {shape[-len(numbers) :] for shape in shapes} if len(numbers) >= 2 else parts
        if subject.made:  # a convolution "is a 10 × 10 matrix"
            tails |= {tuple(n for n in operand.shape if n != 1) for f in subject.made for operand in facts.operands(f)}
        return judged(ClaimKind.SHAPE, text, numbers in shapes | tails, "not the shape of this tensor")
    if subject.made:  # operands as well
        shapes = set(facts.shapes)
    known = numbers in view.facts.score_shapes | shapes | parts | facts.strides | facts.tuples or all(
        abs(n) <= 1 for n in numbers
    )
    known = known or any(numbers in merges(tuple(n for n in shape if n != 1)) for shape in shapes)
    return judged(ClaimKind.SHAPE, text, known, "no such shape, stride or argument")


def _rank(shapes: Iterable[Shape]) -> int:
    return max(map(len, shapes), default=0)


def merges(shape: Shape) -> set[Shape]:
    """The shapes that it has when neighbouring axes are taken together."""
    if len(shape) > _MOST_AXES:
        return {shape}
    found = set()
    for length in range(len(shape)):
        for cuts in itertools.combinations(range(1, len(shape)), length):
            ends = [0, *cuts, len(shape)]
            found.add(tuple(math.prod(shape[start:end]) for start, end in itertools.pairwise(ends)))
    return found
