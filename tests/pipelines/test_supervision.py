"""A run whose processes die goes on, a bounded number of times, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from musadata.errors import Cancelled, Outage
from musadata.storage.shards import Shard
from pipelines import steps, supervision
from pipelines.steps import Undone, UnlessUndone
from tests.conftest import ROOT

RUN = """
import os, subprocess, sys, threading
from pipelines import supervision
supervision.own_scratch_folder()
supervision.supervise()
restarts = int(os.environ.get("MUSADATA_RESTARTS", "0"))
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
if restarts < int(sys.argv[1]):
    print("run", restarts, flush=True)
    def run_worker():
        worker.kill()
        if worker.wait():
            raise RuntimeError("Worker subprocess exited")
    threading.Thread(target=run_worker, name="run_worker").start()
    threading.Event().wait(60)
print("done", flush=True)
supervision.leave(0)
"""


def run_supervised(deaths: int, scratch: Path) -> "subprocess.CompletedProcess[str]":
    script = scratch.with_suffix(".py")
    script.write_text(RUN)
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, str(script), str(deaths)], env=environment, capture_output=True, text=True, timeout=120
    )


def test_run_starts_itself_anew_when_a_worker_dies(tmp_path):
    done = run_supervised(2, tmp_path / "scratch")
    assert done.returncode == 0
    assert done.stdout.split() == ["run", "0", "run", "1", "done"]
    assert done.stderr.count("the run goes on with new ones") == 2
    assert "Traceback" not in done.stderr


def test_workers_that_always_die_end_the_run_with_one_line_and_exit_code_1(tmp_path):
    done = run_supervised(100, tmp_path / "scratch")
    assert done.returncode == 1
    assert "worker processes died 6 times" in done.stderr.splitlines()[-1]


def test_scratch_files_of_this_run_and_of_dead_runs_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    scratch = tmp_path / "scratch"
    script = tmp_path / "scratch.py"
    script.write_text(RUN)
    (scratch / f"musadata-run-{dead.pid}" / "old").mkdir(parents=True)
    alive = scratch / f"musadata-run-{os.getpid()}"
    alive.mkdir()
    held = supervision._hold(alive)
    assert held is not None
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(script), "1"], env=environment, check=True, timeout=120)
    assert [path.name for path in scratch.iterdir()] == [f"musadata-run-{os.getpid()}"]


class Failing:
    """Work that fails as often as it is told."""

    def __init__(self, *errors: Exception):
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, shard: Shard) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return f"done {shard.index}"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(steps, "RETRY_SECONDS", 0.0)


def test_shard_is_worked_on_once_more_after_an_outage():
    assert UnlessUndone(Failing(Outage("full")))(Shard(1, 4)) == "done 1"


def test_shard_that_outages_keep_from_its_end_is_left_undone_with_its_cause():
    assert UnlessUndone(Failing(Outage("full"), Outage("full")))(Shard(1, 4)) == Undone(Shard(1, 4), "full")


def test_what_was_stopped_is_not_tried_again():
    work = Failing(Cancelled("closed"))
    assert isinstance(UnlessUndone(work)(Shard(0, 1)), Undone)
    assert work.calls == 1


def test_undone_shard_passes_through_later_steps():
    work, undone = Failing(), Undone(Shard(0, 1), "full")
    assert UnlessUndone(work)(undone) == undone
    assert work.calls == 0


def test_any_other_error_is_a_bug_and_ends_the_run():
    with pytest.raises(ZeroDivisionError):
        UnlessUndone(Failing(ZeroDivisionError()))(Shard(0, 1))
