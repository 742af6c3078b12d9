"""Workers forked from a warm process, without Beam's part of them."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pipelines import worker
from pipelines.worker import local_workers, warm_workers
from tests.conftest import ROOT

HARNESS = """
import os, signal, time
from apache_beam.runners.worker import sdk_worker_main

def work(argv):
    with open(os.environ["TELL"], "w") as file:
        file.write(f"{os.getpid()} {os.getppid()}")
    match os.environ["DO"]:
        case "die": os.kill(os.getpid(), signal.SIGKILL)
        case "fail": raise ValueError("broken")
        case "hang": time.sleep(60)

sdk_worker_main.main = work
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a worker as Beam does; the command that waits for it, and the numbers of the worker and its parent."""
    (tmp_path / "harness.py").write_text(HARNESS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")

    def begin(do: str) -> tuple[subprocess.Popen[bytes], list[int]]:
        tell = tmp_path / "tell"
        environment = {**os.environ, "DO": do, "TELL": str(tell)}
        command = subprocess.Popen([sys.executable, "-m", "pipelines.worker"], env=environment, cwd=ROOT)
        while command.poll() is None and not (tell.exists() and tell.read_text()):
            pass
        numbers = [int(number) for number in tell.read_text().split()]
        tell.unlink()
        return command, numbers

    with warm_workers(["--direct_num_workers", "2"], ["harness"]):
        yield begin
        warm = os.environ[worker.WARM]
    assert worker.WARM not in os.environ
    assert not Path(warm).exists()


def wait_for_end(number: int) -> None:
    """Waits for a process that may have ended already; psutil.TimeoutExpired after ten seconds."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(number).wait(timeout=10)


def test_workers_are_forked_from_one_process_and_their_exit_codes_passed_on(start):
    parents = set()
    for do, code in (("well", 0), ("die", 128 + signal.SIGKILL), ("fail", 1), ("well", 0)):
        command, (forked, parent) = start(do)
        assert command.wait(30) == code
        assert not psutil.pid_exists(forked)
        parents.add(parent)
    assert len(parents) == 1 and os.getpid() not in parents


def test_worker_ends_with_the_command_that_waits_for_it(start):
    command, (forked, _) = start("hang")
    other, (spared, _) = start("hang")
    command.kill()
    command.wait()
    wait_for_end(forked)
    assert psutil.pid_exists(spared)
    other.kill()
    other.wait()


def test_worker_whose_warm_process_dies_is_a_failed_worker(start):
    command, (forked, warm) = start("hang")
    psutil.Process(warm).kill()
    assert command.wait(10) == 1
    wait_for_end(forked)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["--direct_num_workers", "3"], 3),
        (["--runner=DirectRunner", "--direct_num_workers=1"], 1),
        (["--runner", "PortableRunner"], 0),
        ([], len(os.sched_getaffinity(0))),
    ],
)
def test_workers_of_this_machine_are_known_without_beam(arguments, count):
    assert local_workers(arguments) == count
