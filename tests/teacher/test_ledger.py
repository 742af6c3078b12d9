"""What requests cost, and where a budget ends."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.corpus.spending import describe_spending, list_spending
from musadata.errors import BudgetSpent
from musadata.records import ReasoningStep, Usage
from musadata.rows import restore
from musadata.sampling.conversing import hold_all
from musadata.sampling.request_cache import RequestCache, _answer_json
from musadata.storage.journal import Journal
from musadata.teacher.ledger import NAME, Budget, cost_of, expenses, record
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.protocol import Answer, Conversation, RequestFailed
from tests.teacher.faulty_server import FaultyServer
from tests.teacher.test_openai import question

PRICES = TeacherConfig(prompt_price=2.0, cached_price=0.5, completion_price=8.0)


def test_cost_counts_cached_tokens_once_and_at_their_price():
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=500_000, reasoning_tokens=400_000, cached_tokens=250_000)
    assert cost_of(usage, PRICES) == pytest.approx(0.75 * 2.0 + 0.25 * 0.5 + 0.5 * 8.0)


def test_expenses_of_other_processes_are_read_once(tmp_path):
    read: dict[str, int] = {}
    with Journal(tmp_path, NAME) as ours, Journal(tmp_path, NAME) as theirs:
        record(ours, "a", "t", question("a"), Usage(1, 2), PRICES)
        assert len(list(expenses([ours], read))) == 1
        record(theirs, "b", "t", question("b"), Usage(3, 4), PRICES)
        record(theirs, "c", "t", question("b"), Usage(), PRICES)  # a server that does not count
        assert [one.usage for one in expenses([ours], read)] == [Usage(3, 4)]


def test_budget_stops_further_requests_and_keeps_what_was_answered(tmp_path):
    with (
        FaultyServer() as server,
        Journal(tmp_path / "_journal" / "stage2", "answers") as answers,
        Journal(tmp_path / "_journal" / "stage2", NAME) as usage,
    ):
        config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=server.url, completion_price=1e6)
        budget = Budget(RequestsConfig(budget_tokens=100), [usage])
        with OpenAITeacher(config) as teacher:
            cache = RequestCache(answers, answers, "", "", None, usage, budget, {teacher.name: config})
            ask = cache.ask_teacher(teacher)
            with pytest.raises(BudgetSpent, match=r"requests\.budget_tokens.*of 100 are used"):
                for index in range(10_000):
                    ask(question(f"q{index}"))
        assert 7 <= len(answers) < 10_000  # 15 tokens each
        funnel = {"stage2": {"reason": {"out": 2}}}
        spending = describe_spending(str(tmp_path), funnel)["stage2"]
        assert spending["requests"] == len(answers)
        assert spending["cost_per_accepted"] == pytest.approx(spending["cost"] / 2)
        assert list_spending({"spending": {"stage2": spending}})[0][2] == len(answers)


def test_requests_that_wait_for_a_slot_are_not_sent_once_the_budget_is_spent(tmp_path):
    def talk(index: int) -> Conversation[str]:
        return (yield question(f"q{index}")).text

    with (
        FaultyServer(latency_s=0.04) as server,
        Journal(tmp_path, "answers") as answers,
        Journal(tmp_path, NAME) as usage,
    ):
        config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=server.url, concurrency=2)
        budget = Budget(RequestsConfig(budget_tokens=30), [usage])  # two answers
        with OpenAITeacher(config) as teacher:
            cache = RequestCache(answers, answers, "", "", None, usage, budget)
            with pytest.raises(BudgetSpent):
                list(hold_all(talk, range(200), cache.ask_later(teacher), 30))
        assert 2 <= server.requests == len(answers) < 40  # so many were submitted; what was sent is kept


def test_requests_of_other_threads_are_not_sent_once_the_budget_is_spent(tmp_path):
    with (
        FaultyServer(latency_s=0.04) as server,
        Journal(tmp_path, "answers") as answers,
        Journal(tmp_path, NAME) as usage,
    ):
        config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=server.url, concurrency=2)
        budget = Budget(RequestsConfig(budget_tokens=30), [usage])  # two answers
        with OpenAITeacher(config) as teacher:
            ask = RequestCache(answers, answers, "", "", None, usage, budget).ask_teacher(teacher)
            with ThreadPoolExecutor(30) as threads:
                asked = [threads.submit(ask, question(f"q{index}")) for index in range(200)]
            assert {type(one.exception()) for one in asked} == {type(None), BudgetSpent}
        assert 2 <= server.requests == len(answers) < 15  # 30 had been submitted; what was sent is kept


def test_failure_is_kept_apart_and_asked_again_once_it_is_cleared(tmp_path):
    with (
        FaultyServer(("truncated",)) as server,
        Journal(tmp_path, "answers") as answers,
        Journal(tmp_path, "failures") as failures,
        Journal(tmp_path, NAME) as usage,
    ):
        config = TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=server.url)
        cache = RequestCache(answers, answers, "", "", failures, usage)
        with OpenAITeacher(config) as teacher:
            for _ in range(2):
                with pytest.raises(RequestFailed, match="truncated at max_tokens"):
                    cache.ask_teacher(teacher)(question("a"))
            assert server.requests == 1 and len(answers) == 0
            assert [one.usage.completion_tokens for one in expenses([usage])] == [5]
            with pytest.raises(RequestFailed):
                cache.recall_answers(teacher)(question("a"))
            failures.clear()
            server.faults = ()
            assert "ModelNew" in cache.ask_teacher(teacher)(question("a")).text
            assert list(Journal(tmp_path, "failures")) == []


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
COUNTS = st.integers(0, 1 << 40)


@given(
    st.builds(
        Answer,
        **dict.fromkeys(("text", "schedule", "fault", "thoughts", "finish_reason"), WORDS),
        **dict.fromkeys(("server", "served_model", "teacher"), WORDS),
        logprobs=st.lists(st.floats(-100, 0)).map(tuple),
        usage=st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS),
        reasoning=st.lists(st.builds(ReasoningStep, WORDS, WORDS), max_size=2).map(tuple),
    )
)
def test_a_kept_answer_has_all_fields_of_the_answer(answer):
    assert restore(Answer, json.loads(_answer_json(answer))) == answer
    assert json.loads(_answer_json(answer)).keys() == vars(answer).keys()
