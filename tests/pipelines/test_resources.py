"""What a worker opens, and for how long."""

import pytest

from musadata.config import Config
from musadata.storage.journal import Journal
from pipelines import resources


@pytest.fixture(autouse=True)
def fresh():
    yield
    resources.journal.cache_clear()


def test_a_step_sees_what_another_worker_has_put_into_a_journal_since(tmp_path):
    def open_cache():
        return resources.request_cache(Config(sources=()), str(tmp_path), "stage3")

    with open_cache() as cache:
        cache.answers.put("question", "answer")
        assert cache.verdicts.get("program") is None
    with Journal(tmp_path / "_journal" / "stage3", "verdicts") as other:
        other.put("program", "verdict")
    with open_cache() as cache:
        assert cache.answers.get("question") == "answer"
        assert cache.verdicts.get("program") == "verdict"


def test_a_journal_is_opened_once_for_all_shards(tmp_path):
    assert resources.journal(str(tmp_path), "stage3", "answers") is resources.journal(
        str(tmp_path), "stage3", "answers"
    )
