"""The three stages on a real Flink session cluster, undisturbed and with its TaskManager killed half-way.

FLINK_SERVER names a command that starts one on loopback: its `up --slots N --python PYTHON` prints Beam's flags,
`taskmanager-pid` the process to kill; `taskmanager` starts another and `down` ends it all.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, run_pipeline
from tests.end_to_end.test_pipeline import shards

pytestmark = [pytest.mark.slow, pytest.mark.flink, pytest.mark.timeout(1500)]


def server() -> str:
    named = os.environ.get("FLINK_SERVER") or str(ROOT.parent / "shared" / "servers" / "flink")
    if not Path(named).exists():
        pytest.skip("no Flink to test with: FLINK_SERVER does not name one")
    return named


@pytest.fixture(scope="module")
def flags() -> Iterator[list[str]]:
    command = [server(), "up", "--slots", "2", "--python", sys.executable]
    up = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if up.returncode:
        pytest.skip(f"Flink did not start here: {up.stderr.strip()[-200:]}")
    yield [*shlex.split(up.stdout.splitlines()[-1].split("\x1b[0m")[-1]), "--parallelism=2"]
    subprocess.run([server(), "down"], check=False)


def test_flink_makes_the_same_bytes_as_the_local_runner(flags, quickstart_corpus, tmp_path):
    run_pipeline(tmp_path / "corpus", *flags)
    assert shards(tmp_path / "corpus") == shards(quickstart_corpus)


def test_killed_task_manager_changes_no_byte(flags, quickstart_corpus, tmp_path):
    def kill() -> None:
        while not list((tmp_path / "corpus" / "_commits").glob("*/*.json")):  # some is done, and most is not
            time.sleep(0.2)
        pid = int(subprocess.check_output([server(), "taskmanager-pid"], text=True))
        os.kill(pid, signal.SIGKILL)
        time.sleep(3)
        subprocess.run([server(), "taskmanager"], check=True)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    run_pipeline(tmp_path / "corpus", *flags)
    thread.join()
    assert shards(tmp_path / "corpus") == shards(quickstart_corpus)
