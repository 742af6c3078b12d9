"""Compilers that the machine ends are run again, and never speak against a candidate."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import psutil
import pytest

from musadata.errors import Outage
from musadata.verifier.compilation import contained_run
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained

LIMITS = CompileLimits(seconds=20)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(contained_run, "PAUSE_SECONDS", (0.0, 0.1, 0.1))


def kill(times: int) -> None:
    """SIGKILL what this process has started, as the kernel does where memory is short."""
    end = time.monotonic() + 60
    while times and time.monotonic() < end:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.name() == "sleep":
                    process.kill()
                    times -= 1
                    process.wait(timeout=20)
        time.sleep(0.02)


@pytest.mark.parametrize("times", [1, 2])
def test_killed_compiler_is_run_again(tmp_path, times):
    killer = threading.Thread(target=kill, args=(times,))
    killer.start()
    script = f"echo >> tries; test $(wc -l < tries) -gt {times} || exec sleep 19"
    assert run_contained(["sh", "-c", script], tmp_path, LIMITS).code == 0
    killer.join()


def test_compiler_that_is_killed_each_time_is_an_outage(tmp_path):
    killer = threading.Thread(target=kill, args=(3,))
    killer.start()
    with pytest.raises(Outage, match="killed from outside"):
        run_contained(["sleep", "19"], tmp_path, LIMITS)
    killer.join()


def test_part_of_the_compiler_that_is_killed_is_an_outage_too(tmp_path):
    script = tmp_path / "driver"
    script.write_text("#!/bin/sh\necho 'g++: fatal error: Killed signal terminated program cc1plus' >&2\nexit 1\n")
    script.chmod(0o755)
    with pytest.raises(Outage):
        run_contained([str(script)], tmp_path, LIMITS)


def test_sources_that_say_so_themselves_are_no_outage(tmp_path):
    (tmp_path / "a.cpp").write_text(
        "#error fatal error: Killed signal terminated program cc1plus\n"
        'static_assert(false, "\\ng++: fatal error: Killed signal terminated program cc1plus\\n");\n'
    )
    done = run_contained(["g++", "-c", "a.cpp"], tmp_path, LIMITS)
    assert done.code == 1


def test_limit_of_time_is_no_outage(tmp_path):
    done = run_contained([sys.executable, "-c", "while True: pass"], tmp_path, CompileLimits(seconds=1))
    assert done.code != 0


def test_compiler_that_waits_for_a_core_may_take_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(contained_run, "_LOOK_AFTER", 0.05)  # 0.3 s by the clock
    monkeypatch.setattr(contained_run, "_LEAST_SHARE", 0.0)
    work = "import time\nwhile time.process_time() < 0.5: pass"
    assert run_contained([sys.executable, "-c", work], tmp_path, CompileLimits(seconds=2)).code == 0


def test_compiler_that_does_nothing_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(contained_run, "_LOOK_AFTER", 0.1)
    done = run_contained(["sleep", "60"], tmp_path, CompileLimits(seconds=2))
    assert done.limit == "time"


def test_full_disk_is_an_outage_only_if_the_disk_is_full(tmp_path, monkeypatch):
    command = ["sh", "-c", "echo 'cannot write a.o: No space left on device' >&2; exit 1"]
    assert run_contained(command, tmp_path, LIMITS).code == 1  # three times the same words, and there is room
    free = iter([1 << 40, 0])  # before and after
    monkeypatch.setattr(contained_run.shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    with pytest.raises(Outage, match="no space left"):
        run_contained(command, tmp_path, LIMITS)


def test_compiler_is_not_started_on_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(contained_run, "_LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(Outage, match="no space left"):
        run_contained(["touch", "started"], tmp_path, LIMITS)
    assert not (tmp_path / "started").exists()


def test_disk_that_has_room_again_is_no_error_of_the_sources(tmp_path):
    script = (
        f"test -e {tmp_path}/room && exit 0; touch {tmp_path}/room; echo 'a.o: No space left on device' >&2; exit 1"
    )
    assert run_contained(["sh", "-c", script], tmp_path, LIMITS).code == 0


def test_errors_are_those_of_the_compiler_alone(tmp_path):
    done = run_contained(["sh", "-c", "echo mine >&2; kill -SEGV $$"], tmp_path, LIMITS)
    assert (done.code, done.stderr) == (-signal.SIGSEGV, "mine\n")


def test_compiler_and_its_parts_die_with_the_process_that_started_them(tmp_path):
    script = f"sleep 61.7 & echo $! > {tmp_path}/part; sleep 61.7"
    start = (
        "import sys; from pathlib import Path\n"
        "from musadata.verifier.compilation.contained_run import CompileLimits, run_contained\n"
        "run_contained(['sh', '-c', sys.argv[1]], Path(sys.argv[2]), CompileLimits())"
    )
    with subprocess.Popen([sys.executable, "-c", start, script, str(tmp_path)], env=os.environ) as starter:
        wait_for(lambda: (tmp_path / "part").exists() and (tmp_path / "part").read_text().strip() != "")
        wait_for(
            lambda: {"sleep", "sh"} == {one.name() for one in psutil.Process(starter.pid).children(recursive=True)}
        )
        family = psutil.Process(starter.pid).children(recursive=True)
        starter.kill()
    wait_for(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family))


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)
