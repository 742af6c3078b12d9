"""Reading the claims of a text and judging them against the traces."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from musadata.records import ReasoningStep, Trace
from musadata.teacher.grounding.axes import judge_axes
from musadata.teacher.grounding.claims import Claim, ClaimKind, Outcome, is_checked
from musadata.teacher.grounding.context import MOST_THREADS, Stated, View
from musadata.teacher.grounding.division import judge_division
from musadata.teacher.grounding.equations import judge_equations
from musadata.teacher.grounding.facts import Facts, base_name
from musadata.teacher.grounding.figures import judge_figures
from musadata.teacher.grounding.geometry import block_sizes, judge_geometry, tile_sizes
from musadata.teacher.grounding.indexing import judge_formulas, judge_ranges
from musadata.teacher.grounding.launches import find_launches
from musadata.teacher.grounding.lexicon import WORDS
from musadata.teacher.grounding.mechanisms import judge_mechanisms
from musadata.teacher.grounding.normalise import normalise
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.reading import Sentence, read_sentence, split_sentences
from musadata.teacher.grounding.shapes import judge_tuples
from musadata.teacher.grounding.statements import judge_statements
from musadata.teacher.grounding.windows import judge_windows

# In this order: each takes the figures that are its own.
_JUDGES: tuple[Callable[[View], Iterator[Claim]], ...] = (
    judge_equations,
    judge_statements,
    judge_mechanisms,
    judge_axes,
    judge_windows,
    judge_tuples,
    judge_formulas,
    judge_ranges,
    judge_division,
    judge_geometry,
    judge_figures,
)
# Claims that words without a subject do not confirm by chance.
_SPECIFIC = frozenset(ClaimKind) - {
    ClaimKind.NUMBER,
    ClaimKind.ARITHMETIC,
    ClaimKind.DTYPE,
    ClaimKind.BOUND,
    ClaimKind.OPERATOR,
    ClaimKind.DIMENSION,
}
_WITHOUT_FIGURES = frozenset((ClaimKind.DTYPE, ClaimKind.BOUND, ClaimKind.OPERATOR))
# Formulas hold constants that no trace knows; these steps are about sizes.
STEPS_OF_FIGURES = ("shape calculation", "index mapping", "boundary handling")
LEAST_FIGURES = 3  # in a step, one of which has to be confirmed
LEAST_CONFIRMED = 4  # different specific claims of an analysis
_FEW = 3


@dataclass(frozen=True)
class SentenceCheck:
    """A sentence of a step, in normalised notation, and its claims."""

    step: str
    text: str
    claims: tuple[Claim, ...]


def check_grounding(steps: Sequence[ReasoningStep], traces: Sequence[Trace], program: str = "") -> tuple[str, ...]:
    """Why a text is not grounded, as `step: "words": what is wrong`; nothing if it is."""
    return find_reasons(check_sentences(steps, traces, program))


def check_sentences(steps: Sequence[ReasoningStep], traces: Sequence[Trace], program: str = "") -> list[SentenceCheck]:
    """Each sentence of the steps with its claims; `program` is the CUDA C++ that they are about, if it exists."""
    facts = [Facts(trace) for trace in traces]
    texts = [(step.step, sentence) for step in steps for sentence in _read(step.text, traces)]
    stated = _stated([sentence for _, sentence in texts], facts, program)
    return [SentenceCheck(step, one.text, tuple(judge_sentences([one], facts, stated))) for step, one in texts]


def find_reasons(checks: Sequence[SentenceCheck], least_checked: float = 0.0) -> tuple[str, ...]:
    """Why sentences are not grounded: claims that the traces contradict.

    A whole analysis without any also has to say enough: in a step about sizes that has figures the traces confirm one,
    in all steps `LEAST_CONFIRMED` specific claims (shapes, counts, index formulas, …), and facts decide something in
    this share of its sentences.
    """
    wrong = [
        f'{check.step}: "{claim.text}": {claim.wrong}'
        for check in checks
        for claim in check.claims
        if claim.outcome is Outcome.CONTRADICTED
    ]
    is_analysis = {check.step for check in checks} >= set(STEPS_OF_FIGURES)
    return tuple(dict.fromkeys(wrong)) or (tuple(_too_thin(checks, least_checked)) if is_analysis else ())


def share_checked(checks: Sequence[SentenceCheck]) -> float:
    """Of the sentences, those of which facts decide something."""
    return sum(is_checked(check.claims) for check in checks) / len(checks) if checks else 0.0


def _too_thin(checks: Sequence[SentenceCheck], least_checked: float) -> Iterator[str]:
    confirmed: set[tuple[ClaimKind, str]] = set()
    for step, some in itertools.groupby(checks, lambda check: check.step):
        found = [claim for check in some for claim in check.claims]
        checked = [claim for claim in found if claim.outcome is Outcome.CONFIRMED]
        specific = {(claim.kind, claim.text) for claim in checked if claim.kind in _SPECIFIC}
        confirmed |= specific
        figures = [claim for claim in found if claim.kind not in _WITHOUT_FIGURES]
        known = [claim for claim in figures if claim.outcome is Outcome.CONFIRMED]
        if step in STEPS_OF_FIGURES and len(figures) >= LEAST_FIGURES and not known:
            yield f"{step}: none of its figures could be checked"
    if len(confirmed) < LEAST_CONFIRMED:
        yield f"all steps: {len(confirmed)} claims could be checked, {LEAST_CONFIRMED} are needed"
    if (share := share_checked(checks)) < least_checked:
        needed = f"{100 * least_checked:.0f} % are needed"
        yield f"all steps: {100 * share:.0f} % of the sentences could be checked, {needed}"


def check_text(text: str, traces: Sequence[Trace], program: str = "") -> list[Claim]:
    """All claims of a text and what became of them."""
    facts = [Facts(trace) for trace in traces]
    sentences = _read(text, traces)
    stated = _stated(sentences, facts, program)
    return judge_sentences(sentences, facts, stated)


def _read(text: str, traces: Sequence[Trace]) -> list[Sentence]:
    names = frozenset(fact.name for trace in traces for fact in trace.tensors)
    operators = frozenset(
        base_name(name).strip("_").removeprefix("native_") for one in traces for name in one.operators
    )
    return [read_sentence(part, names, operators) for part in split_sentences(normalise(text))]


def _stated(sentences: Sequence[Sentence], facts: Sequence[Facts], program: str) -> list[Stated]:
    """What all sentences together state, for each trace."""
    blocks: set[int] = set()
    tiles: set[int] = set()
    for sentence in sentences:
        view = View(sentence, facts[0], Stated())
        blocks |= {size for size in block_sizes(view) if size <= MOST_THREADS and size % 4 == 0}
        tiles |= tile_sizes(view)
    results: set[int] = set()
    launches = [find_launches(program, one.trace) if program else () for one in facts]
    return [Stated(frozenset(blocks), frozenset(tiles), results, program, some) for some in launches]


def judge_sentences(sentences: Sequence[Sentence], facts: Sequence[Facts], stated: Sequence[Stated]) -> list[Claim]:
    """The claims of a text, each sentence by the sets of shapes that it may be about: any, unless it names one."""
    found: list[Claim] = []
    for sentence in sentences:
        numbers, is_mixed = _sets_of(sentence, facts)
        found += judge_sentence(sentence, [(facts[number], stated[number]) for number in numbers], is_mixed)
    return found


def judge_sentence(sentence: Sentence, sets: Sequence[tuple[Facts, Stated]], is_mixed: bool) -> list[Claim]:
    """The claims of a sentence, by the set of shapes that contradicts the fewest; if mixed, each by any set."""
    readings: list[list[Claim]] = []
    for facts, stated in sets:
        claims = _judge(View(sentence, facts, stated))
        if not _wrong(claims):
            return claims
        readings.append(claims)
    best = min(readings, key=_wrong)
    if not is_mixed:
        return best
    spared = {
        (claim.kind, claim.text): claim
        for claims in readings
        for claim in claims
        if claim.outcome is not Outcome.CONTRADICTED
    }
    return [spared.get((claim.kind, claim.text), claim) for claim in best]


def _judge(view: View) -> list[Claim]:
    judges = (judge_equations,) if WORDS.other_sizes.search(view.skeleton) else _JUDGES  # no trace has these sizes
    return [claim for judge in judges for claim in judge(view)]


def _sets_of(sentence: Sentence, facts: Sequence[Facts]) -> tuple[Sequence[int], bool]:
    """The numbers of the sets of shapes that a sentence may be about, and whether it is about several."""
    count, second = len(facts), WORDS.second_set.search(sentence.skeleton)
    if WORDS.several_sets.search(sentence.skeleton) or count < 2:
        return range(count), True
    if not second:
        return ((0,) if WORDS.first_set.search(sentence.skeleton) else range(count)), False
    values = [item.value for at, item in enumerate(sentence.items) if sentence.start(at) < second.start()]
    figures = {value.value for value in values if isinstance(value, Quantity) and value.value > _FEW}
    shapes = {value for value in values if isinstance(value, tuple)}
    first, other = facts[:2]
    of_first = bool((figures & first.known) - other.known or (shapes & first.shapes) - other.shapes)
    of_first = of_first or any(figure.denominator > 1 for figure in figures)
    return (range(count)[::-1] if of_first else range(1, count)), of_first


def _wrong(claims: Sequence[Claim]) -> int:
    return sum(claim.outcome is Outcome.CONTRADICTED for claim in claims)
