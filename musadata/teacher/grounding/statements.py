"""Claims in words alone: what bounds a task, dtypes, contiguity, equal shapes, which operators there are."""

import itertools
import math
import re
from collections.abc import Iterator

from musadata.records import Bound, TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.facts import is_contiguous
from musadata.teacher.grounding.lexicon import LEXICON, WORDS
from musadata.teacher.grounding.reading import ItemKind
from musadata.tracing.roofline import tensor_bytes

_DTYPE_PHRASES = [(re.compile(words), frozenset(dtypes)) for words, dtypes in LEXICON["dtype_phrases"].items()]
_OF_SCORES = re.compile(r"\b(?:scales?|scaled|scores?|query|queries)\b")
_BITS = re.compile(r"\bQ(\d+) (?:-)?(?:bits?) (?:[a-z]+ )?(integers?|floats?|floating)")


def judge_statements(view: View) -> Iterator[Claim]:
    yield from _bound(view)
    yield from _dtypes(view)
    yield from _contiguity(view)
    yield from _scale(view)
    yield from _semantics(view)
    yield from _alike(view)
    for match in WORDS.adjacent.finditer(view.skeleton):
        axis, chosen = (-1 if match["unit"] == "row" else -2), view.subject(_item_at(view, match.start())).facts
        near = any(len(fact.shape) >= -axis and fact.stride[axis] == 1 for fact in chosen)
        denied = re.search(r"\b(?:not|never|no)\b|n't", match["is"]) is not None
        yield judged(ClaimKind.STRIDE, match[0], near != denied, "its strides say otherwise")
    for _, item in view.of_kind(ItemKind.OPERATOR):
        name = str(item.value)
        if name.startswith("aten."):
            known = any(operator == name or operator.startswith(name + ".") for operator in view.facts.trace.operators)
            yield judged(ClaimKind.OPERATOR, item.text, known, "no such operator was dispatched")
    if (none := WORDS.no_flops.search(view.skeleton)) and not WORDS.hypothetical.search(view.skeleton):
        yield judged(ClaimKind.FLOPS, none[0], view.facts.trace.flops == 0, f"{view.facts.trace.flops} FLOPs are made")


def _semantics(view: View) -> Iterator[Claim]:
    """ "The norm uses batch statistics": its arguments say whether."""
    for wrong, arguments in () if WORDS.of_errors.search(view.skeleton) else view.facts.never_said:
        match = wrong.search(view.skeleton)
        if match and not WORDS.negated.search(view.skeleton[: match.start()][-50:]):
            yield judged(ClaimKind.ARGUMENT, match[0], False, f"its arguments are {arguments or 'the defaults'}")


def _alike(view: View) -> Iterator[Claim]:
    """ "`x` and `y` are of the same size", "`x` has twice as many elements as `y`"."""
    for one, two in itertools.pairwise(view.mentions):
        between = view.skeleton[view.sentence.end(one.at) : view.sentence.start(two.at)]
        behind = view.after(two.at, 60) if between in ("and ", "and the ", ", ", "or ") else ""
        match = WORDS.alike_between.match(between) or WORDS.alike_after.match(behind)
        if match is None or WORDS.hypothetical.search(view.skeleton) or WORDS.negated.search(between + behind):
            continue
        named = match.groupdict()
        factor = {"twice": 2.0, "half": 0.5}.get(named.get("factor") or "", 0.0)
        if (named.get("factor") or "").startswith("Q"):
            factor = float(view.quantity(int(match["factor"].split()[0][1:])).value)
        what = named.get("what") or named.get("what2") or "elements"
        pairs = [(_measured(a, what), _measured(b, what)) for a in one.facts for b in two.facts]
        holds = any(a == b * factor if factor and isinstance(b, int) else a == b for a, b in pairs)
        yield judged(ClaimKind.COUNT, match[0].strip(), holds, "these differ in the trace")


def _measured(fact: TensorFact, what: str) -> object:
    if what in ("shape", "dtype", "type", "stride", "strides"):
        return {"shape": fact.shape, "stride": fact.stride, "strides": fact.stride}.get(what, fact.dtype)
    return tensor_bytes(fact) if "bytes" in what or what == "memory" else math.prod(fact.shape)


def _scale(view: View) -> Iterator[Claim]:
    """ "Scores are multiplied by 1 / √32": attention takes the root of the size of a head."""
    if not _OF_SCORES.search(view.skeleton):
        return
    heads = {operand.shape[-1] for fact in view.facts.tensors if "_attention" in fact.operator or "bmm" in fact.operator
             for operand in view.facts.operands(fact)[:1] if operand.shape}  # fmt: skip
    for _, quantity in view.all_figures() if heads else ():
        root = WORDS.root_of.search(quantity.sides[0])
        if root:
            yield judged(ClaimKind.ARGUMENT, quantity.sides[0], int(root["size"]) in heads, "not the size of a head")


def _bound(view: View) -> Iterator[Claim]:
    text, here = view.skeleton, view.facts.trace.bound
    if not WORDS.of_bounds.search(text):
        return
    for found, bound in ((WORDS.memory_bound, Bound.MEMORY), (WORDS.compute_bound, Bound.COMPUTE)):
        for match in found.finditer(text):
            lead = text[max(0, match.start() - 60) : match.start()]
            if WORDS.hypothetical.search(lead.rpartition(" , ")[2]):
                continue
            negated = bool(WORDS.negated.search(lead)) or re.search(r"\b(?:not|n't|never)\b", match[0]) is not None
            yield judged(ClaimKind.BOUND, ("not " if negated else "") + match[0], (here is bound) != negated,
                         f"{here.value} bounds it")  # fmt: skip


def _dtypes(view: View) -> Iterator[Claim]:
    known = {fact.dtype for fact in view.facts.tensors}
    for at, words, dtypes in _named_dtypes(view):
        before, after = view.before(at, 70), view.after(at, 40)
        clause = before.rpartition(" , ")[2] + "# " + after.partition(" , ")[0]
        subject = view.subject(at)
        is_advice = bool(WORDS.advice.search(clause)) or bool(WORDS.not_dtype.match(after))
        if is_advice and not (subject.is_certain and not WORDS.advice.search(before[-30:])):
            continue
        here = {fact.dtype for fact in subject.facts} if subject.is_strict else known
        if re.match(r"(?:mask|flags?|tensor|view|vector|matrix|input|output)\b", after):  # "and the boolean mask"
            here = known
        shapes = [item.value for place, item in view.of_kind(ItemKind.TUPLE) if place == at - 2]
        here |= {"int64"} if re.search(r"\b(?:index|indices)\b", before) else set()  # a result that nothing reads
        if shapes and shapes[0] in view.facts.shapes and not subject.is_strict:  # "of shape (8, 2) is int64"
            here = {fact.dtype for fact in view.facts.tensors if fact.shape == shapes[0]}
        if WORDS.all_results.search(view.skeleton) and subject.made:
            holds = {fact.dtype for fact in subject.made} <= dtypes
        elif (
            WORDS.all_of_it.search(before + after)
            and not WORDS.exception.search(view.skeleton)
            and not subject.is_certain
        ):
            floating = {dtype for dtype in known if "int" not in dtype and dtype != "bool"}
            holds = floating <= dtypes or (not floating and known <= dtypes)
        else:
            holds = bool(dtypes & here)
        yield judged(ClaimKind.DTYPE, words, holds, "no such dtype here")


def _named_dtypes(view: View) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Where dtypes are named, in which words, and which these may be."""
    text = view.skeleton
    for at, item in view.of_kind(ItemKind.DTYPE):
        yield at, item.text, frozenset((str(item.value),))
    if "bit" not in text and "precision" not in text and "half" not in text:
        return
    for found, meant in _DTYPE_PHRASES:
        for match in found.finditer(text):
            yield _item_at(view, match.start()), match[0], meant
    for match in _BITS.finditer(text):
        bits = int(view.quantity(int(match[1])).value)
        view.taken.add(int(match[1]))
        yield int(match[1]), match[0], frozenset((f"{'int' if match[2][0] == 'i' else 'float'}{bits}",))


def _item_at(view: View, position: int) -> int:
    return view.skeleton.count(" ", 0, position)


def _contiguity(view: View) -> Iterator[Claim]:
    for match in WORDS.contiguous.finditer(view.skeleton):
        at = _item_at(view, match.start("word"))
        if view.stated.program and "kernel" in view.skeleton:  # of a buffer that no trace has
            continue
        if WORDS.not_contiguity.search(f"{view.before(at, 70)}# {view.after(at, 40)}"):
            continue
        subject = view.subject(at)
        if not subject.is_certain:
            continue
        negated = bool(match["not"]) or match["word"] != "contiguous"
        every = [is_contiguous(fact) for fact in subject.facts]
        holds = not all(every) if negated else any(every)
        yield judged(ClaimKind.STRIDE, match[0], holds, "its strides say otherwise")
