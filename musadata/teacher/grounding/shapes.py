"""Claims in tuples: shapes, strides, places of elements, arguments."""

import itertools
import re
from collections.abc import Iterator

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged, unchecked
from musadata.teacher.grounding.facts import slices, strides_of
from musadata.teacher.grounding.reading import ItemKind
from musadata.teacher.grounding.view import View

_ARGUMENT = re.compile(
    r"\b(?:dims?|axes|axis|dimensions|kernel(?: size)?|kernel_size|padding|pad|"
    r"padded by|dilation|window|output_size|output size|size|normalized_shape|"
    r"shifts?|repeats?|permutation|order|permutes?(?: with)?|reshape|view|expand)(?: (?:of|"
    r"is|by|to|with|=))*[ (]*$"
)
_STRIDE = re.compile(r"\bstrides?\b(?:(?! shape| S\d)[^;])*$")
_INDEX = re.compile(
    r"\b(?:index|indices|element|elements|position|coordinates?|entry|at|multi-index)(?: (?:of|is|are|=|:))*[ (]*$"
)
_RANGE = re.compile(
    r"\b(?:in|within|range|interval|anywhere in|from|lies in|runs over|spans|"
    r"values in|indices in)(?: (?:the|range|interval|of))* $"
)
_SHAPE_NOUN = (
    r"(?:matrix|matrices|tensors?|arrays?|images?|planes?|maps?|grid of elements|"
    r"each|column|slices?|output|result|input|batch|weight|product|blocks? of (?:the )?(?:matrix|"
    r"output))"
)


def judge_tuples(view: View) -> Iterator[Claim]:
    for at, item in view.of_kind(ItemKind.TUPLE):
        if at in view.taken:
            continue
        numbers = item.value
        assert isinstance(numbers, tuple)
        view.taken.add(at)
        before = view.before(at, 60)
        if re.search(
            r"\b(?:blocks?|grid|griddim|blockdim|dim3|tiles?|launch|threads)(?: (?:of|is|=|shape|size|with))*[ (]*$",
            before,
        ):
            yield unchecked(ClaimKind.GEOMETRY, item.text)
        elif _STRIDE.search(before):
            yield _strides(view, at, numbers)
        elif _ARGUMENT.search(before):
            known = numbers in view.facts.tuples or set(
                map(abs, numbers)
            ) <= view.facts.arguments | view.facts.sizes | {0, 1, 2, 3, 4}
            yield judged(ClaimKind.ARGUMENT, item.text, known or numbers in view.facts.shapes, "no such argument")
        elif len(numbers) == 2 and numbers[0] == 0 and _RANGE.search(before):
            yield _interval(view, at, numbers)
        elif _INDEX.search(before) and not re.search(r"\bshape", before[-30:]) and numbers not in view.facts.shapes:
            yield _place(view, at, numbers)
        else:
            yield _shape(view, at, numbers, item.text)
    yield from _products(view)


def _products(view: View) -> Iterator[Claim]:
    """`8 * 33` as a shape: "is 32 by 33", "a 25 × 25 matrix"."""
    for at, quantity in view.open_figures():
        if not quantity.factors or len(quantity.sides) > 1:
            continue
        after, before = view.after(at, 40), view.before(at, 50)
        if re.match(
            r"(?:kernels?|filters?|windows?|pool|pooling|convolution|tiles?|blocks?|threads?|stencil|grid|unroll)\b",
            after,
        ) or re.search(r"\b(?:tiles?|blocks?|window|kernel|grid|filter)(?: (?:of|is|=|:|size))* $", before):
            if re.match(r"(?:kernels?|filters?|windows?|convolution|pool|pooling)\b", after):
                view.taken.add(at)
                tuples = view.facts.tuples | {part for shape in view.facts.shapes for part in slices(shape)}
                yield judged(ClaimKind.ARGUMENT, view.words(at), quantity.factors in tuples, "no such window")
            continue
        is_subject = _owner(view, at) or re.search(
            (
                r"\b(?:matrix|tensor|shape|view|accumulator|copy|it|map) (?:is|are|has|of|"
                r"with|becomes|:|=)(?: (?:a|an|of|the|shape|size))* $"
            ),
            before,
        )
        is_noun = re.match(rf"(?:[a-z]+ )?{_SHAPE_NOUN}\b", after) and not re.match(
            r"(?:[a-z]+ )?(?:elements|values|floats|entries|bytes|results|outputs)", after
        )
        moved = re.search(r"\b(?:from|to|into|of) $", before) and re.match(r"(?:to|into|becomes?|,|\.|$|->)", after)
        if is_subject or is_noun or moved:
            if re.match(
                (
                    r"(?:[a-z]+ )?(?:elements|values|floats|entries|bytes|flops|results|threads|"
                    r"weights|outputs|scores|logits|numbers)\b"
                ),
                after,
            ):
                continue
            view.taken.add(at)
            yield _shape(view, at, quantity.factors, view.items[at].text, strict=bool(is_subject))


def _strides(view: View, at: int, numbers: tuple[int, ...]) -> Claim:
    subject = view.subject(at)
    chosen = subject.facts if subject else view.facts.tensors
    good = numbers in {fact.stride for fact in chosen} or (
        subject is not None
        and subject.by_operator
        and numbers in {f.stride for fact in chosen for f in view.facts.operands(fact)}
        and bool(re.search(r"\bbefore\b", view.skeleton))
    )
    if subject and re.search(r"\bbefore the (?:copy|clone)\b", view.skeleton):
        good = good or numbers in view.facts.strides
    good = good or (len(numbers) <= 3 and numbers in view.facts.tuples)  # of a convolution or pool
    return judged(ClaimKind.STRIDE, f"strides {view.items[at].text}", good, "no such strides")


def _interval(view: View, at: int, numbers: tuple[int, ...]) -> Claim:
    """`[0, 64]`: closed, unless the text says otherwise."""
    last = numbers[1]
    if re.match(r"(?:, )?(?:exclusive|excluded|half-open)", view.after(at, 30)) or view.items[at].text.endswith(")"):
        last -= 1
    subject = view.subject(at)
    spans = {
        span[1] for name, span in view.facts.spans.items() if not subject or name in {f.name for f in subject.facts}
    }
    allowed = spans or {size - 1 for size in view.facts.sizes | view.facts.counts}
    return judged(ClaimKind.INDEX_RANGE, view.items[at].text, last in allowed, "not the range of these")


def _place(view: View, at: int, numbers: tuple[int, ...]) -> Claim:
    subject = view.subject(at)
    chosen = [fact for fact in (subject.facts if subject else view.facts.tensors) if len(fact.shape) == len(numbers)]
    chosen = chosen or [fact for fact in view.facts.tensors if len(fact.shape) == len(numbers)]
    inside = [fact for fact in chosen if all(0 <= n < size for n, size in zip(numbers, fact.shape, strict=True))]
    if not inside:
        return judged(ClaimKind.INDEX_RANGE, view.items[at].text, False, "no tensor has such an element")
    offsets = {sum(map(int.__mul__, numbers, steps)) for f in inside for steps in (f.stride, strides_of(f.shape))}
    for behind, quantity in view.open_figures():
        if behind > at and re.search(
            (
                r"\b(?:at|offset|index|address|position|element|=)(?: (?:offset|index|flat|"
                r"position|address|is|of|linear))* $"
            ),
            view.before(behind, 40),
        ):
            view.taken.add(behind)
            words = f"{view.items[at].text} at {view.items[behind].text}"
            return judged(
                ClaimKind.INDEX_FORMULA,
                words,
                int(quantity.value) in offsets and is_true_equation(quantity.sides),
                "not the offset of this element",
            )
    return judged(ClaimKind.INDEX_RANGE, view.items[at].text, True, "")


def is_true_equation(sides: tuple[str, ...]) -> bool:
    from musadata.teacher.grounding.expressions import evaluate

    values = [evaluate(side.removeprefix("~ ")) for side in sides]
    return len({value for value in values if value is not None}) <= 1


def _shape(view: View, at: int, numbers: tuple[int, ...], text: str, strict: bool = False) -> Claim:
    facts = view.facts
    owner = _owner(view, at)
    if owner:
        good = (
            numbers in {fact.shape for fact in owner}
            or (
                len(numbers) < max((len(fact.shape) for fact in owner), default=0)
                and not strict
                and numbers in {part for fact in owner for part in slices(fact.shape)}
            )
            or (len(numbers) == 2 and any(numbers == fact.shape[-2:] for fact in owner))
        )
        return judged(ClaimKind.SHAPE, text, good, "not the shape of this tensor")
    known = numbers in facts.shapes or numbers in facts.strides or numbers in facts.tuples
    known = known or any(numbers in slices(shape) for shape in facts.shapes)
    known = known or all(abs(n) <= 1 for n in numbers)
    if not known and len(numbers) == 2:
        known = numbers in {(a, b) for shape in facts.shapes for a, b in itertools.pairwise(_merged(shape))}
    return judged(ClaimKind.SHAPE, text, known, "no such shape, stride or argument")


def _merged(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n != 1]


_OWNED = re.compile(
    r"^(?:(?:has|have|is|are|of|with|a|an|the|shape|shapes?|:|=|keeps|becomes|"
    r"stays|stored|as|in|now|still|then|itself|also|arrives|comes|enters|holds|"
    r"size|sized|being|form|forms|tensor|and|its|dtype|returned|,|\(|gives|leaves|"
    r"yields|produces|makes|turned|into|remains|before|output|input|parameter|"
    r"view|only|really|D\d+|both|each|each of|by|reads|measures|laid|out|contiguous|"
    r"row-major|created|T\d+|result|array|matrix|therefore|exactly|shaped|weight|"
    r"to|expands|maps) ?)*$"
)


def _owner(view: View, at: int) -> tuple[TensorFact, ...]:
    """The tensors whose shape a tuple is, where the words between say that."""
    items = view.items
    for mention in reversed(view.subjects.mentions):
        if mention.at >= at:
            continue
        between = view.skeleton[view.sentence.end(mention.at) : view.sentence.start(at)]
        if "-" in between.split() or "->" in between.split():
            return ()
        match = _OWNED.match(between)
        if match is None:
            return ()
        if mention.by_operator and not re.search(
            r"\b(?:has|is|are|shape|gives|leaves|yields|produces|=|becomes|into|forms?)\b|^$", between.strip()
        ):
            return ()
        if re.search(r"\bT\d+\b", between) and not mention.by_operator:
            return ()
        if not mention.by_operator and re.search(
            r"\b(?:into|to|gives|leaves|yields|produces|makes|turned|expands|maps)\b", between
        ):
            return ()
        extra = mention.facts
        operand = re.search(r"\bbefore\b", between + view.after(at, 30))
        if operand and mention.by_operator:
            extra = tuple(f for fact in mention.facts for f in view.facts.operands(fact)) + extra
        return extra
    del items
    return ()
