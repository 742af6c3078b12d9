"""Realistic faults: small edits of an honest candidate, each at a place where it matters for the task's shapes.

`KINDS` holds all kinds by name, as `kinds.yaml` lists them. Kinds that a pattern describes stand there whole; the
modules register the others with `catalogue.fault`. `FaultContext` has the edits that they are made of.
"""

from musadata.compiler.faults import arithmetic_faults, cooperation_faults, indexing_faults
from musadata.compiler.faults.catalogue import KINDS, FaultKind
from musadata.compiler.faults.fault_context import FaultContext

# Kinds are registered when their modules are imported.
MODULES = (arithmetic_faults, cooperation_faults, indexing_faults)

__all__ = ["KINDS", "FaultContext", "FaultKind"]
