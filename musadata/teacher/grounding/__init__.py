"""Comparing what an analysis claims with what was traced.

A text is brought into one notation (`normalise`), cut into sentences of words, figures and names (`reading`), and each
kind of claim is judged by its own module: `equations`, `statements`, `mechanisms`, `axes`, `windows`, `shapes`,
`indexing`, `division`, `geometry` and `figures`. A claim is confirmed, contradicted or not checkable; only
contradicted ones flag a text.

What a figure counts follows from the words around it (`rules.yaml`), and what it is about from the names in its clause
(`context`). It is then compared with all values of that kind that the trace has (`values`): of the tensors that it is
about, if grammar ties it to them; else of all that may be meant. Words and constants of the hardware are tables
(`lexicon.yaml`).

A task has several sets of shapes. A sentence may be about any, unless it names one (`check`). A claim is contradicted
only if every reading of it is wrong: a false sentence that is spared costs less than a true one that is flagged.

This check cannot judge an argument, nor words that it does not know: of 360 false sentences about programs by an author
who had not read it, it caught 23 %, and decided nothing in half of all (docs/grounding.md says what refutes the rest).
A sentence that is not contradicted is not true therefore: `share_checked` says how many are checked at all, and
`teacher.transcription` has the teacher say in expressions what its sentences claim.
"""

from musadata.teacher.grounding.check import (
    check_grounding,
    check_sentences,
    check_text,
    find_reasons,
    share_checked,
)
from musadata.teacher.grounding.claims import Claim, ClaimKind, Outcome, is_checked
from musadata.teacher.grounding.steps import parse_steps

__all__ = [
    "Claim",
    "ClaimKind",
    "Outcome",
    "check_grounding",
    "check_sentences",
    "check_text",
    "find_reasons",
    "is_checked",
    "parse_steps",
    "share_checked",
]
