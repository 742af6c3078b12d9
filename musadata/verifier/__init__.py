"""Judging candidates: extract, legality, compile, execute, compare, and on a device profile and time.

    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        verdict = verifier.verify(task, reply, shape_sets)

A candidate's Python runs in the sandbox only, and only there; the reference runs in another process, and results are
compared in this one. Imports neither torch nor Beam.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from musadata.verifier.verifier import REFERENCE_PRELOAD, Verifier, verify

__all__ = ["REFERENCE_PRELOAD", "Verifier", "verify"]


def __getattr__(name: str) -> Any:
    """On first use: a process in the sandbox needs one module of this package and not the whole chain."""
    if name in __all__:
        return getattr(importlib.import_module("musadata.verifier.verifier"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
