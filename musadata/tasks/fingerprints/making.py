"""Making a fingerprint set from a checkout of a benchmark."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from musadata.sandbox import Limits, Sandbox
from musadata.tasks.decontaminate import NGRAM
from musadata.tasks.text import shingle_hashes

_PRELOAD = (
    "torch._dynamo",
    "musadata.tasks.fingerprints.tracing",
    "musadata.tasks.fingerprints.results",
)  # fake tensors need dynamo: 3 s if not warm
_LIMITS = Limits(seconds=300.0, memory_mb=16384)


def make_fingerprints(benchmark: str, revision: str, files: Iterable[tuple[str, Path]]) -> dict[str, Any]:
    """The set, as JSON, of (name, file) pairs; each file is a task in KernelBench's form.

    A task that cannot be traced here (a missing dependency, a download) is matched by its text alone.
    """
    tasks = [(name, path.read_text(encoding="utf-8")) for name, path in sorted(files)]
    entries = []
    with Sandbox(preload=_PRELOAD, limits=_LIMITS) as sandbox:
        for name, source in tasks:
            entries.append({"name": name, **_trace(sandbox, source), "ngrams": sorted(shingle_hashes(source, NGRAM))})
    return {"benchmark": benchmark, "revision": revision, "ngram": NGRAM, "tasks": entries}


def _trace(sandbox: Sandbox, source: str) -> dict[str, Any]:
    outcome = sandbox.call("musadata.tasks.fingerprints.tracing:trace", source)
    facts = outcome.value if outcome.ok else {"problem": outcome.error_type or outcome.status}
    results = sandbox.call("musadata.tasks.fingerprints.results:hash_results", source, True)
    return {
        "graphs": [facts["graph"]] if "graph" in facts else [],
        "results": results.value if results.ok else [],
        "problem": facts.get("problem", ""),
    }
