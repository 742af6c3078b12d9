"""Realistic faults: small edits of an honest candidate, each at a place where it matters for the task's shapes.

`KINDS` holds all kinds by name, as `kinds.yaml` lists them. Kinds that a pattern describes stand there whole; the
modules register the others with `catalogue.fault`. `FaultContext` has the edits that they are made of. `derive`
says why the program fails.
"""

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
from musadata.compiler.faults.derivation import Derivation, derive
from musadata.compiler.faults.fault_context import FaultContext

# Kinds and derivations are registered when their modules are imported.
MODULES = (
    *(arithmetic_faults, cheating_faults, cooperation_faults, indexing_faults),
    *(index_derivations, team_derivations, value_derivations),
)


__all__ = ["KINDS", "Derivation", "FaultContext", "FaultKind", "derive"]
