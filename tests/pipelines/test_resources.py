"""What a worker opens, and for how long."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from musadata.config import Config
from musadata.sandbox import Outcome
from musadata.storage.journal import Journal
from musadata.teacher.protocol import Request, RequestKind
from pipelines import journals, resources
from tests.tracing.examples import example, traces_of


@pytest.fixture(autouse=True)
def fresh():
    yield
    journals.journal.cache_clear()
    resources.teacher.cache_clear()


def test_a_step_sees_what_another_worker_has_put_into_a_journal_since(tmp_path):
    def open_cache():
        return journals.request_cache(Config(sources=()), str(tmp_path), "stage3")

    with open_cache() as cache:
        cache.answers.put("question", "answer")
        assert cache.verdicts.get("program") is None
    with Journal(tmp_path / "_journal" / "stage3", "verdicts") as other:
        other.put("program", "verdict")
    with open_cache() as cache:
        assert cache.answers.get("question") == "answer"
        assert cache.verdicts.get("program") == "verdict"


def test_a_journal_is_opened_once_for_all_shards(tmp_path):
    assert journals.journal(str(tmp_path), "stage3", "answers") is journals.journal(str(tmp_path), "stage3", "answers")


def test_a_journal_is_opened_once_though_threads_ask_for_it_at_once(tmp_path, monkeypatch):
    barrier, opened = Barrier(8), []

    class SlowJournal(Journal):
        def __init__(self, folder, name):
            opened.append(name)
            time.sleep(0.05)
            super().__init__(folder, name)

    def ask(_):
        barrier.wait()
        return journals.journal(str(tmp_path), "stage1", "executions")

    monkeypatch.setattr(journals, "Journal", SlowJournal)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(opened) == 1
    assert all(journal is found[0] for journal in found)


def test_a_reference_is_captured_once_for_all_stages(tmp_path, monkeypatch):
    class Unlowered:
        calls = 0

        def call(self, function, *arguments, limits=None, files=None):
            self.calls += 1
            return Outcome("ok", {"unsupported": "no lowering"})

    sandbox = Unlowered()
    monkeypatch.setattr(resources, "references", lambda kind: sandbox)
    request = Request(RequestKind.REASON, example("relu"), traces_of("relu"), ())
    for stage in ("stage2", "stage3"):
        journals.journal.cache_clear()
        resources.teacher.cache_clear()  # as in another process
        with journals.request_cache(Config(sources=()), str(tmp_path), stage):
            resources.teacher(Config(sources=()), str(tmp_path)).answer(request)
    assert sandbox.calls == 1


@pytest.mark.parametrize("module", ["pipelines.all", "pipelines.stage1", "pipelines.stage2", "pipelines.stage3"])
def test_stages_do_not_load_torch(module):
    """Sandboxes hold it; each process of a pipeline that loads it as well takes 300 MB more."""
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
