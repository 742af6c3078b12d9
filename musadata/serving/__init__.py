"""Verdicts as a service: `musadata serve`, see docs/guides/ray.md.

    HTTP front (FastAPI) → dispatcher (queue, journal, deadlines, tries) → workers (Ray actors, each with a verifier)

A worker per node judges on the emulated backend, a worker per device otherwise. The dispatcher sends a worker no more
than it judges at a time, so that what waits can still be cancelled or go elsewhere. What a worker loses is judged by
another one; what no worker can judge is an outage, which the client is told. Neither is ever a verdict.
"""
