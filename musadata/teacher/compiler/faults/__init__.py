"""Realistic faults: small edits of an honest candidate, each at a place where it matters for the task's shapes."""

from musadata.teacher.compiler.faults import arithmetic_faults as arithmetic
from musadata.teacher.compiler.faults import cooperation_faults as cooperation
from musadata.teacher.compiler.faults import indexing_faults as indexing
from musadata.teacher.compiler.faults import language_faults as language
from musadata.teacher.compiler.faults.catalogue import KINDS, FaultKind
from musadata.teacher.compiler.faults.fault_context import FaultContext

# The kinds are registered when their modules are imported.
MODULES = (arithmetic, cooperation, indexing, language)

__all__ = ["KINDS", "FaultContext", "FaultKind"]
