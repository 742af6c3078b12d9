"""Claims about windows of convolutions and poolings: which inputs a result reads, and how many of these exist."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import Claim, ClaimKind, judged
from musadata.teacher.grounding.context import View
from musadata.teacher.grounding.expressions import linear_steps
from musadata.teacher.grounding.facts import Facts, base_name
from musadata.teacher.grounding.lexicon import WORDS
from musadata.teacher.grounding.reading import ItemKind

_MOST_RESULTS = 4096


@dataclass(frozen=True)
class Window:
    """How the results along one axis read their input.

    Attributes:
        size: of the input; `results`: of the output.
    """

    size: int
    results: int
    taps: int
    stride: int
    padding: int
    dilation: int

    def reads(self, result: int) -> range:
        start = result * self.stride - self.padding
        return range(start, start + self.taps * self.dilation, self.dilation)

    def inside(self, result: int) -> int:
        """How many of these inputs exist."""
        return sum(0 <= place < self.size for place in self.reads(result))

    def spans(self, result: int) -> set[tuple[int, int]]:
        """First and last input, with padding and without."""
        reads = self.reads(result)
        return {(reads[0], reads[-1]), (max(0, reads[0]), min(self.size - 1, reads[-1]))}

    @property
    def whole(self) -> tuple[int, int]:
        """First and last result whose inputs all exist."""
        first = -(-self.padding // self.stride)
        last = (self.size - 1 - (self.taps - 1) * self.dilation + self.padding) // self.stride
        return first, min(last, self.results - 1)


def windows_of(facts: Facts, fact: TensorFact) -> tuple[Window, ...]:
    """The windows of a convolution or pooling, one for each spatial axis; none for another operator."""
    name, operands = base_name(fact.operator), facts.operands(fact)
    if name == "convolution" and len(operands) > 1 and "transposed=True" not in fact.arguments:
        kernel = operands[1].shape[2:]
    elif "_pool" in name and "adaptive" not in name and operands:
        kernel = _numbers(fact, "kernel_size")
    else:
        return ()
    rank, source = len(kernel), operands[0]
    stride, padding, dilation = (_numbers(fact, word) for word in ("stride", "padding", "dilation"))
    if base_name(source.operator) == "constant_pad_nd":  # padded by an operator of its own
        padding = _numbers(source, "pad")[::-2][-rank:]
        source = facts.operands(source)[0]
    parts = (source.shape[-rank:], fact.shape[-rank:], kernel, stride or kernel, padding or (0,) * rank)
    return tuple(itertools.starmap(Window, zip(*parts, dilation or (1,) * rank, strict=False)))


def _numbers(fact: TensorFact, name: str) -> tuple[int, ...]:
    match = re.search(rf"\b{name}=\[([0-9, ]+)\]", fact.arguments)
    return tuple(map(int, match[1].split(","))) if match else ()


def judge_windows(view: View) -> Iterator[Claim]:
    if not WORDS.of_windows.search(view.skeleton):
        return
    named = [fact for mention in view.mentions for fact in mention.facts]
    every = [found for fact in view.facts.tensors if (found := windows_of(view.facts, fact))]
    sizes = {quantity.factors for _, quantity in view.all_figures() if len(quantity.sides) == 1}
    chosen = [found for fact in named if (found := windows_of(view.facts, fact))]
    chosen += [windows for windows in every if tuple(axis.taps for axis in windows) in sizes]
    chosen = chosen or every
    if not chosen:
        return
    axes = {axis for windows in chosen for axis in windows if axis.results <= _MOST_RESULTS}
    yield from _patches(view, chosen)
    yield from _counts(view, chosen)
    yield from _reads(view, axes)
    yield from _ranges(view, axes)
    yield from _offsets(view, [{_steps(axis) for axis in windows} for windows in chosen])


def _counts(view: View, chosen: Iterable[tuple[Window, ...]]) -> Iterator[Claim]:
    """ "In the corner 4 of the 9 taps lie inside": of each axis the first, the last or an inner result."""
    edge = WORDS.at_edge.search(view.skeleton)
    if not edge:
        return
    allowed: set[int] = set()
    for windows in chosen:
        total = math.prod(axis.taps for axis in windows)
        ends = [
            {axis.inside(0)} | ({axis.inside(axis.results - 1)} if not edge["first"] else set()) for axis in windows
        ]
        if edge["where"] != "corner":
            ends = [some | {axis.taps} for some, axis in zip(ends, windows, strict=True)]
        inside = {math.prod(some) for some in itertools.product(*ends)}
        allowed |= inside | {total - count for count in inside} | {total}
    for match in WORDS.taps.finditer(view.skeleton):
        at = int(match["count"])
        if at not in view.taken and (quantity := view.quantity(at)).value.denominator == 1:
            sides = {axis.inside(axis.results - 1) for windows in chosen for axis in windows}
            sides |= {axis.inside(0) for windows in chosen for axis in windows}
            holds = quantity.is_near(0) or any(quantity.is_near(n) for n in allowed | sides)
            view.taken.add(at)
            yield judged(ClaimKind.COUNT, view.words(at), holds, "not how many inputs of a window exist")


def _patches(view: View, chosen: Iterable[tuple[Window, ...]]) -> Iterator[Claim]:
    """ "A 16 × 16 tile needs a patch of 18 × 18 inputs"."""
    for match in WORDS.patch.finditer(view.skeleton):
        tile, at = view.quantity(int(match["tile"])).factors, int(match["patch"])
        patch = view.quantity(at).factors
        if len(tile) == len(patch) == 2:
            sizes = {tuple(axis.reads(n - 1)[-1] - axis.reads(0)[0] + 1 for n, axis in zip(tile, windows, strict=False))
                     for windows in chosen if len(windows) == 2}  # fmt: skip
            view.taken.add(at)
            yield judged(ClaimKind.SHAPE, view.words(at), patch in sizes, "not the inputs of such a tile")


def _reads(view: View, axes: Iterable[Window]) -> Iterator[Claim]:
    """ "Output row 7 covers input rows 13 to 15"."""
    for match in WORDS.reads_inputs.finditer(view.skeleton):
        places = [int(found["result"]) for found in WORDS.result_index.finditer(view.skeleton[: match.start("verb")])]
        if not places or view.quantity(places[-1]).value.denominator != 1:
            continue
        result, at, last = int(view.quantity(places[-1]).value), int(match["first"]), match["last"]
        spans = {span for axis in axes if 0 <= result < axis.results for span in axis.spans(result)}
        first = int(view.quantity(at).value)
        if last:
            holds = (first, int(view.quantity(int(last)).value)) in spans
        else:
            holds = first in {span[1 if "end" in match["verb"] or "to" in match["verb"] else 0] for span in spans}
        if spans:
            view.taken.update((at, places[-1], *((int(last),) if last else ())))
            yield judged(ClaimKind.INDEX_RANGE, view.words(at), holds, "not the inputs of this result")


def _ranges(view: View, axes: Iterable[Window]) -> Iterator[Claim]:
    """ "All taps are valid for t = 5 ... 29", "the taps reach from -1 to 61"."""
    for found, allowed in (
        (WORDS.whole_window, {axis.whole for axis in axes}),
        (WORDS.all_read, {(axis.reads(0)[0], axis.reads(axis.results - 1)[-1]) for axis in axes}),
    ):
        for match in found.finditer(view.skeleton):
            pair = (int(match["first"]), int(match["last"]))
            values = tuple(int(view.quantity(at).value) for at in pair)
            view.taken.update(pair)
            yield judged(ClaimKind.INDEX_RANGE, view.words(pair[0], 6), values in allowed, "not the range of these")


def _steps(axis: Window) -> frozenset[int]:
    return frozenset(place for place in axis.reads(0))


def _offsets(view: View, chosen: list[set[frozenset[int]]]) -> Iterator[Claim]:
    """ "Reads t - 1, t and t + 1": the offsets of a window that moves by one."""
    found: dict[str, set[int]] = {}
    for _, item in view.of_kind(ItemKind.FORMULA):
        steps = linear_steps(str(item.value))
        if steps and len(steps[0]) == 1 and steps[1].denominator == 1 and set(steps[0].values()) == {1}:
            found.setdefault(next(iter(steps[0])), set()).add(int(steps[1]))
    for name, offsets in found.items():
        if re.search(rf"(?<![\w+-] ){re.escape(name.lower())}(?! [+=-])", view.skeleton):
            offsets.add(0)
        if len(offsets) < 2 or not re.search(r"\btaps?\b|\breads?\b|\bcombines\b|\bsees\b", view.skeleton):
            continue
        is_every = re.search(r"\b(?:both|all|each|every)\b(?: the)? (?:\w+ )?(?:conv|pool)\w*", view.skeleton)
        fits = [offsets in axes or any(offsets < some for some in axes) for axes in chosen]
        text = ", ".join(f"{name} {offset:+d}" for offset in sorted(offsets))
        yield judged(ClaimKind.INDEX_FORMULA, text, all(fits) if is_every else any(fits), "not the inputs of a window")
