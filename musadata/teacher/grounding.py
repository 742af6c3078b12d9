"""Reading the six steps out of an answer, and comparing every claim in them with the traces.

A claim is grounded if the traces confirm it on one of the sets of shapes:

- an operator was dispatched, a dtype occurs (on that tensor, where the text names one);
- a tuple is the shape or stride of a tensor (of the tensor that the text names), part of a shape, or an argument;
- an equation is true, and what stands in it is known: a fact, a block size, or the result of another such equation;
- counts of blocks and threads follow from a count of elements and a block size that the text states;
- a coordinate `i / stride % size` fits an axis of a tensor or how an operator takes one apart, and the steps of an
  offset `n * 768 + k * 256` are strides of one tensor;
- any other whole number from 3 up is a dimension, stride, argument, count of elements, bytes of a tensor, the FLOPs or
  bytes of a trace, or the result of a grounded equation: derived figures have to show how they are derived.

This check cannot detect a true figure about the wrong thing ("33 rows" where 33 is the number of columns), nor whether
an argument is valid. `musadata.teacher.claims` says what counts as a claim.
"""

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from musadata.records import ReasoningStep, TensorFact, Trace
from musadata.teacher.claims import Claim, ClaimKind, evaluate, find_claims
from musadata.teacher.prompts import STEPS
from musadata.tracing.roofline import BALANCE, itemsize

_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_WARP, _MOST_THREADS = 32, 1024
# Equations with these say how work is cut up or what is left over: their results are no sizes of anything else.
_CUTS = r"[−\-⌈⌊%]|ceil|floor|mod"
# Limits of the machine and of its number formats that good reasoning mentions.
_MACHINE = frozenset({2**31 - 1, 2**31, 2**24, 65535, 49152})


def parse_steps(text: str) -> tuple[ReasoningStep, ...]:
    """Those of the six steps that an answer has, in their order; what a model thinks before (`</think>`) is dropped."""
    text = text.rsplit("</think>", 1)[-1]
    found: dict[str, str] = {}
    matches = list(_HEADING.finditer(text))
    for match, following in itertools.zip_longest(matches, matches[1:]):
        body = text[match.end() : following.start() if following else len(text)].strip()
        step = _NAMES[re.sub(r"[\s-]+", "", match["name"].lower())]
        if body:
            found.setdefault(step, body)
    return tuple(ReasoningStep(step, found[step]) for step in STEPS if step in found)


_NAMES = {re.sub(r"[\s-]+", "", step): step for step in STEPS}
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?(?:\*\*|__)?(?:step[ \t]*)?(?:[1-6][.):]?[ \t]*)?(?:\*\*|__)?[ \t]*(?P<name>"
    + "|".join(r"[ \t-]*".join(re.split(r"[\s-]", step)) for step in STEPS)
    + r")(?:\*\*|__)?[ \t]*:?[ \t]*(?:\*\*|__)?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def check_grounding(steps: Sequence[ReasoningStep], traces: Sequence[Trace]) -> tuple[str, ...]:
    """The claims of the six steps that the traces do not confirm, each as `step: "words": what is wrong`."""
    claims = [(step.step, claim) for step in steps for claim in find_claims(step.text)]
    facts = Facts(tuple(traces))
    stated = _Stated(facts, [claim for _, claim in claims])
    wrong = [(step, claim, _judge(claim, facts, stated)) for step, claim in claims]
    texts = [f'{step}: "{claim.text}": {reason}' for step, claim, reason in wrong if reason]
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True)
class Facts:
    """Everything about the traces that a text may state, arranged for looking up."""

    traces: tuple[Trace, ...]

    @cached_property
    def tensors(self) -> list[TensorFact]:
        return list({fact: None for trace in self.traces for fact in trace.tensors})

    @cached_property
    def operators(self) -> frozenset[str]:
        full = [operator for trace in self.traces for operator in trace.operators]
        return frozenset(full) | {operator.rpartition(".")[0] for operator in full}

    @cached_property
    def arguments(self) -> frozenset[tuple[int, ...]]:
        lists = [found for fact in self.tensors for found in re.findall(r"\[([-0-9, ]+)\]", fact.arguments)]
        return frozenset(tuple(int(number) for number in found.split(",")) for found in lists)

    @cached_property
    def shapes(self) -> frozenset[tuple[int, ...]]:
        return frozenset(fact.shape for fact in self.tensors)

    @cached_property
    def strides(self) -> frozenset[tuple[int, ...]]:
        return frozenset(fact.stride for fact in self.tensors)

    @cached_property
    def partial_shapes(self) -> frozenset[tuple[int, ...]]:
        return frozenset(
            shape[start:end] for shape in self.shapes for start, end in itertools.combinations(range(len(shape) + 1), 2)
        )

    @cached_property
    def counts(self) -> frozenset[int]:
        """Sizes of tensors and of any of their axes taken together."""
        return frozenset(product for shape in self.shapes for product in _products(shape))

    @cached_property
    def intensities(self) -> list[float]:
        return [*(trace.intensity for trace in self.traces), BALANCE]

    @cached_property
    def sizes(self) -> frozenset[int]:
        """Bytes of one element, per dtype."""
        return frozenset(itemsize(fact.dtype) for fact in self.tensors)

    @cached_property
    def groupings(self) -> frozenset[int]:
        """By what operators such as a shuffle of channels take an axis apart."""
        found = (
            n for fact in self.tensors for n in re.findall(r"\b(?:groups|\w+scale_factor)=([0-9]+)", fact.arguments)
        )
        return frozenset(map(int, found))

    @cached_property
    def numbers(self) -> frozenset[int]:
        known = {math.prod(shape) for shape in self.shapes} | {size for shape in self.shapes for size in shape}
        known.update(number for stride in self.strides for number in stride)
        known.update(math.prod(shape[axis:]) for shape in self.shapes for axis in range(1, len(shape)))
        known.update(
            abs(int(n)) for fact in self.tensors for n in re.findall(r"(?<![\w.])-?[0-9]+(?![\w.])", fact.arguments)
        )
        known.update(math.prod(fact.shape) * itemsize(fact.dtype) for fact in self.tensors)
        for trace in self.traces:
            known.update((trace.flops, trace.bytes, len(trace.operators)))
            known.update(int(abs(bound)) for spec in trace.inputs for bound in (spec.low, spec.high))
            known.update(int(n) for spec in trace.inputs for n in re.findall(r"[0-9]+", spec.literal))
        return frozenset(known)


def _products(shape: tuple[int, ...]) -> Iterable[int]:
    if len(shape) > 6:
        return [*shape, math.prod(shape)]
    return [math.prod(part) for length in range(len(shape) + 1) for part in itertools.combinations(shape, length)]


@dataclass
class _Stated:
    """What the text adds to the facts: block sizes, example coordinates, and results of equations with known parts."""

    facts: Facts
    claims: list[Claim]
    blocks: frozenset[int] = field(init=False)
    places: frozenset[int] = field(init=False)  # coordinates of elements taken as examples
    results: frozenset[int] = field(init=False)
    sizes: frozenset[int] = field(init=False)  # results that are products, sums and shares of facts

    def __post_init__(self) -> None:
        sizes = [claim.numbers[0] for claim in self.claims if claim.kind is ClaimKind.BLOCK_SIZE]
        for claim in self.claims:
            if claim.kind is ClaimKind.TILE and _is_block_size(math.prod(claim.numbers)):
                sizes += [*claim.numbers, math.prod(claim.numbers)]
        self.blocks = frozenset(size for size in sizes if size <= _MOST_THREADS and size % 4 == 0)
        places = [claim for claim in self.claims if claim.about == "index" and _is_place(claim.numbers, self.facts)]
        self.places = frozenset(number for claim in places for number in claim.numbers)
        self.results = self.sizes = frozenset()
        equations = [claim for claim in self.claims if claim.kind is ClaimKind.EQUATION and _is_true(claim)]
        while True:
            known = [claim for claim in equations if not self.unknown(claim)]
            results = frozenset(value for claim in known for value in _values(claim))
            if results == self.results:
                break
            self.results = results
        self.sizes = frozenset(value for claim in known for value in _values(claim) if not re.search(_CUTS, claim.text))

    def unknown(self, equation: Claim) -> list[int]:
        """Numbers in an equation that nothing confirms; the results of its sides are not among them."""
        parts = [
            int(number)
            for side in equation.text.split("=")
            if not side.strip().isdigit()
            for number in re.findall(r"[0-9]+", side)
        ]
        unknown = {number for number in parts if number > 2 and not self.knows(number)}
        return sorted(unknown - self.facts.sizes - self.places - self.results - self._steps(equation))

    def _steps(self, equation: Claim) -> set[int]:
        """Factors beside a block or warp size that say how many of them a count of elements takes."""
        pairs = {(int(a), int(b)) for a, b in re.findall(r"([0-9]+) [×*] ([0-9]+)", equation.text)}
        counts = self.facts.counts | self.results
        return {
            often
            for often, step in pairs
            if step in self.blocks | {_WARP} and any(often in (n // step, -(-n // step)) for n in counts)
        }

    def knows(self, number: int) -> bool:
        return number in self.facts.numbers or number in self.sizes or number in self.blocks or number == _WARP

    @cached_property
    def geometry(self) -> frozenset[int]:
        """Counts of blocks and threads that follow from a count of elements and a stated block size."""
        found = set(self.blocks)
        whole = {math.prod(shape) for shape in self.facts.shapes} | {shape[-1] for shape in self.facts.shapes if shape}
        for count, block in itertools.product(whole | self.results, self.blocks):
            blocks = -(-count // block)
            found.update(
                (blocks, count // block, count % block, blocks * block, blocks * block - count, block // _WARP)
            )
        return frozenset(found)


def _judge(claim: Claim, facts: Facts, stated: _Stated) -> str:
    """What is wrong with a claim; empty if nothing."""
    number = claim.numbers[0] if claim.numbers else 0
    match claim.kind:
        case ClaimKind.OPERATOR:
            good, wrong = claim.text in facts.operators, "no such operator was dispatched"
        case ClaimKind.DTYPE:
            good, wrong = claim.text in {fact.dtype for fact in _named(claim, facts)}, f"no such dtype{_of(claim)}"
        case ClaimKind.TUPLE:
            return _judge_tuple(claim, facts, stated)
        case ClaimKind.EQUATION:
            unknown = stated.unknown(claim) if _is_true(claim) else []
            good, wrong = (
                _is_true(claim) and not unknown,
                f"{unknown[0]} is not in the traces" if unknown else "is false",
            )
        case ClaimKind.SCALED:
            good, wrong = _is_rounded(claim, facts, stated), "no such figure in the traces"
        case ClaimKind.INTENSITY:
            good = any(_rounds_to(value, claim.about) for value in facts.intensities)
            wrong = "not the intensity of a trace"
        case ClaimKind.TILE | ClaimKind.BLOCK_SIZE:
            good, wrong = _is_block_size(math.prod(claim.numbers)), "a block has 32 to 1024 threads, in whole warps"
        case ClaimKind.GEOMETRY:
            good = number in stated.geometry or stated.knows(number)
            wrong = "does not follow from a stated block size"
        case ClaimKind.SPLIT:
            good, wrong = _fits_axis(claim, facts, stated), "fits no axis of a tensor"
        case ClaimKind.OFFSET:
            good = any(set(claim.numbers) <= set(fact.stride) for fact in facts.tensors)
            wrong = "not the strides of one tensor"
        case ClaimKind.RANK:
            good, wrong = number in {len(shape) for shape in facts.shapes}, "no tensor has that rank"
        case ClaimKind.NUMBER:
            good = number <= 2 or stated.knows(number) or number in facts.sizes or number in _MACHINE
            wrong = "no such figure in the traces"
    return "" if good else wrong


def _judge_tuple(claim: Claim, facts: Facts, stated: _Stated) -> str:
    numbers, tensors = claim.numbers, _named(claim, facts)
    shapes, strides = {fact.shape for fact in tensors}, {fact.stride for fact in tensors}
    if claim.about == "stride":
        return "" if numbers in strides else f"no such stride{_of(claim)}"
    if claim.about == "index":
        return "" if _is_place(numbers, facts) else "no tensor has such an element"
    if claim.tensor and claim.tensor in {fact.name for fact in facts.tensors}:
        right = numbers in shapes or (claim.about != "shape" and numbers in strides)
        return "" if right else f"not the shape of `{claim.tensor}`"
    known = facts.partial_shapes | (frozenset() if claim.about == "shape" else facts.strides | facts.arguments)
    if numbers in known or (len(numbers) == 1 and stated.knows(abs(numbers[0]))) or all(abs(n) <= 1 for n in numbers):
        return ""
    return "no such shape, stride or argument"


def _is_place(numbers: tuple[int, ...], facts: Facts) -> bool:
    return any(len(shape) == len(numbers) and all(map(int.__lt__, numbers, shape)) for shape in facts.shapes)


def _fits_axis(claim: Claim, facts: Facts, stated: _Stated) -> bool:
    """Whether some tensor has an axis of that size whose elements are that far apart when it is contiguous, or an
    operator takes an axis apart by these numbers."""
    if set(claim.numbers) <= facts.groupings:
        return True
    axes = {(math.prod(shape[axis + 1 :]), size) for shape in facts.shapes for axis, size in enumerate(shape)}
    if claim.about == "both":
        return claim.numbers in axes
    return claim.numbers[0] in stated.blocks | {_WARP} or claim.numbers[0] in {size for _, size in axes} | {
        step for step, _ in axes
    }


def _named(claim: Claim, facts: Facts) -> list[TensorFact]:
    """The tensors that a claim is about: those of its name, or all."""
    named = [fact for fact in facts.tensors if fact.name == claim.tensor]
    return named or facts.tensors


def _of(claim: Claim) -> str:
    return f" of `{claim.tensor}`" if claim.tensor else " in the traces"


def _is_true(equation: Claim) -> bool:
    return len({evaluate(side) for side in equation.text.split("=")}) == 1


def _values(equation: Claim) -> list[int]:
    values = [evaluate(side) for side in equation.text.split("=")]
    return [int(value) for value in values if value is not None and value.denominator == 1]


def _is_block_size(threads: int) -> bool:
    return threads % _WARP == 0 and _WARP <= threads <= _MOST_THREADS


def _is_rounded(claim: Claim, facts: Facts, stated: _Stated) -> bool:
    value, scale = claim.about.split()
    return any(_rounds_to(number / _SCALES[scale], value) for number in facts.numbers | stated.results)


def _rounds_to(exact: float, stated: str) -> bool:
    """Whether `stated` is `exact` rounded to the decimal places that it has."""
    places = len(stated.partition(".")[2])
    return abs(exact - float(stated)) <= 0.5 * 10**-places + 1e-9
