"""Messages cross between processes unchanged, and whatever else is sent there is no message, whoever sends it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.verifier.backends.device_records import Fault, Launch
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol.message_encoding import decode, encode, read_claims
from musadata.verifier.protocol.messages import (
    QUESTIONS,
    REPLIES,
    Call,
    CallFacts,
    CallRecords,
    CandidateFacts,
    CheckedOutput,
    CompileRequest,
    ErrorFacts,
    Failure,
    JudgeRequest,
    Literal,
    Plan,
    PlannedSet,
    PrepareReference,
    ReferenceFacts,
    ReferenceRequest,
    ReferenceSet,
    RequestPlan,
    TimedSets,
    TurnTimes,
)
from musadata.verifier.protocol.tolerance import Tolerance
from musadata.verifier.protocol.variants import InputSet

FACTS = CandidateFacts(
    calls=(
        CallFacts(
            records=CallRecords(
                operators=("aten.add.Tensor",),
                to_host=3,
                kernels=("k",),
                refused=(Launch("k", (1, 2, 3), (4, 5, 6), 7, 9, 1),),
                faults=(Fault("fault", "k", "thread (0,0,0)", "text", "source", 3),),
            ),
            structure={"list": [{"tensor": 0}, {"value": None}]},
            digest="d",
        ),
        CallFacts(error=ErrorFacts("ValueError", "no", "File …")),
    ),
    threads=1,
)
MESSAGES = [
    RequestPlan(),
    CompileRequest(CandidateSources("one", ("a",), ("b",), (("f", "doc"),), ("-DX",), False, (("h", "text"),), True)),
    JudgeRequest(FACTS, {"output0": b"\0\xff", "faults": b""}),
    CheckedOutput({"tensor": 0}, b"bytes"),
    TurnTimes((0.5, 1.0), 0.25),
    Failure(ErrorFacts("RuntimeError", "no")),
    Plan(
        [{"tuple": [1, 2]}],
        ("weight",),
        2**59,
        (PlannedSet((None, Literal(3)), 1, (0,)),),
        (Call(0, "output0", check="brief"), Call(0, "null_replay", null_kernels=True)),
        TimedSets((0, 2), 1 << 28),
        b"state",
        {"0": b"x"},
        {"0": b"another state"},
        (InputSpec("x", "normal", "float32", (4096, 5)),),
    ),
    PrepareReference("class Model: ...", 1, [], (None,), b"", {"0": b"a", "1": b"b"}, True, 5),
    ReferenceRequest("text", ((InputSpec("x", "normal", "float32", (4, 5)),),), (InputSet(0, "plain", 7),), 3),
    ReferenceFacts(
        None,
        ("weight",),
        (
            ReferenceSet(
                InputSet(0, "plain", 7),
                (None, Literal([1.5])),
                {"tensor": 0},
                (),
                (Tolerance(0.1, 0.2, True, False, ((0, (0.1, 0.2)),)),),
            ),
        ),
        {"weight": "digest"},
    ),
]


def sent(message):
    """What arrives of a message's plain values, which travel as JSON, and of its bytes."""
    encoded = encode(message)
    plain = {key: value for key, value in encoded.items() if not isinstance(value, bytes)}
    return {**encoded, **json.loads(json.dumps(plain))}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_arrives_as_it_was_sent(message):
    assert decode(sent(message), type(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_of_another_kind_or_with_fields_that_are_unknown_or_missing_is_refused(message):
    encoded = sent(message)
    assert decode(encoded, Call) is None
    assert decode({**encoded, "message": "Unknown"}, type(message)) is None
    assert decode({**encoded, "more": 1}, type(message)) is None
    optional = ("led_ms", "compiled", "flush_bytes", "as_constructed", "lean")
    needed = [key for key in encoded if "/" not in key and key not in optional]
    for key in needed:
        assert decode({name: value for name, value in encoded.items() if name != key}, type(message)) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
FIELDS = sorted({name for kind in (*QUESTIONS, *REPLIES, CandidateFacts, CallFacts, CallRecords, Fault)
                 for name in kind.__dataclass_fields__})  # fmt: skip
FORGED = st.recursive(
    VALUES,
    lambda inner: st.dictionaries(st.sampled_from([*FIELDS, "outputs/x", "name", "cuda"]), inner) | st.lists(inner),
    max_leaves=20,
)
TAGS = st.sampled_from([kind.__name__ for kind in (*QUESTIONS, *REPLIES, Plan)])


@settings(deadline=None, max_examples=60)
@given(FORGED, TAGS)
def test_whatever_is_sent_is_a_message_or_none(value, tag):
    tagged = {**value, "message": tag} if isinstance(value, dict) else value
    for said in (value, tagged):
        found = decode(said, *QUESTIONS, *REPLIES)
        assert found is None or decode(encode(found), type(found)) is not None or "nan" in repr(found)


@settings(deadline=None, max_examples=60)
@given(FORGED)
def test_whatever_is_claimed_has_its_type_or_is_left_out(value):
    facts = read_claims(CandidateFacts, value)
    assert all(isinstance(call, CallFacts) for call in facts.calls)
    assert all(isinstance(name, str) and name.encode() == name.encode("utf-8") for name in facts.tampered)
    assert type(facts.threads) is int


def test_claims_that_are_malformed_are_left_out_and_the_others_kept():
    facts = read_claims(CandidateFacts, {"tampered": ["a", 5, None, "b\ud800"], "threads": True, "calls": [{}, 3]})
    assert facts == CandidateFacts(calls=(CallFacts(),), tampered=("a", "b?"))


def test_sources_that_no_file_can_hold_are_no_message():
    assert decode(sent(CompileRequest(CandidateSources("one", cuda=("\ud800",)))), CompileRequest) is None
