"""Comparing what an analysis claims with what was traced.

A text is brought into one notation (`normalise`), cut into sentences of words, figures and names (`reading`), and each
kind of claim is judged by its own module: `shapes`, `indexing`, `counting`, `amounts`, `geometry`, `statements` and,
for what is left, `figures`. A claim is confirmed, contradicted or not checkable; only contradicted ones flag a text.
A figure is compared with the tensors that its words name, and derived figures are accepted only where their words say
what they derive. The words are tables (`lexicon.yaml`), constants of the hardware as well (`machine.yaml`).

This check cannot judge an argument, nor words that it does not know.
"""

from musadata.teacher.grounding.check import check_grounding, check_text
from musadata.teacher.grounding.claims import Claim, ClaimKind, Outcome
from musadata.teacher.grounding.steps import parse_steps

__all__ = ["Claim", "ClaimKind", "Outcome", "check_grounding", "check_text", "parse_steps"]
