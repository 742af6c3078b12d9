"""From facts to a judgement."""

import pytest
import torch

from musadata.records import ErrorClass
from musadata.sandbox import Outcome
from musadata.verifier.policies import decide, load_policy
from musadata.verifier.protocol.messages import Call, CallFacts, CandidateFacts, ErrorFacts
from musadata.verifier.protocol.tensors import pack, unpack
from musadata.verifier.protocol.tolerance import Tolerance
from musadata.verifier.protocol.variants import PLAIN, SCALED, InputSet
from musadata.verifier.sandboxed import execute
from musadata.verifier.trusted.candidate_report import read_report
from musadata.verifier.trusted.expectation import Expectation, ExpectedSet
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


def test_a_reference_that_is_far_from_its_own_exact_result_has_no_right_answer():
    def judge_with(truth):
        values = torch.linspace(1, 2, 100)
        wanted, exact = (unpack(pack({"0": tensor}))["0"] for tensor in (values, values.double() * truth))
        tolerance = Tolerance(0.1, 0.1, True)
        plan = InputSet(0, PLAIN, 0)
        one = ExpectedSet(
            plan, (), {"tensor": 0}, (), (tolerance,), expected=(wanted,), oracle=(exact,), conditions=(wanted,)
        )
        calls = [Call(0, "output0")]
        report = read_report(CandidateFacts(), {}, calls)
        judgement = judge(Outcome("ok"), report, calls, Expectation((), (), b"", (one,), {}))
        return [finding.rule for finding in judgement.findings]

    assert judge_with(1.5) == ["task.no_right_answer"]
    assert "task.no_right_answer" not in judge_with(1.0 + 1e-6)


def test_what_was_not_compared_is_not_called_right():
    report = read_report(CandidateFacts(), {}, [])
    judgement = judge(Outcome("ok"), report, [], Expectation((), (), b"", (), {}))
    assert (judgement.facts.runs, judgement.facts.right) == (True, None)
    assert not decide(judgement.facts, load_policy("audit")).accepted


@pytest.mark.parametrize(("done", "condition", "runs"), [(0, "declared", False), (1, "scaled by -3", True)])
def test_a_process_that_ends_is_held_against_the_inputs_of_that_call(done, condition, runs):
    values = unpack(pack({"0": torch.linspace(1, 2, 100)}))["0"]
    rest = {"expected": (values,), "oracle": (values,), "conditions": (values,)}
    sets = [
        ExpectedSet(InputSet(0, variant, 0), (), {"tensor": 0}, (), (Tolerance(0.1, 0.1, True),), **rest)
        for variant in (PLAIN, SCALED)
    ]
    calls = [Call(0, "output0"), Call(1, "output1")]
    facts = CandidateFacts(calls=(CallFacts(),) * done)
    judgement = judge(Outcome("crash"), read_report(facts, {}, calls), calls, Expectation((), (), b"", tuple(sets), {}))
    assert [one.condition for one in judgement.findings if one.rule == "execute.crash"] == [condition]
    assert judgement.facts.runs is runs
