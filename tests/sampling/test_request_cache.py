"""What is remembered of a verdict. The verifier is a stand-in that says what the test wants."""

import dataclasses

import pytest

from musadata.config import VerifierConfig
from musadata.errors import Outage
from musadata.records import ErrorClass, Finding
from musadata.sampling.request_cache import RequestCache
from musadata.storage.journal import Journal
from tests.sampling.test_rollout import ANNOTATION, TASK, VERDICT, answer


class Says:
    """Gives the same verdict again and again, and counts how often."""

    def __init__(self, verdict):
        self.verdict, self.count = verdict, 0

    def verify(self, task, text, shape_sets):
        self.count += 1
        if isinstance(self.verdict, Outage):
            raise self.verdict
        return self.verdict


@pytest.fixture
def judge(tmp_path):
    with Journal(str(tmp_path), "answers") as answers, Journal(str(tmp_path), "verdicts") as verdicts:
        cache = RequestCache(answers, verdicts, "", "1")
        yield lambda verifier: cache.verify(VerifierConfig(), verifier)(TASK, ANNOTATION, answer(1))


def undecided(rule):
    finding = Finding(rule, "The device does not answer any more.")
    return dataclasses.replace(VERDICT, accepted=False, error_class=ErrorClass.INFRA, findings=(finding,))


def test_a_program_is_judged_once(judge):
    verifier = Says(VERDICT)
    assert judge(verifier) == judge(verifier) == VERDICT
    assert verifier.count == 1


def test_what_the_backend_cannot_run_is_remembered(judge):
    verifier = Says(undecided("compile.unsupported"))
    assert judge(verifier) == judge(verifier)
    assert verifier.count == 1


def test_outage_is_not_remembered(judge):
    with pytest.raises(Outage, match="does not answer any more"):
        judge(Says(Outage("does not answer any more")))
    assert judge(Says(VERDICT)) == VERDICT
