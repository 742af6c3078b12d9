"""Claims about strides, index formulas and ranges of indices."""

import ast
import math
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.expressions import linear_steps, parse, split_steps
from musadata.teacher.grounding.facts import strides_of
from musadata.teacher.grounding.reading import ItemKind
from musadata.teacher.grounding.view import View

_APART = (
    r"(?:elements?|floats?|values?|entries|positions?|numbers|places|slots|indices|"
    r"words|columns|rows)? ?(?:apart|away|further|later|ahead|distance|stride|"
    r"from each other|from one another|between (?:consecutive|neighbou?ring|"
    r"adjacent|successive))\b"
)
_STRIDE_LEAD = re.compile(
    r"\b(?:strides?(?: (?:along|of|for|in|over) (?:the |its )?[\w ]{1,24}?)?(?: (?:is|"
    r"of|=|:|are|equals|becomes|stays|remains|at|being|has|being still|being only))*|"
    r"jumps?(?: by| over)?|skips?(?: by| over)?|steps? (?:of|by)|advances?(?: by)?|"
    r"spaced|apart by|separated by|distance of|moves? by)(?: (?:only|exactly|"
    r"about|just|still))* $"
)
_AXIS = {
    "batch": 0,
    "sample": 0,
    "first": 0,
    "outermost": 0,
    "leading": 0,
    "channel": 1,
    "row": -2,
    "last": -1,
    "innermost": -1,
    "column": -1,
    "inner": -1,
    "second": 1,
    "third": 2,
}
_ORDER = (
    ("n", "b", "c", "d", "h", "w"),
    ("b", "h", "s", "d"),
    ("n", "i", "j"),
    ("i", "j", "k"),
    ("row", "col"),
    ("r", "c"),
    ("n", "i", "k"),
    ("b", "i", "j"),
    ("m", "k", "n"),
)


def judge_strides(view: View) -> Iterator[Claim]:
    for at, quantity in view.open_figures():
        before, after = view.before(at, 80), view.after(at, 80)
        behind = re.match(rf"{_APART}", after)
        if not behind and not _STRIDE_LEAD.search(before):
            continue
        if (
            re.match(r"(?:blocks|threads|warps|bytes)\b", after)
            or re.search(r"\b(?:conv\w*|pool\w*|kernel|window|padding|grid)\b.{0,30}$", before)
            or re.match(r"(?:kernel|convolution|pool|window|in both|in each direction)", after)
        ):
            if not re.match("bytes", after) and int(quantity.value) in view.facts.argument(
                view.facts.tensors, "stride"
            ):
                view.taken.add(at)
            continue
        view.taken.add(at)
        yield judged(ClaimKind.STRIDE, view.words(at), view.holds(at, _strides_at(view, at)), "not such a stride")


def _strides_at(view: View, at: int) -> set[int]:
    facts = view.facts
    subject = view.subject(at)
    chosen: Iterable[TensorFact] = subject.facts if subject else facts.tensors
    window = view.before(at, 90).rpartition(" instead of ")[2] + "# " + view.after(at, 50)
    number = re.search(r"\b(?:dim|axis|dimension) Q(\d+)", window)
    axis: int | None = None
    if number:
        axis = int(view.quantity(int(number[1])).value)
        view.taken.add(int(number[1]))
        if re.search(r"\b(?:dim|axis|dimension) - ?$", view.before(int(number[1]), 20)):
            axis = -axis
    else:
        found = re.findall(
            (
                r"\b(batch|sample|channel|row|column|first|outermost|leading|last|innermost|"
                r"second|third)(?: (?:axis|dimension|dim|index|stride|query|key))|\b(?:next|"
                r"consecutive|neighbou?ring|adjacent|successive) (?:[a-z]+ )?(batch|sample|"
                r"image|channel|row|column|element)s?"
            ),
            window,
        )
        words = [one or two for one, two in found]
        direction = re.search(r"\b(?:down|along|walking) (?:a|the|one) column\b", window)
        if direction:
            axis = -2
        elif words:
            axis = _AXIS.get(words[0])
    if axis is None:
        steps = {step for fact in chosen for step in fact.stride}
        if not subject:
            steps |= {step for fact in facts.tensors for step in strides_of(fact.shape)}
        named = subject is not None and view.items[subject.at].kind is ItemKind.TENSOR
        return steps | facts.argument(chosen if named else facts.tensors, "stride")
    wanted = {fact.stride[axis] for fact in chosen if -len(fact.shape) <= axis < len(fact.shape)}
    if axis == -2 or axis == 1:  # rows of flattened leading axes; channels that lie last
        wanted |= (
            {
                fact.shape[-1]
                for fact in chosen
                if fact.shape
                and fact.stride
                and fact.stride[-1] == 1
                and len(fact.shape) > 1
                and fact.stride == strides_of(fact.shape)
            }
            if axis == -2
            else set()
        )
    return wanted


def judge_formulas(view: View) -> Iterator[Claim]:
    for at, item in view.of_kind(ItemKind.FORMULA):
        text = str(item.value)
        steps, split = linear_steps(text), split_steps(text)
        if steps and len(steps[0]) == 1 and not split:
            yield from _window(view, at, text, steps)
        if split:
            yield from _split(view, at, text, split)
        elif steps and len(steps[0]) >= 1:
            yield from _offset(view, at, text, steps)


def _offset(view: View, at: int, text: str, steps: tuple[dict[str, Fraction], Fraction]) -> Iterator[Claim]:
    """`n * 768 + k * 256 + 3`: the factors are strides of one tensor, in the order of its axes."""
    factors = {name: int(factor) for name, factor in steps[0].items() if factor.denominator == 1}
    large = [factor for factor in factors.values() if abs(factor) > 2]
    if not large or "blockDim" in text or len(factors) < len(steps[0]) or "threadIdx" in text or "blockIdx" in text:
        return
    subject = view.subject(at)
    if subject and {fact.name for fact in subject.facts} & set(factors):  # `t` is a variable here
        subject = None
    candidates = list(subject.facts) if subject else list(view.facts.tensors)
    fits = any(_fits(factors, steps[1], fact, view) for fact in candidates)
    if subject and not fits and not _is_told(view, subject.at, at):
        fits = any(_fits(factors, steps[1], fact, view) for fact in view.facts.tensors)
    yield judged(ClaimKind.INDEX_FORMULA, text, fits, "its factors are not the strides of a tensor in this order")


def _window(view: View, at: int, text: str, steps: tuple[dict[str, Fraction], Fraction]) -> Iterator[Claim]:
    """`i - 3` to `i + 3`: how far the window of a convolution or pool reaches."""
    facts, reach = view.facts, abs(int(steps[1]))
    if (
        set(steps[0].values()) != {Fraction(1)}
        or not reach
        or not re.search(r"\b(?:touch\w*|reads?|window|taps?|needs?|positions?|from)\b", view.skeleton)
    ):
        return
    if not re.search(r"\bfrom $", view.before(at, 10)) and not re.search(r"\bfrom F\d+ to $", view.before(at, 20)):
        return
    windows = [fact for fact in facts.tensors if "padding" in fact.arguments and "stride" in fact.arguments]
    if not windows:
        return
    pads = facts.argument(windows, "padding")
    sizes = facts.argument(windows, "kernel_size") | {
        n for f in windows for o in facts.operands(f)[1:2] for n in o.shape[2:]
    }
    known = pads | {n - 1 - pad for n in sizes for pad in pads}
    yield judged(ClaimKind.INDEX_RANGE, text, reach in known, "not the reach of the window")


def _is_told(view: View, mention: int, at: int) -> bool:
    """Whether the words between say that the formula is about the mention."""
    return at - mention <= 14


def _fits(factors: dict[str, int], constant: Fraction, fact: TensorFact, view: View) -> bool:
    for strides in {fact.stride, strides_of(fact.shape)}:
        if not all(factor in strides for factor in factors.values()):
            continue
        if _is_ordered(factors, strides, fact.shape):
            return True
    if len(factors) <= 2:  # leading axes taken together: rows of the last axis
        steps = set(strides_of(fact.shape)) | ({fact.shape[-1]} if fact.shape else set())
        steps |= view.facts.reduced(fact) | {
            n for f in view.facts.tensors if fact.name in f.operands for n in view.facts.reduced(f)
        }
        names = sorted(factors, key=lambda name: -factors[name])
        return set(factors.values()) <= steps and _is_canonical(names)
    return False


def _is_ordered(factors: dict[str, int], strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    del shape
    if list(strides) != sorted(strides, reverse=True):
        return True
    return _is_canonical(sorted(factors, key=lambda name: -factors[name]))


def _is_canonical(names: list[str]) -> bool:
    """Whether names of axes such as n, c, h, w stand in their usual order."""
    orders = [order for order in _ORDER if set(names) <= set(order)]
    return not orders or any(names == [name for name in order if name in names] for order in orders)


def _split(view: View, at: int, text: str, split: tuple[int, int]) -> Iterator[Claim]:
    """`(i / 64) % 8`: the axis of size 8 whose elements are 64 apart."""
    divisor, size = split
    axes = {(math.prod(shape[axis + 1 :]), n) for shape in view.facts.shapes for axis, n in enumerate(shape)}
    merged = {
        (math.prod(s[end:]), math.prod(s[start:end]))
        for s in view.facts.shapes
        for start in range(len(s))
        for end in range(start + 1, len(s) + 1)
    }
    strides = {step for step, _ in axes}
    sizes = {n for _, n in axes} | view.facts.arguments
    if size == 0 and divisor <= 2:
        return
    named = _named_axis(view, at)
    indexed = _indexed(view, at)
    if size and not divisor > 1:
        good = (
            any(n == size for _, n in merged)
            or size in view.facts.arguments
            or size in (2, 4, 8, 16, 32, *view.stated.blocks)
        )
        if named is not None:
            good = (1, size) in {
                (math.prod(f.shape[named + 1 :]) if named >= 0 else 1, f.shape[named])
                for f in _chosen(view, at)
                if -len(f.shape) <= named < len(f.shape)
            }
        if indexed is not None:
            good = good and size <= math.prod(indexed.shape)
    elif size:
        good = (divisor, size) in merged or (divisor in strides and size in view.facts.arguments)
        if named is not None and named >= 0:
            good = (divisor, size) in {
                (math.prod(f.shape[named + 1 :]), f.shape[named]) for f in _chosen(view, at) if named < len(f.shape)
            }
    else:
        good = (
            divisor in strides | sizes
            or divisor in {n for n, _ in merged}
            or divisor in (4, 8, 16, 32, *view.stated.blocks)
        )
    if re.search(r"\b(?:lane|warp|tid|threadidx)", text.lower()):
        return
    yield judged(ClaimKind.INDEX_FORMULA, text, good, "fits no axis of a tensor")


def _chosen(view: View, at: int) -> Iterable[TensorFact]:
    return view.subject_facts(at) or view.facts.outputs or view.facts.tensors


def _named_axis(view: View, at: int) -> int | None:
    match = re.search(
        (
            r"\b(channel|batch|sample|image|row|column|width|height|plane)(?: (?:index|"
            r"coordinate|number))?(?: (?:is|=|:|of|equals))* $"
        ),
        view.before(at, 30),
    )
    if match is None:
        return None
    return {"channel": 1, "plane": 1, "batch": 0, "sample": 0, "image": 0, "column": -1, "width": -1}.get(match[1])


def _indexed(view: View, at: int) -> TensorFact | None:
    """The tensor in `floor[c % 64]`."""
    if view.before(at, 3).endswith("[ "):
        for mention in view.subjects.mentions:
            if mention.at == at - 2:
                return mention.facts[0]
    return None


_LAST = re.compile(
    r"\b(?:last|largest|highest|final|maximum|biggest|greatest) (?:valid |legal |"
    r"flat |linear |flattened |global |row |column |thread |element |output |"
    r"possible )*(?:index|element|id|offset|position|row|column|thread|value)(?: (?:is|"
    r"of|=|:|has|index|number|along|in|along the [a-z]+ axis|of the output|the|"
    r"output))* $"
)
_FROM_ZERO = re.compile(r"\bQ(?P<first>\d+) (?:to|through|up to|-|\.\.\.?|and|until|till) (?:and including )?$")
_RANGED = re.compile(
    r"\b(?:from|between|range|ranges|indices|index|runs?|numbered|values?|in|"
    r"goes|varies|are|is|lie|over|with|[a-z]|covers?|for|rows?|columns?|ids?|"
    r"positions?)(?: (?:from|are|is|=|over|of|in|between|range|values|goes|runs))* $"
)


def judge_ranges(view: View) -> Iterator[Claim]:
    for at, quantity in view.open_figures():
        if quantity.value.denominator != 1:
            continue
        before, after, value = view.before(at, 80), view.after(at, 50), int(quantity.value)
        zero = _FROM_ZERO.search(before)
        if (
            zero
            and view.quantity(int(zero["first"])).value in (0, 1)
            and not re.match(r"(?:bytes|flops|threads?|blocks?)", after)
        ):
            first = int(view.quantity(int(zero["first"])).value)
            if first == 1 and not re.search(r"\bnumbered|from", before):
                continue
            view.taken.update((at, int(zero["first"])))
            last = value - first
            exclusive = re.match(r"(?:\)|, )?(?:exclusive|excluded|\( ?exclusive)", after) or zero[0].strip().endswith(
                ("until",)
            )
            yield _last_index(view, at, {last} if not exclusive else {value - 1}, quantity.value)
        elif _LAST.search(before) or (
            re.search(
                (
                    r"\b(?:index|id|indices)(?: [a-z]+)? (?:goes|runs|ranges|reaches|go|run)(?: (?:only|"
                    r"just))? (?:up )?to (?:at most )?$"
                ),
                before,
            )
        ):
            view.taken.add(at)
            yield _last_index(view, at, {value}, quantity.value)
        elif re.search(
            r"\b(?:argmax|argmin|index|id|label|token|class)(?: (?:of|value|value of|is|=))+ $", before
        ) and re.search(r"\b(?:legal|valid|possible|allowed|out of range|in range|invalid)\b", after):
            view.taken.add(at)
            inside = any(value < size for size in _bounds(view, at))
            negative = bool(re.search(r"\b(?:not|never|out of range|invalid|illegal)\b", after))
            yield judged(
                ClaimKind.INDEX_RANGE,
                view.words(at),
                inside != negative,
                "is out of range" if not inside else "is in range",
            )


def _bounds(view: View, at: int) -> set[int]:
    facts = view.facts
    subject = view.subject(at)
    if subject and subject.by_operator:
        return {
            f.shape[axis]
            for fact in subject.facts
            for f in facts.operands(fact)[:1]
            for axis in facts.argument([fact], "dim")
            if -len(f.shape) <= axis < len(f.shape)
        } or set(facts.sizes)
    spans = {facts.spans[f.name][1] + 1 for f in (subject.facts if subject else ()) if f.name in facts.spans}
    return spans or set(facts.sizes)


def _last_index(view: View, at: int, lasts: set[int], value: Fraction) -> Claim:
    facts = view.facts
    subject = view.subject(at)
    before = view.before(at, 80)
    chosen = subject.facts if subject else facts.tensors
    spans = {high for name, (_, high) in facts.spans.items() if not subject or name in {f.name for f in chosen}}
    axis = next(
        (
            number
            for word, number in _AXIS.items()
            if re.search(rf"\b{word} (?:axis |dim |dimension )?(?:index|ind|id|position)", before)
        ),
        None,
    )
    is_float_index = subject is not None and all("int" in fact.dtype for fact in chosen)
    if is_float_index and spans and subject and not re.search(r"\b(?:element|thread|flat)", before):
        allowed = set(spans)
        made = [f for fact in chosen for f in facts.operands(fact)]
        allowed |= {size - 1 for f in made for size in f.shape}
    elif re.search(r"\b(?:flat|linear|flattened|global)\b", before):
        allowed = {math.prod(fact.shape) - 1 for fact in (chosen if subject else facts.tensors)}
    elif axis is not None and subject:
        allowed = {fact.shape[axis] - 1 for fact in chosen if -len(fact.shape) <= axis < len(fact.shape)}
    else:
        sizes = {n for fact in chosen for n in (*fact.shape, math.prod(fact.shape))} if subject else facts.partial
        allowed = {n - 1 for n in sizes} | spans
        if subject and subject.by_operator:
            allowed |= {n - 1 for fact in chosen for f in facts.operands(fact) for n in f.shape}
    return judged(ClaimKind.INDEX_RANGE, view.words(at), bool(lasts & allowed), "not the last index")


def names_in(text: str) -> set[str]:
    tree = parse(text)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set()
