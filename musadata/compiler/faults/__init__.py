"""Realistic faults: small edits of an honest candidate, each at a place where it matters for the task's shapes.

`KINDS` holds all kinds by name, as `kinds.yaml` lists them. Kinds that a pattern describes stand there whole; the
modules register the others with `catalogue.fault`. `FaultContext` has the edits that they are made of. `explain`
derives from an edit why the program fails.
"""

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults import (
    arithmetic_faults,
    cheating_faults,
    cooperation_faults,
    index_derivations,
    indexing_faults,
    team_derivations,
    value_derivations,
)
from musadata.compiler.faults.catalogue import KINDS, FaultKind
from musadata.compiler.faults.derivation import DERIVATIONS, Derivation, Edit
from musadata.compiler.faults.fault_context import FaultContext

# Kinds and derivations are registered when their modules are imported.
MODULES = (
    *(arithmetic_faults, cheating_faults, cooperation_faults, indexing_faults),
    *(index_derivations, team_derivations, value_derivations),
)


def explain(kind: FaultKind, honest: Candidate, faulty: Candidate) -> Derivation | None:
    """Why the faulty one of two candidates fails; None where nothing can be derived at the task's sizes."""
    return DERIVATIONS[kind.name](Edit(honest, faulty))


__all__ = ["KINDS", "Derivation", "FaultContext", "FaultKind", "explain"]
