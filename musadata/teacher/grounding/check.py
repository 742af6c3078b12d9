"""Reading the claims of a text and judging them against the traces."""

from collections.abc import Callable, Iterator, Sequence

from musadata.records import ReasoningStep, Trace
from musadata.teacher.grounding.axes import judge_axes
from musadata.teacher.grounding.claims import Claim, ClaimKind, Outcome
from musadata.teacher.grounding.context import MOST_THREADS, Stated, View
from musadata.teacher.grounding.division import judge_division
from musadata.teacher.grounding.equations import judge_equations
from musadata.teacher.grounding.facts import Facts, base_name
from musadata.teacher.grounding.figures import judge_figures
from musadata.teacher.grounding.geometry import block_sizes, judge_geometry, tile_sizes
from musadata.teacher.grounding.indexing import judge_formulas, judge_ranges
from musadata.teacher.grounding.lexicon import pattern
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
_SECOND, _SEVERAL, _FIRST = (pattern(name) for name in ("second_set", "several_sets", "first_set"))
_FEW = 3


def check_grounding(steps: Sequence[ReasoningStep], traces: Sequence[Trace]) -> tuple[str, ...]:
    """Why a text is not grounded, as `step: "words": what is wrong`; nothing if it is.

    Reasons are claims that the traces contradict. A whole analysis without any also has to say enough: in a step about
    sizes that has figures the traces confirm one, and in all steps `LEAST_CONFIRMED` specific claims (shapes, counts,
    index formulas, …).
    """
    facts = [Facts(trace) for trace in traces]
    texts = [(step.step, _read(step.text, traces)) for step in steps]
    stated = _stated([sentence for _, sentences in texts for sentence in sentences], facts)
    claims = [(step, judge_sentences(sentences, facts, stated)) for step, sentences in texts]
    wrong = [
        f'{step}: "{claim.text}": {claim.wrong}'
        for step, found in claims
        for claim in found
        if claim.outcome is Outcome.CONTRADICTED
    ]
    is_analysis = {step.step for step in steps} >= set(STEPS_OF_FIGURES)
    return tuple(dict.fromkeys(wrong)) or (tuple(_too_thin(claims)) if is_analysis else ())


def _too_thin(claims: Sequence[tuple[str, list[Claim]]]) -> Iterator[str]:
    confirmed: set[tuple[ClaimKind, str]] = set()
    for step, found in claims:
        checked = [claim for claim in found if claim.outcome is Outcome.CONFIRMED]
        specific = {(claim.kind, claim.text) for claim in checked if claim.kind in _SPECIFIC}
        confirmed |= specific
        figures = [claim for claim in found if claim.kind not in _WITHOUT_FIGURES]
        known = [claim for claim in figures if claim.outcome is Outcome.CONFIRMED]
        if step in STEPS_OF_FIGURES and len(figures) >= LEAST_FIGURES and not known:
            yield f"{step}: none of its figures could be checked"
    if len(confirmed) < LEAST_CONFIRMED:
        yield f"all steps: {len(confirmed)} claims could be checked, {LEAST_CONFIRMED} are needed"


def check_text(text: str, traces: Sequence[Trace]) -> list[Claim]:
    """All claims of a text and what became of them."""
    facts = [Facts(trace) for trace in traces]
    sentences = _read(text, traces)
    stated = _stated(sentences, facts)
    return judge_sentences(sentences, facts, stated)


def _read(text: str, traces: Sequence[Trace]) -> list[Sentence]:
    names = frozenset(fact.name for trace in traces for fact in trace.tensors)
    operators = frozenset(
        base_name(name).strip("_").removeprefix("native_") for one in traces for name in one.operators
    )
    return [read_sentence(part, names, operators) for part in split_sentences(normalise(text))]


def _stated(sentences: Sequence[Sentence], facts: Sequence[Facts]) -> list[Stated]:
    """What all sentences together state, for each trace."""
    blocks: set[int] = set()
    tiles: set[int] = set()
    for sentence in sentences:
        view = View(sentence, facts[0], Stated())
        blocks |= {size for size in block_sizes(view) if size <= MOST_THREADS and size % 4 == 0}
        tiles |= tile_sizes(view)
    return [Stated(frozenset(blocks), frozenset(tiles)) for _ in facts]


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
    return [claim for judge in _JUDGES for claim in judge(view)]


def _sets_of(sentence: Sentence, facts: Sequence[Facts]) -> tuple[Sequence[int], bool]:
    """The numbers of the sets of shapes that a sentence may be about, and whether it is about several."""
    count, second = len(facts), _SECOND.search(sentence.skeleton)
    if _SEVERAL.search(sentence.skeleton) or count < 2:
        return range(count), True
    if not second:
        return ((0,) if _FIRST.search(sentence.skeleton) else range(count)), False
    values = [item.value for at, item in enumerate(sentence.items) if sentence.start(at) < second.start()]
    figures = {value.value for value in values if isinstance(value, Quantity) and value.value > _FEW}
    shapes = {value for value in values if isinstance(value, tuple)}
    first, other = facts[:2]
    of_first = bool((figures & first.known) - other.known or (shapes & first.shapes) - other.shapes)
    of_first = of_first or any(figure.denominator > 1 for figure in figures)
    return (range(count)[::-1] if of_first else range(1, count)), of_first


def _wrong(claims: Sequence[Claim]) -> int:
    return sum(claim.outcome is Outcome.CONTRADICTED for claim in claims)
