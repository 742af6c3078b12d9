"""What runs in a worker's process."""

import atexit
from contextlib import ExitStack

from musadata.config import VerifierConfig
from musadata.records import Verdict
from musadata.sandbox import Cancellation
from musadata.verifier import Verifier
from musadata.verifier.shared_interpreter import shared_interpreter
from musadata.verifier.submission import Submission, SubmissionJudge, identify_judging


class JudgeActor:
    """A verifier for the threads of a Ray actor."""

    def __init__(self) -> None:
        self._judges: list[SubmissionJudge] = []
        self._work: dict[str, Cancellation] = {}

    def open(self, config: VerifierConfig) -> str:
        """Start the verifier: what its verdicts depend on beside the submissions.

        Raises:
            MusadataError: the backend is not there.
        """
        identity, stack = identify_judging(config), ExitStack()
        atexit.register(stack.close)
        stack.enter_context(shared_interpreter())
        self._judges.append(SubmissionJudge(stack.enter_context(Verifier(config, reads_many=True))))
        return identity

    def judge(self, attempt: str, submission: Submission) -> Verdict:
        """The verdict of one attempt.

        Raises:
            Outage: the machine failed, or the attempt was cancelled.
        """
        work = self._work[attempt] = Cancellation()
        try:
            with work.applies():
                return self._judges[0].judge(submission)
        finally:
            del self._work[attempt]

    def cancel(self, attempt: str) -> None:
        """End an attempt."""
        if work := self._work.get(attempt):
            work.cancel()
