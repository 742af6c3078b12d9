"""Claims in words alone: what bounds a task, dtypes, contiguity, equal shapes, which operators there are."""

import re
from collections.abc import Iterator

from musadata.records import Bound
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.facts import is_contiguous
from musadata.teacher.grounding.reading import ItemKind
from musadata.teacher.grounding.view import View

_NOT = r"\b(?:not|never|no|neither|nor|n't|hardly|far from|isn't|aren't|without|rather than|instead of|than)\b"
_MEMORY = re.compile(
    r"\b(?:memory|bandwidth|traffic|dram)[- ]?(?:traffic[- ])?(?:bound|limited|"
    r"bottleneck(?:ed)?|dominated)|\b(?:memory|bandwidth|traffic|dram|hbm)(?: traffic|"
    r" bandwidth)? (?:is (?:the |what )?(?:limit|limits|bottleneck|limiting)|"
    r"decides|dominates|bounds|limits|sets|governs)|\b(?:limited|bound|bounded|"
    r"dominated|capped|governed) by (?:the )?(?:memory|bandwidth|traffic|dram|"
    r"hbm|data movement)|\bmemory side of\b|\bbound (?:is|:) memory|(?:left|"
    r"memory) of the ridge|\bbelow the (?:ridge|balance|machine)"
)
_COMPUTE = re.compile(
    r"\b(?:compute|arithmetic|alu|math|flop)s?[- ]?(?:bound|limited|dominated|"
    r"bottlenecked)|\b(?:compute|arithmetic|math|alus?)(?: throughput)? (?:is (?:the |"
    r"what )?(?:limit|limits|bottleneck|limiting)|decides|dominates|bounds|limits|"
    r"governs)|\b(?:limited|bound|bounded|dominated|capped|governed) by (?:the )?(?:arithmetic|"
    r"compute|computation|math|flops|alus?|fp32 throughput)|\bcompute side of\b|"
    r"\bbound (?:is|:) (?:compute|arithmetic)|\babove the (?:ridge|balance|machine)"
)
_ADVICE = re.compile(
    r"\b(?:accumulat\w*|could|should|would|might|may|cast\w*|convert\w*|literals?|"
    r"if|instead|unless|prefer\w*|promot\w*|constants?|suffix|avoid\w*|mistake|"
    r"than|indexes|arithmetic in|offsets?|index arithmetic|registers?|overflow\w*|"
    r"epsilon|round\w*|compil\w*|tf32|slower|comput\w*|hypothetical\w*|reference)\b"
)
_DTYPE_PHRASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"\bhalf[- ]precision\b|\bhalf floats?\b|\b16[- ]bit floats?\b", ("float16", "bfloat16")),
    (r"\b(?:double[- ]precision|64[- ]bit floats?)\b", ("float64",)),
    (r"\b(?:single[- ]precision|32[- ]bit floats?)\b", ("float32",)),
)
_INTEGERS = re.compile(r"\bQ(\d+) (?:-)?(?:bits?) (?:[a-z]+ )?(integers?|floats?|floating)")


def judge_statements(view: View) -> Iterator[Claim]:
    yield from _bound(view)
    yield from _dtypes(view)
    yield from _contiguity(view)
    yield from _same_shape(view)
    yield from _operators(view)


def _bound(view: View) -> Iterator[Claim]:
    text = view.skeleton
    for pattern, bound in ((_MEMORY, Bound.MEMORY), (_COMPUTE, Bound.COMPUTE)):
        for match in pattern.finditer(text):
            lead = text[max(0, match.start() - 40) : match.start()]
            if re.search(r"\b(?:would|if|could|were|had|becomes?|until|when)\b[^,]*$", lead):
                continue
            negated = bool(re.search(rf"{_NOT}(?: [a-z]+){{0,2}} $", lead))
            holds = (view.facts.trace.bound is bound) != negated
            yield judged(
                ClaimKind.BOUND,
                ("not " if negated else "") + match[0],
                holds,
                f"{view.facts.trace.bound.value} bounds it",
            )


def _dtypes(view: View) -> Iterator[Claim]:
    text = view.skeleton
    found: list[tuple[int, str, tuple[str, ...]]] = [
        (at, item.text, (str(item.value),)) for at, item in view.of_kind(ItemKind.DTYPE)
    ]
    for pattern, meant in _DTYPE_PHRASES:
        found += [(_item_at(view, match.start()), match[0], meant) for match in re.finditer(pattern, text)]
    for match in _INTEGERS.finditer(text):
        bits = int(view.quantity(int(match[1])).value)
        view.taken.add(int(match[1]))
        found.append((int(match[1]), match[0], (f"{'int' if match[2][0] == 'i' else 'float'}{bits}",)))
    for at, words, dtypes in found:
        before, after = view.before(at, 60), view.after(at, 40)
        advice = _ADVICE.search(before.rpartition(" , ")[2] + "# " + after.partition(" , ")[0])
        if re.match(r"(?:accumulat|arithmetic|register|literal|constant)", after):
            continue
        negated = bool(re.search(rf"{_NOT}(?: [a-z]+){{0,2}} $", before))
        subject = view.subject(at, reach=16)
        chosen = subject.facts if subject else view.facts.tensors
        if subject and subject.by_operator:
            chosen = tuple(chosen) + tuple(f for fact in chosen for f in view.facts.operands(fact))
        dtypes_here = {fact.dtype for fact in chosen}
        everything = re.search(
            r"\b(?:everything|all(?: the)? (?:tensors|inputs|values|operands)?|throughout|every tensor)\b",
            before + after,
        )
        holds = any(dtype in dtypes_here for dtype in dtypes)
        if everything and not subject:
            floating = {fact.dtype for fact in view.facts.tensors if "int" not in fact.dtype and fact.dtype != "bool"}
            holds = holds and (floating <= set(dtypes) or dtypes_here <= set(dtypes))
        claim = judged(ClaimKind.DTYPE, words, holds != negated, "no such dtype here")
        if claim.wrong and (advice or negated):
            continue
        yield claim


def _item_at(view: View, position: int) -> int:
    return view.skeleton.count(" ", 0, position)


def _contiguity(view: View) -> Iterator[Claim]:
    for match in re.finditer(
        (
            r"\b(?P<not>(?:not|no longer|non|isn't|never|un)[- ]?(?:\w+ )?)?(?:row-major )?(?P<word>contiguous|"
            r"non-contiguous|noncontiguous|discontiguous)\b"
        ),
        view.skeleton,
    ):
        at = _item_at(view, match.start("word"))
        before, after = view.before(at, 70), view.after(at, 40)
        if (
            re.match(
                (
                    r"(?:\( \)|\(|elements|floats|values|rows?|memory|copy|chunk|block|in memory|"
                    r"addresses|segment|run|along|loads|axis|threads|line|stretch|range|q\d)"
                ),
                after,
            )
            and "copy" not in after[:5]
        ):
            continue
        if re.search(_ADVICE, before) or re.search(
            (
                r"\b(?:make|makes|made|if|when|calls?|assum\w*|need\w*|require\w*|is it|"
                r"whether|output is written|because)\b"
            ),
            before,
        ):
            continue
        subject = view.subject(at, reach=14)
        if subject is None or len(subject.facts) == 0:
            continue
        negated = bool(match["not"]) or match["word"] != "contiguous"
        chosen = subject.facts
        every = [is_contiguous(fact) for fact in chosen]
        holds = any(every) if not negated else not all(every)
        yield judged(ClaimKind.STRIDE, match[0], holds, "its strides say otherwise")


def _same_shape(view: View) -> Iterator[Claim]:
    text = view.skeleton
    match = re.search(
        r"\b(?:same|identical|equal) (?:shapes?|sizes?|dimensions|number of elements|shape and stride)\b(?P<as> as)?",
        text,
    )
    if match is None or re.search(r"\b(?:not|different|never|second set|every|sets)\b", text):
        return
    place = _item_at(view, match.start())
    left = [mention for mention in view.subjects.mentions if mention.at < place]
    right = [mention for mention in view.subjects.mentions if mention.at > place]
    pairs = (
        [(left[-1], right[0])]
        if match["as"] and left and right
        else [(left[-2], left[-1])]
        if len(left) > 1 and not match["as"]
        else []
    )
    for one, two in pairs:
        if one.by_operator and two.by_operator:
            continue
        shapes, others = {fact.shape for fact in one.facts}, {fact.shape for fact in two.facts}
        yield judged(ClaimKind.SHAPE, match[0], bool(shapes & others), "their shapes differ")


def _operators(view: View) -> Iterator[Claim]:
    for _, item in view.of_kind(ItemKind.OPERATOR):
        name = str(item.value)
        if name.startswith("aten."):
            known = any(operator == name or operator.startswith(name + ".") for operator in view.facts.trace.operators)
            yield judged(ClaimKind.OPERATOR, item.text, known, "no such operator was dispatched")
