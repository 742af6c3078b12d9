"""Claims about index formulas and ranges of indices."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.expressions import evaluate, linear_steps, split_steps
from musadata.teacher.grounding.facts import strides_of
from musadata.teacher.grounding.lexicon import LEXICON, WORDS, axes_in
from musadata.teacher.grounding.reading import ItemKind

_ORDER = [tuple(names.split()) for names in LEXICON["orders"]]
_AXES: dict[str, list[int]] = LEXICON["axes"]
_FLAT_NAME = re.compile(r"\(*(?:floor\()?(?:i|idx|index|flat|linear|gid|p|e)\b")
_PART_OF_AXIS = re.compile(r"(?:all |visit|are fed|come|read|take|copy|hold|go to|each )")
_OF_VALUES = re.compile(r"\b(?:nibbles?|digits?|bits?|values? lies?|lies? in|probabilit\w+)\b")
_USUAL_FACTORS = frozenset((2, 4, 8, 16, 32))


def judge_formulas(view: View) -> Iterator[Claim]:
    blocks = view.stated.blocks
    yield from _moved(view)
    for at, item in view.of_kind(ItemKind.FORMULA):
        text = str(item.value)
        if at in view.taken:
            continue
        if any(int(number) in blocks for number in re.findall(r"\b\d{2,4}\b", text)):
            continue  # a thread's own place
        if re.search(r"lane|warp|tid|thread|block|pid|grid", text, re.IGNORECASE):
            continue  # a thread's own place
        if _is_coordinate(view, at) or re.search(r"[/%] *\(? *$", view.before(at, 5)):
            continue  # a divisor is no offset
        steps, split = linear_steps(text), split_steps(text)
        if split:
            yield from _split(view, at, text, *split)
        elif steps:
            yield from _offset(view, at, text, steps)


def _moved(view: View) -> Iterator[Claim]:
    """ "Column j reads column 127 - j": of a flip, and "(r - 2) % 64" of a roll; evaluated at several indices."""
    for found, name in ((WORDS.mirrored, "flip"), (WORDS.rolled, "roll")):
        made = view.facts.made_by([name]) if found.search(view.skeleton) else ()
        moves = [move for fact in made for move in _moves(view, fact)]
        for at, item in view.of_kind(ItemKind.FORMULA) if moves else ():
            text = str(item.value)
            names = sorted(set(re.findall(r"[A-Za-z_]\w*", text)) - {"mod"})
            fits = len(names) == 1 and any(_is_source(text, names[0], *move) for move in moves)
            if len(names) == 1 and (fits or re.search(r"%|\bmod\b|^\d+ - ", text)):
                view.taken.add(at)
                yield judged(ClaimKind.INDEX_FORMULA, item.text, fits, "not where it is read")


def _moves(view: View, fact: TensorFact) -> list[tuple[int, int | None]]:
    """Size of each axis that is rolled, with the shift, or flipped."""
    axes = sorted(view.facts.argument([fact], "dims"))
    shifts = sorted(view.facts.argument([fact], "shifts"))
    if shifts and len(axes) != 1:
        return []
    return [(fact.shape[axis], shifts[0] if shifts else None) for axis in axes]


def _is_source(text: str, name: str, size: int, shift: int | None) -> bool:
    places = [(n, size - 1 - n if shift is None else (n - shift) % size) for n in (0, 1, size // 2, size - 1)]
    return all(evaluate(text, {name: Fraction(n)}) == source for n, source in places)


def _is_coordinate(view: View, at: int) -> bool:
    """Whether a formula is one of several in brackets: `x[n, c * 12 + d]` has no strides."""
    before, after = view.before(at, 80), view.after(at, 80)
    _, bracket, left = before.rpartition("[")
    right, end, _ = after.partition("]")
    return bool(bracket and end) and "]" not in left and "[" not in right and "," in left + right


def _offset(view: View, at: int, text: str, steps: tuple[dict[str, Fraction], Fraction]) -> Iterator[Claim]:
    """`n * 768 + k * 256 + 3`: the factors are strides of one tensor, in the order of its axes."""
    factors = {name: int(factor) for name, factor in steps[0].items() if factor.denominator == 1}
    if len(factors) < len(steps[0]) or not any(abs(factor) > 2 for factor in factors.values()):
        return
    subject, indexed = view.subject(at), _indexed(view, at)
    named = {fact.name for fact in subject.facts} & set(factors)  # `t` is a variable here
    chosen = [indexed] if indexed else list(view.facts.tensors if named else subject.mentioned or subject.facts)
    fits = any(_fits(factors, fact, view) for fact in chosen)
    yield judged(ClaimKind.INDEX_FORMULA, text, fits, "its factors are not the strides of a tensor in this order")


def _fits(factors: dict[str, int], fact: TensorFact, view: View) -> bool:
    names = sorted(factors, key=lambda name: -factors[name])
    moved = {step * n for step in (*fact.stride, 1) for n in view.facts.argument(view.facts.tensors, "stride") | {1}}
    if set(factors.values()) <= moved:  # windows that move by their stride
        return _is_canonical(names)
    for strides in (fact.stride, strides_of(fact.shape)):
        is_sorted = list(strides) == sorted(strides, reverse=True)
        if set(factors.values()) <= set(strides) and (not is_sorted or _is_canonical(names)):
            return True
    if len(factors) > 2:
        return False
    steps = {*strides_of(fact.shape), *fact.shape[-1:]} | view.facts.reduced(fact)  # leading axes taken together
    steps |= {n for f in view.facts.tensors if fact.name in f.operands for n in view.facts.reduced(f)}
    return set(factors.values()) <= steps and _is_canonical(names)


def _is_canonical(names: list[str]) -> bool:
    """Whether names of axes such as n, c, h, w stand in their usual order."""
    orders = [order for order in _ORDER if set(names) <= set(order)]
    return not orders or any(names == [name for name in order if name in names] for order in orders)


def _split(view: View, at: int, text: str, divisor: int, size: int) -> Iterator[Claim]:
    """`(i / 64) % 8`: the axis of size 8 whose elements are 64 apart."""
    facts, indexed, axis = view.facts, _indexed(view, at), _named_axis(view, at)
    of_output = WORDS.of_output.search(view.skeleton)
    chosen = facts.outputs if of_output else view.subject(at).facts if size else facts.tensors
    places = {
        (math.prod(shape[end:]), math.prod(shape[start:end]))
        for shape in facts.shapes
        for start in range(len(shape))
        for end in range(start + 1, len(shape) + 1)
    }
    loose = facts.arguments | _USUAL_FACTORS | view.stated.blocks
    if indexed and indexed.shape:
        count = math.prod(indexed.shape)
        rest = {-(-n // divisor) for n in facts.counts | facts.sizes}
        good = (size in indexed.shape or size == count) and (divisor, size) in places if size else count in rest
        if flat := _places_in_output(view, indexed):
            good = good and (divisor, size) in flat
    elif axis and _FLAT_NAME.match(text.replace(" ", "")):
        steps = {(step, count) for fact in chosen for step, count in _steps(fact.shape, axis)}
        counted = {n for _, one in view.all_figures() for n in (int(one.value),) if one.value.denominator == 1}
        sizes = {count for _, count in steps}
        good = (divisor, size) in steps if size else bool({step for step, _ in steps} & {divisor})
        good = good or (divisor == 1 and size in sizes and text.startswith("p "))  # of a plane or pixel
        good = good or (not size and any(n == divisor * count for n in counted - {1} for count in sizes))
    elif size:
        good = (divisor, size) in places or (
            size in loose and (divisor == 1 or divisor in {step for step, _ in places})
        )
    else:
        good = divisor in {n for place in places for n in place} | facts.sizes | loose
    if size or divisor > 2:
        yield judged(ClaimKind.INDEX_FORMULA, text, good, "fits no axis of a tensor")


def _steps(shape: tuple[int, ...], axes: list[int]) -> Iterator[tuple[int, int]]:
    """How many elements lie behind each of these axes, and its size; leading axes may be taken together."""
    for axis in axes:
        if -len(shape) <= axis < len(shape):
            at = axis % len(shape)
            yield math.prod(shape[at + 1 :]), shape[at]
            yield math.prod(shape[at + 1 :]), math.prod(shape[: at + 1])


def _places_in_output(view: View, fact: TensorFact) -> set[tuple[int, int]]:
    """Divisor and modulus of a flat index into an elementwise result that broadcasts a tensor, if one does."""
    if not re.search(r"\bflat\b|\boutput (?:element|index|offset)\b|\bout \[", view.skeleton):
        return set()
    found = set()
    for result in view.facts.tensors:
        shape, rank = result.shape, len(fact.shape)
        if fact.name not in result.operands or rank > len(shape) or math.prod(shape) <= math.prod(fact.shape):
            continue
        own = (1,) * (len(shape) - rank) + fact.shape
        kept = [axis for axis, n in enumerate(own) if n > 1]
        fits = all(n in (1, size) for n, size in zip(own, shape, strict=True))
        if not fits or not kept or math.prod(shape[kept[0] : kept[-1] + 1]) != math.prod(fact.shape):
            return set()
        found.add((math.prod(shape[kept[-1] + 1 :]), math.prod(fact.shape)))
    return found


def _named_axis(view: View, at: int) -> list[int]:
    match = WORDS.axis_of.search(view.before(at, 40))
    return (_AXES.get(match["axis"]) or LEXICON["dimensions"][match["axis"]]) if match else []


def _indexed(view: View, at: int) -> TensorFact | None:
    """The tensor in `floor[c % 64]`."""
    if not view.before(at, 3).endswith("[ "):
        return None
    return next((mention.facts[0] for mention in view.mentions if mention.at == at - 2), None)


def _pieces(view: View) -> Iterator[Claim]:
    """ "The third part fills channels 64 to 71": begins or ends as a part that is joined or cut out, so it is one."""
    known = {span for fact in view.facts.tensors for span in view.facts.parts(fact)}
    for match in WORDS.pieces.finditer(view.skeleton) if known else ():
        numbers = [int(match[name]) for name in ("first", "last", "start") if match[name]]
        values = [int(view.quantity(at).value) for at in numbers]
        if match["start"]:
            holds = any(values[0] == first for first, _ in known)
            is_near = any(abs(values[0] - first) == 1 for first, _ in known if first)
        else:
            holds = (values[0], values[1]) in known
            is_near = any((values[0] == first) != (values[1] == last) for first, last in known if first)
        if holds or is_near:
            view.taken.update(numbers)
            yield judged(ClaimKind.INDEX_RANGE, match[0], holds, "not where such a part lies")


def judge_ranges(view: View) -> Iterator[Claim]:
    yield from _pieces(view)
    for at, quantity in view.open_figures():
        if quantity.value.denominator != 1 or quantity.unit:
            continue
        before, after, value = view.before(at, 80), view.after(at, 50), int(quantity.value)
        zero = WORDS.from_zero.search(before)
        first = int(view.quantity(int(zero["first"])).value) if zero else -1
        if zero and first in (0, 1) and not _OF_VALUES.search(before) and not WORDS.not_ranged.match(after):
            if (
                _PART_OF_AXIS.match(after)
                or value - first <= 1
                or (zero[0].endswith("and ") and "between" not in before)
            ):
                continue
            if first == 1 and "numbered" not in before and (1, value) not in view.facts.spans.values():
                if not re.search(r"\b(?:ind(?:ex|ices)|ids?|labels?|tokens?)\b", before):
                    continue
                value += 1  # indices begin at 0
            view.taken.update((at, int(zero["first"])))
            is_open = WORDS.exclusive.match(after) or zero[0].endswith("until ")
            yield _last_index(view, at, value - 1 if is_open or (first == 1 and "numbered" in before) else value)
        elif WORDS.last_index.search(before) and not WORDS.not_ranged.match(after):
            view.taken.add(at)
            yield _last_index(view, at, value)


def _last_index(view: View, at: int, last: int) -> Claim:
    return judged(ClaimKind.INDEX_RANGE, view.words(at), last in _lasts(view, at), "not the last index")


def _lasts(view: View, at: int) -> set[int]:
    """The last indices that the words may mean."""
    facts, subject, before = view.facts, view.subject(at), view.before(at, 80)
    chosen = subject.mentioned or subject.facts
    names = {fact.name for fact in chosen}
    spans = {high for name, (_, high) in facts.spans.items() if not subject.is_named or name in names}
    if subject.is_named and spans and not re.search(r"\b(?:element|thread|flat|linear|row|column)", before):
        return spans | {size - 1 for fact in chosen if fact.operator for size in fact.shape}
    if subject.made and "arg" in view.skeleton:
        operands = [(fact, operand) for fact in chosen for operand in facts.operands(fact)[:1]]
        dims = {(operand, axis) for fact, operand in operands for axis in facts.argument([fact], "dim")}
        return {operand.shape[axis] - 1 for operand, axis in dims if -len(operand.shape) <= axis < len(operand.shape)}
    if re.search(r"\b(?:flat|linear|flattened|global)\b", before):
        return {math.prod(fact.shape) - 1 for fact in chosen}
    axes = axes_in(before)
    if axes and subject.is_named:
        return {fact.shape[one] - 1 for fact in chosen for one in axes if -len(fact.shape) <= one < len(fact.shape)}
    sizes = {n for fact in chosen for n in (*fact.shape, math.prod(fact.shape))} if subject.is_named else facts.partial
    if axes and not subject.is_named:
        sizes = {f.shape[one] for f in chosen for one in axes if -len(f.shape) <= one < len(f.shape)}
        sizes |= {math.prod(fact.shape[:-1]) for fact in chosen}
    return {n - 1 for n in sizes} | (spans if not subject.is_certain else set())
