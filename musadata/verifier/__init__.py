"""Judging candidates: extract, legality, compile, execute, compare, and on a device profile and time.

    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        verdict = verifier.verify(task, reply, shape_sets)

A candidate's Python runs in the sandbox only, and only there; the reference runs in another process, and results are
compared in this one. Imports neither torch nor Beam.
"""

from musadata.verifier.verifier import REFERENCE_PRELOAD, Verifier, verify

__all__ = ["REFERENCE_PRELOAD", "Verifier", "verify"]
