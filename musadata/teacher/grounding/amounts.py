"""Claims about bytes, FLOPs and intensity."""

import math
import re
from collections.abc import Iterable, Iterator

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.lexicon import LIMITS, MACHINE
from musadata.teacher.grounding.subjects import Mention
from musadata.teacher.grounding.view import View
from musadata.tracing.roofline import BALANCE, itemsize, tensor_bytes

_FLOPS = (
    r"(?:flops?|flop/s|mflops?|floating[- ]point (?:operations|additions|multiplications)|"
    r"operations|ops|arithmetic operations)"
)
_PER_BYTE = r"(?:flops?|operations|ops|flop) (?:per|/|for (?:each|every)|against every) (?:bytes?|b)\b"
_MACS = r"(?:multiply[- ]adds?|multiply[- ]accumulates?|macs?|fmas?|fused multiply[- ]adds?|multiplications|multiplies)"
_BYTES = r"(?:bytes?|b)"
_TOTAL = re.compile(
    r"\b(?:total|altogether|overall|in all|whole|entire|traffic|moves?|moved|"
    r"must move|combined|all of it|minimum|least)\b"
)
_TOGETHER = re.compile(r"\b(?:together|combined|both|sum)\b")
_EACH = re.compile(r"\b(?:each|every|per|apiece|single|one)\b")


_ONE = (
    r"\b(?:per|each|every|for an|for each|for every) (?:output |result |single )*(?:elements?|"
    r"value|entry|output|result)\b"
)


def judge_amounts(view: View) -> Iterator[Claim]:
    yield from _ratios(view)
    for at, quantity in view.open_figures():
        if at in view.taken:
            continue
        after = view.after(at, 60)
        if re.match(rf"(?:{_PER_BYTE})", after) or (
            re.search(
                r"\bintensity(?: of| is| =| at|:)?(?: only| just)?(?: (?:about|around|roughly|approximately|~))? $",
                view.before(at, 60),
            )
            and not view.noun(at, rf"{_FLOPS}|{_BYTES}")
        ):
            view.taken.add(at)
            allowed = [view.facts.trace.intensity, BALANCE, *MACHINE["intensities"].values(), *_rounded(view)]
            if re.search(r"\b(?:needs?|balance|ridge|machine|device|gpu|h100|a100|threshold)\b", view.skeleton):
                continue
            yield judged(ClaimKind.INTENSITY, view.words(at), view.holds(at, allowed[:1]), "not the trace's intensity")
        elif view.noun(at, rf"{_FLOPS}"):
            view.taken.add(at)
            yield judged(ClaimKind.FLOPS, view.words(at), view.holds(at, _flops(view, at)), "no such figure of FLOPs")
        elif view.noun(at, _MACS):
            view.taken.add(at)
            yield judged(ClaimKind.FLOPS, view.words(at), view.holds(at, _macs(view, at)), "not the number of these")
        elif quantity.unit == "bytes" or view.noun(at, _BYTES):
            view.taken.add(at)
            yield judged(ClaimKind.BYTES, view.words(at), view.holds(at, _bytes(view, at)), "no such figure of bytes")


def _ratios(view: View) -> Iterator[Claim]:
    """ "One FLOP for every six bytes"."""
    text = rf"\bQ(\d+) (?:{_FLOPS}) (?:for (?:every|each)|per) Q(\d+) (?:bytes?|b)\b"
    for match in re.finditer(text, view.skeleton):
        one, two = int(match[1]), int(match[2])
        if {one, two} & view.taken or not view.quantity(two).value:
            continue
        view.taken.update((one, two))
        ratio = float(view.quantity(one).value / view.quantity(two).value)
        near = abs(ratio - view.facts.trace.intensity) <= 0.06 * max(ratio, view.facts.trace.intensity)
        yield judged(
            ClaimKind.INTENSITY,
            f"{view.items[one].text} per {view.items[two].text} bytes",
            near,
            "not the trace's intensity",
        )


def _rounded(view: View) -> list[float]:
    return []


def _flops(view: View, at: int) -> set[float]:
    facts, total = view.facts, view.facts.trace.flops
    window = view.before(at, 60) + view.after(at, 50)
    outputs = sum(math.prod(fact.shape) for fact in facts.outputs)
    if re.match(rf"(?:{_FLOPS}) {_ONE}", view.after(at, 60)) or re.search(
        rf"(?<!Q\d )(?<!Q\d\d )(?<!adds )(?<!flops ){_ONE}(?: (?!Q)[a-z]+){{0,3}} $", view.before(at, 60)
    ):
        counts = {math.prod(fact.shape) for fact in facts.tensors}
        depths = {2 * facts.depth(fact) for fact in facts.tensors}
        return (
            {total / count for count in counts if count}
            | depths
            | {1, 2}
            | {facts.flops_of_operators[n] / c for n in facts.flops_of_operators for c in counts if c}
        )
    single = set(facts.flops_of_operators.values())
    if re.match(r"(?:flops? )?for (?:every|each) ", view.after(at, 30)):
        return {facts.trace.intensity * n for n in range(1, 65)} | {1, 2}
    if _TOTAL.search(window) or re.search(r"\b(?:together|trace|work|no) ", window):
        return {float(total)}
    subject = view.subject(at)
    if subject and subject.by_operator:
        named = {facts.flops_of_operators.get(fact.name, -1) for fact in subject.facts}
        known = {value for value in named if value >= 0}
        return {float(v) for v in known | {sum(known)}} | ({float(total)} if len(facts.trace.operators) == 1 else set())
    return (
        {float(total), float(outputs)}
        | {float(value) for value in single}
        | ({total - v for v in single} if total else set())
    )


def _macs(view: View, at: int) -> set[int]:
    facts = view.facts
    window = view.before(at, 50) + view.after(at, 60)
    per = {facts.depth(fact) for fact in facts.tensors} | {n for fact in facts.tensors for n in facts.reduced(fact)}
    if re.search(r"\b(?:per|each|every|an?) ", window):
        return per - {0}
    whole = {value // 2 for value in facts.flops_of_operators.values()} | {facts.trace.flops // 2}
    return (whole | per | facts.counts) - {0}


def _bytes(view: View, at: int) -> set[float]:
    facts = view.facts
    before, after = view.before(at, 90), view.after(at, 60)
    window = before[-50:] + after[:40]
    if re.match(
        r"(?:bytes?|b) (?:[a-z]+ )?(?:loads?|stores?|access(?:es)?|vectors?|transactions?|wide|aligned|boundar)", after
    ):
        return {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0}
    if re.search(
        r"\b(?:shared memory|cache line|sector|transaction|l1|l2|register|segment|alignment|aligned)\b", before + after
    ):
        return _on_chip(view)
    if re.search(
        (
            r"\b(?:an?|each|every|per|one) (?:[a-z]+ )?(?:element|value|float|entry|"
            r"scalar|id|index|number|integer)\b|\beach\b(?! (?:way|input|operand))"
        ),
        window,
    ) and not re.search(r"\bper (?:row|channel|sample|batch|head|image|plane|matrix)\b", window):
        subject = view.subject(at)
        chosen = subject.facts if subject else facts.tensors
        small = {itemsize(fact.dtype) for fact in facts.tensors}
        return {float(n) for n in small} | ({float(tensor_bytes(f)) for f in chosen} if "each" in window else set())
    if re.search(r"\b(?:stride|apart|distance|jump|step|skip)", window) and not re.search(r"\bin total\b", window):
        chosen = view.subject_facts(at) or facts.tensors
        return {float(step * itemsize(fact.dtype)) for fact in chosen for step in fact.stride}
    if re.match(
        (
            r"(?:bytes? )?(?:per|for (?:each|every)|in each|a) (?:row|channel|sample|"
            r"batch|head|image|plane|matrix|query|column|block|tile)"
        ),
        after,
    ):
        chosen = view.subject_facts(at) or facts.tensors
        return {float(n) for fact in chosen for n in _parts(fact)}
    listed = _list_before(view, at)
    if len(listed) > 1:
        return {float(sum(tensor_bytes(fact) for fact in listed))} | (
            {float(tensor_bytes(fact)) for fact in listed} if _EACH.search(window) else set()
        )
    subject = view.subject(at, reach=12)
    reading = bool(re.search(r"\bread", before)) and bool(re.search(r"\bwrit|\bstor", before))
    if reading or (_TOTAL.search(before[-60:] + after[:30]) and not (subject and _is_close(view, subject, at))):
        return {
            float(facts.trace.bytes),
            *({float(n) for n in _groups(view, subject)} if subject and not reading else set()),
        }
    if subject:
        return {float(n) for n in _groups(view, subject)}
    return {float(n) for n in facts.bytes_of_groups | facts.bytes_of_tensors}


def _is_close(view: View, subject: Mention, at: int) -> bool:
    between = " ".join(item.text for item in view.items[subject.at + 1 : at])
    return subject.at < at and len(between.split()) <= 6 and not re.search(r"\btraffic|moves?|moved\b", between)


def _groups(view: View, subject: Mention) -> set[int]:
    sizes = {tensor_bytes(fact) for fact in subject.facts}
    found = sizes | {sum(tensor_bytes(fact) for fact in subject.facts)}
    if subject.by_operator:
        operands = [f for fact in subject.facts for f in view.facts.operands(fact)]
        found |= {size + sum(tensor_bytes(f) for f in operands) for size in sizes} | {2 * size for size in sizes}
    elif len(sizes) == 1:
        before = view.skeleton
        if re.search(
            r"\b(?:twice|round[- ]trip|again|back|store and load|write and read|writes? and reads?|saves?|avoids?)\b",
            before,
        ):
            found |= {2 * size for size in sizes}
    return found


def _parts(fact: TensorFact) -> Iterable[int]:
    size = itemsize(fact.dtype)
    return [size * math.prod(fact.shape[axis:]) for axis in range(len(fact.shape) + 1)] + [size * n for n in fact.shape]


def _list_before(view: View, at: int) -> list[TensorFact]:
    """The tensors of a list whose sizes are added: "q, k and v together are"."""
    if not _TOGETHER.search(view.before(at, 40) + view.after(at, 30)):
        return []
    return list(dict.fromkeys(fact for m in view.subjects.mentions if m.at < at for fact in m.facts))


def _on_chip(view: View) -> set[float]:
    facts = view.facts
    rows = {n for fact in facts.tensors for n in _parts(fact)}
    tiles = {4 * a * b for a in (8, 16, 32, 64, 128) for b in (8, 9, 16, 17, 32, 33, 64, 65, 128, 129)}
    blocks = {4 * n for n in (32, 64, 128, 256, 512, 1024)}
    shared = set(LIMITS) | {n * 1024 for n in LIMITS if n < 300}
    return {float(n) for n in rows | tiles | blocks | shared | {2 * t for t in tiles}}
