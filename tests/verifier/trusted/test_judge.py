"""From facts to a judgement."""

import pytest
import torch

from musadata.records import ErrorClass
from musadata.sandbox import Outcome
from musadata.verifier.protocol.messages import CandidateFacts, ErrorFacts
from musadata.verifier.sandboxed import execute
from musadata.verifier.trusted.candidate_report import read_report
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.judge import judge


def judge_error(kind):
    report = read_report(CandidateFacts(error=ErrorFacts(kind, "boom")), {}, [])
    return judge(Outcome("ok"), report, [], Expectation((), (), b"", (), {}))


def test_what_fails_in_our_own_code_says_nothing_of_the_candidate():
    with pytest.raises(execute.OwnFailure, match="no such view") as caught, execute._own_work():
        raise RuntimeError("no such view")
    assert judge_error(type(caught.value).__name__).classes() == {ErrorClass.INFRA}
    assert ErrorClass.RUNTIME in judge_error("RuntimeError").classes()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("no memory"), RuntimeError("CUDA error: illegal access")])
def test_a_device_reports_the_candidates_faults_in_our_code(error):
    with pytest.raises(type(error), match=str(error)), execute._own_work():
        raise error
