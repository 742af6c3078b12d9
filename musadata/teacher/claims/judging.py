"""What the facts say of sentences with expressions, and what follows for an analysis."""

import re
from collections.abc import Iterable, Iterator, Sequence

from musadata.records import Claim, ClaimOutcome, ReasoningStep
from musadata.teacher.claims.evaluation import CannotEvaluate
from musadata.teacher.claims.expressions import Facts, evaluate_claim
from musadata.teacher.claims.steps import split_sentences

_FIGURE = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\w)")
_SMALL = 2  # "the two operands", "one block"


def judge_claims(claims: Iterable[tuple[str, str]], steps: Sequence[ReasoningStep], facts: Facts) -> tuple[Claim, ...]:
    """The claims with what the facts say of them; sentences that no step has are left out."""
    by_sentence = {_plain(sentence): (sentence, expression) for sentence, expression in claims}
    texts = [(step.step, _plain(step.text)) for step in steps]
    found = []
    for plain, (sentence, expression) in by_sentence.items():
        step = next((name for name, text in texts if plain and plain in text), "")
        if step:
            outcome, why = judge_claim(sentence, expression, facts)
            found.append(Claim(step, sentence.strip(), expression.strip(), outcome, why))
    return tuple(found)


def judge_claim(sentence: str, expression: str, facts: Facts) -> tuple[ClaimOutcome, str]:
    """What the facts say of a sentence, with the values that contradict it.

    An expression that is true confirms a sentence only if it looks a fact up, and holds one of the sentence's figures
    where that has any: else it may say something else.
    """
    try:
        found = evaluate_claim(expression, facts)
    except CannotEvaluate as error:
        return ClaimOutcome.UNCHECKED, str(error)
    if not found.holds:
        return ClaimOutcome.CONTRADICTED, str(found)
    if not found.facts:
        return ClaimOutcome.UNCHECKED, "names no fact"
    figures = {figure for figure in _figures(sentence) if figure > _SMALL}
    if figures and not figures & found.figures:
        return ClaimOutcome.UNCHECKED, "has no figure of the sentence"
    return ClaimOutcome.HOLDS, ""


def _figures(sentence: str) -> Iterator[float]:
    return (float(match[0].replace(",", "")) for match in _FIGURE.finditer(sentence))


def find_reasons(claims: Sequence[Claim], share: float, least_checked: float) -> tuple[str, ...]:
    """Why an analysis is not grounded: claims that the facts contradict, or too few sentences that they decide."""
    wrong = [f'{one.step}: "{one.sentence}": `{one.expression}` is false{f": {one.why}" * bool(one.why)}'
             for one in claims if one.outcome is ClaimOutcome.CONTRADICTED]  # fmt: skip
    if not wrong and share < least_checked:
        needed = f"{100 * least_checked:.0f} % are needed"
        wrong = [f"all steps: {100 * share:.0f} % of the sentences could be checked, {needed}"]
    return tuple(wrong)


def share_checked(claims: Iterable[Claim], steps: Sequence[ReasoningStep]) -> float:
    """Of the sentences of all steps, those of which facts decide something."""
    sentences = [_plain(sentence) for step in steps for sentence in split_sentences(step.text)]
    decided = [_plain(one.sentence) for one in claims if one.outcome is not ClaimOutcome.UNCHECKED]
    checked = [one for one in sentences if any(one in claimed or claimed in one for claimed in decided)]
    return len(checked) / len(sentences) if sentences else 0.0


def _plain(text: str) -> str:
    return " ".join(text.split())
