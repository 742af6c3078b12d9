"""What policies make of the same facts."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.errors import MusadataError
from musadata.records import ConditionFact, ErrorClass, Facts, VerifyStage
from musadata.verifier.policies import NAMES, apply_policy, decide, load_policy
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.catalogue import RULES
from musadata.verifier.trusted.judge import Judgement, in_order
from tests.sampling.test_rollout import VERDICT

RIGHT = Facts(True, True, True, (ConditionFact("declared", 2, 2), ConditionFact("offset", 1, 1)), (), VerifyStage.TIME)


def found(*entries):
    """Facts with a finding for each (rule, condition)."""
    findings = [dataclasses.replace(rule.worded("said"), condition=condition) for rule, condition in entries]
    return dataclasses.replace(RIGHT, findings=in_order(findings))


def accepting(facts):
    return {name for name in NAMES if decide(facts, load_policy(name)).accepted}


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ([], {"strict", "paper", "kernelbench", "audit"}),
        ([(rules.CORRECTNESS_STRIDES, "strided")], {"paper", "kernelbench", "audit"}),
        ([(rules.LEGALITY_DEVICE_TEMPLATE, "")], {"paper", "kernelbench", "audit"}),
        ([(rules.CORRECTNESS_SWALLOWED, "partly infinite")], {"paper", "kernelbench", "audit"}),
        ([(rules.CORRECTNESS_VALUES, "shapes")], {"kernelbench", "audit"}),
        ([(rules.RUNTIME_OPERATOR, "")], {"kernelbench", "audit"}),
        ([(rules.DEVICE_RACE_IN_BLOCK, "declared")], {"kernelbench", "audit"}),
        ([(rules.CORRECTNESS_VALUES, "declared")], {"kernelbench"}),
        ([(rules.CORRECTNESS_HARNESS, "declared")], {"strict", "paper", "audit"}),
        ([(rules.INTERFACE_INITIAL_STATE, "")], {"audit"}),
        ([(rules.EXECUTE_TIMEOUT, "")], set()),
        ([(rules.LEGALITY_PATCH, "")], set()),
        ([(rules.EXECUTE_UNSUPPORTED, "")], set()),
    ],
)
def test_named_policies_refuse_what_they_say(entries, names):
    assert accepting(found(*entries)) == names


def test_what_explains_wrong_results_is_named_before_them():
    facts = found((rules.CORRECTNESS_VALUES, "declared"), (rules.RUNTIME_OPERATOR, ""), (rules.RUNTIME_DECOY, ""))
    decision = decide(facts, load_policy("strict"))
    assert decision.error_class is ErrorClass.NOT_ALLOWED and decision.findings[0].rule == "runtime.operator"
    wrong = decide(found((rules.CORRECTNESS_VALUES, "declared"), (rules.RUNTIME_DECOY, "")), load_policy("strict"))
    assert wrong.error_class is ErrorClass.CORRECTNESS


def test_share_counts_the_conditions_that_the_policy_asks_for():
    conditions = (ConditionFact("declared", 1, 2), ConditionFact("offset", 0, 2))
    facts = dataclasses.replace(found((rules.CORRECTNESS_VALUES, "declared")), conditions=conditions)
    assert decide(facts, load_policy("strict")).test_share == 0.25
    assert decide(facts, load_policy("audit")).test_share == 0.5


def test_message_says_on_which_inputs_it_fails():
    facts = found((rules.CORRECTNESS_VALUES, "offset"))
    (finding,) = decide(facts, load_policy("strict")).findings
    assert finding.message.endswith("(Only where inputs are offset.)")
    both = decide(found(*((rules.CORRECTNESS_VALUES, one) for one in ("declared", "offset"))), load_policy("strict"))
    assert [finding.message for finding in both.findings] == ["said"]


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (4, ["offset"], "said (Right only where inputs are offset.)"),
        (4, ["offset", "large", "tiny", "ties"], "said (On 4 of 8 kinds of inputs.)"),
        (
            3,
            ["large", "tiny", "ties", "offset"],
            "said (Only where inputs are 0; where inputs are 1; where inputs are 2.)",
        ),
    ],
)
def test_message_names_few_conditions(wrong, right, said):
    failing = [str(number) for number in range(wrong)]
    conditions = tuple(ConditionFact(one, int(one in right), 1) for one in (*failing, *right))
    facts = dataclasses.replace(found(*((rules.CORRECTNESS_VALUES, one) for one in failing)), conditions=conditions)
    assert [finding.message for finding in decide(facts, load_policy("strict")).findings] == [said]


@given(st.lists(st.tuples(st.sampled_from(list(RULES.values())), st.sampled_from(["", "declared", "offset"]))))
def test_every_policy_decides_alike_whatever_was_decided_before(entries):
    verdict = dataclasses.replace(VERDICT, facts=found(*entries))
    for name in NAMES:
        first = apply_policy(verdict, load_policy(name))
        assert first.accepted == (first.error_class is None) == (not first.findings)
        for other in NAMES:
            assert apply_policy(apply_policy(verdict, load_policy(other)), load_policy(name)) == first


def test_facts_say_right_where_only_a_further_condition_fails():
    strided = dataclasses.replace(rules.CORRECTNESS_STRIDES.worded("said"), condition="strided")
    facts = Judgement(VerifyStage.PROFILE, (strided,), RIGHT.conditions).facts
    assert (facts.compiles, facts.runs, facts.right) == (True, True, True)
    refused = Judgement(VerifyStage.LEGALITY, (rules.LEGALITY_PATCH.finding("torch.equal ="),)).facts
    assert (refused.compiles, refused.runs, refused.right) == (None, None, None)
    broken = Judgement(VerifyStage.COMPILE, (rules.COMPILE_ERROR.worded("error: x"),)).facts
    assert (broken.compiles, broken.runs, broken.right) == (False, None, None)


def test_policy_of_ones_own_is_read_from_a_file(tmp_path):
    path = tmp_path / "lenient.yaml"
    path.write_text('refuses: ["*"]\nnotes: [runtime.operator, "correctness.*@offset"]\n')
    policy = load_policy(str(path))
    assert policy.name == "lenient"
    assert decide(found((rules.RUNTIME_OPERATOR, ""), (rules.CORRECTNESS_VALUES, "offset")), policy).accepted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("refuses: [corectness.values]\n", "matches no rule"),
        ("refuses: correctness.values\n", "must be lists"),
        ("notes: []\n", "is no policy"),
        ("refuses: []\nallows: []\n", "is no policy"),
        ("refuses: [\n", "cannot be read"),
    ],
)
def test_bad_policy_file_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / f"bad{abs(hash(text))}.yaml"
    path.write_text(text)
    with pytest.raises(MusadataError, match=message):
        load_policy(str(path))
    with pytest.raises(MusadataError, match="there is no policy"):
        load_policy("lax")
