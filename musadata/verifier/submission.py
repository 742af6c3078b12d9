"""Candidates that come with what they are judged against, as rows of a file or requests to a service."""

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from musadata.config import VerifierConfig
from musadata.errors import MusadataError, Outage
from musadata.records import InputSpec, Task, Verdict
from musadata.rows import content_id, identity_json, restore
from musadata.verifier.backend_choice import open_backend
from musadata.verifier.compilation.build_cache import hash_of
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.task_from_reference import LoneReference, given_task
from musadata.verifier.verifier import Verifier, own_version

_REMEMBERED = 10_000  # references, beside their locks


@dataclass(frozen=True)
class Submission:
    """What a verdict depends on. What comes from outside is plain, and is read when it is judged.

    Attributes:
        reference: None where a row lacks it.
        source: the candidate, or a model's reply; None where a row lacks it.
        inputs: what the reference is called with; without them they are found by running the reference.
        measure: inputs of the size at which it is timed.
        task: the whole task, in place of `inputs` and `measure`.
        shape_sets: further inputs for a task.
    """

    reference: str | None
    source: str | None
    inputs: Any = None
    measure: Any = None
    task: Any = None
    shape_sets: Any = None


def identify_judging(config: VerifierConfig) -> str:
    """Everything but the submission that facts depend on, policies aside.

    Raises:
        MusadataError: the backend is not there.
    """
    backend = open_backend(config)
    machine = backend.name, backend.device, backend.driver, backend.toolchain
    return identity_json([own_version(), hash_of(Path(__file__).parent), *machine, replace(config, policy="")])


def key_of(identity: str, submission: Submission) -> str:
    """What a journal knows the verdict by."""
    return content_id("verdict", identity, submission)


class SubmissionJudge:
    """A verifier and the references that it has read. Serves any number of threads."""

    def __init__(self, verifier: Verifier):
        self._verifier = verifier
        self._read_before: dict[str, LoneReference | MusadataError] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def judge(self, submission: Submission) -> Verdict:
        """The verdict; undecided where the submission lacks something, or its reference does not run.

        Raises:
            Outage: the machine failed.
        """
        reference, source = submission.reference, submission.source
        if reference is None or source is None:
            lacking = "candidate" if reference is not None else "reference"
            return self._verifier.give_up(rules.ROW_INCOMPLETE.worded(f"The row holds no {lacking}."))
        self._verifier.compile_speculatively(source)
        try:
            given = _given(reference, submission) or self._read(reference)
            further = [[restore(InputSpec, spec) for spec in some] for some in submission.shape_sets or ()]
        except Outage:
            raise
        except MusadataError as error:
            return self._verifier.give_up(rules.REFERENCE_FAILS.worded(str(error)))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            message = f"The row's inputs cannot be read: {error}"[:300]
            return self._verifier.give_up(rules.ROW_INCOMPLETE.worded(message))
        if isinstance(given, Task):
            return self._verifier.verify(given, source, further)
        return self._verifier.verify_lone(given, source)

    def _read(self, reference: str) -> LoneReference:
        with self._lock:
            if len(self._locks) > _REMEMBERED:
                self._locks.clear()
                self._read_before.clear()
            lock = self._locks.setdefault(reference, threading.Lock())
        with lock:
            found = self._read_before.get(reference)
            if found is None:
                try:
                    found = self._verifier.read_reference(reference)
                except Outage:
                    raise
                except MusadataError as error:
                    found = error
                self._read_before[reference] = found
        if isinstance(found, MusadataError):
            raise found
        return found


def _given(reference: str, submission: Submission) -> Task | None:
    """The task of a submission that says what its inputs are."""
    if submission.task:
        return restore(Task, submission.task)
    if not submission.inputs:
        return None
    measure = tuple(restore(InputSpec, spec) for spec in submission.measure or ())
    return replace(given_task(reference, submission.inputs), measure=measure)
