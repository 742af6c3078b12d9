"""Counting what an accepted candidate's kernels do to memory. Apart from verdicts, which it neither makes nor slows."""

from collections.abc import Mapping

from musadata.records import Task
from musadata.rows import plain
from musadata.verifier.protocol.access_counts import CountedCall, read_counts
from musadata.verifier.protocol.entry_points import COUNT_ACCESSES
from musadata.verifier.protocol.message_encoding import clean_text, serve_candidate
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.trusted.candidate_session import Compilations
from musadata.verifier.trusted.verifier_resources import Resources

COUNTING_BACKEND = "emulated"


def run_counted(opened: Resources, task: Task, source: str, windows: Mapping[str, int], most: int) -> CountedCall:
    """One call of a candidate on the task's own inputs; see `Verifier.count_accesses`.

    Raises:
        Outage: the machine failed.
    """
    backend = opened.backend
    if backend.name != COUNTING_BACKEND:
        return CountedCall(why=f"the backend {backend.name} counts no accesses")
    compilations = Compilations(backend, named_in(source))
    outcome = opened.candidates.call(
        COUNT_ACCESSES,
        source,
        task.reference,
        plain(task.inputs),
        dict(windows),
        most,
        backend.child,
        serve=serve_candidate(compilations.serve),
    )
    said = outcome.value if outcome.ok and isinstance(outcome.value, dict) else {}
    if isinstance(said.get("counts"), str):
        try:
            return CountedCall(read_counts(said["counts"]))
        except ValueError as error:
            return CountedCall(why=clean_text(error))
    return CountedCall(
        why=clean_text(said.get("why") or outcome.describe_error() or f"the process ended: {outcome.status}")
    )
