"""Compilers stand still while a measurement wants them to, go on after it however it ends, and lose nothing by it."""

import os
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from musadata.verifier.compilation import compiler_pause, contained_run
from musadata.verifier.compilation.compiler_pause import compilers_paused
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.protocol.messages import MeasureTurn, TurnTimes
from musadata.verifier.trusted.timing import Reply, TimingPolicy, time_candidate
from tests.verifier.trusted.test_timing import NothingToCheck

COMPILER = (
    "import os, sys, time\n"
    "while time.process_time() < float(sys.argv[1]) and not os.path.exists('../stop'): sum(range(1000))"
)
LIMITS = CompileLimits(seconds=20)
MEASURE = (
    "import time\n"
    "from musadata.verifier.compilation.compiler_pause import compilers_paused\n"
    "with compilers_paused('GPU-2'):\n    print('paused', flush=True)\n    time.sleep(60)"
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def compile_for(tmp_path):
    """Starts a compiler that takes so many CPU seconds, in a folder of its own."""
    with ThreadPoolExecutor(8) as pool:
        folders = (tmp_path / str(number) for number in range(100))

        def start(seconds, limits=LIMITS):
            (folder := next(folders)).mkdir()
            return pool.submit(run_contained, [sys.executable, "-c", COMPILER, str(seconds)], folder, limits)

        yield start


def compilers(starter=None):
    found = []
    for process in psutil.Process(starter).children(recursive=True):
        try:
            if COMPILER in process.cmdline() and process.name() != "sh":
                found.append(process)
        except psutil.Error:
            continue
    return found


def cpu_seconds():
    return sum(sum(one.cpu_times()[:2]) for one in compilers())


def wait_for(what):
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_compilers_stand_still_and_go_on(compile_for):
    running = [compile_for(1.0) for _ in range(3)]
    wait_for(lambda: len(compilers()) == 3)
    with compilers_paused("GPU-1"):
        before = cpu_seconds()
        late = compile_for(0.1)
        time.sleep(1.0)
        assert cpu_seconds() - before < 0.3  # the late one's first moment
        assert not late.done()
    assert [one.result(60).code for one in (*running, late)] == [0] * 4


def test_they_go_on_if_the_measurement_fails_or_is_killed(compile_for):
    running = compile_for(1.0)
    wait_for(compilers)
    with pytest.raises(ValueError, match="fails"), compilers_paused("GPU-1"):
        raise ValueError("fails")
    with subprocess.Popen([sys.executable, "-c", MEASURE], env=os.environ, stdout=subprocess.PIPE) as measuring:
        assert measuring.stdout.readline() == b"paused\n"
        time.sleep(2.0)
        assert not running.done()
        measuring.kill()
    assert running.result(30).code == 0


def test_a_pause_counts_for_no_limit(compile_for, monkeypatch):
    monkeypatch.setattr(contained_run, "_LOOK_AFTER", 0.3)  # 0.9 s by the clock, and hardly any CPU time ends it
    running = compile_for(0.6, CompileLimits(seconds=1))
    wait_for(compilers)
    with compilers_paused("GPU-1"):
        time.sleep(2.5)
    assert (running.result(30).code, running.result().limit) == (0, "")


def test_a_measurement_that_never_ends_holds_no_compiler_for_ever(compile_for, monkeypatch):
    monkeypatch.setattr(compiler_pause, "_MOST_SECONDS", 0.5)
    with compilers_paused("GPU-1"), compilers_paused("GPU-2"):
        assert compile_for(0.1).result(30).code == 0


def test_paused_compilers_die_with_the_process_that_started_them(tmp_path):
    start = (
        "import sys; from pathlib import Path\n"
        "from musadata.verifier.compilation.contained_run import CompileLimits, run_contained\n"
        "run_contained([sys.executable, '-c', sys.argv[1], '20'], Path(sys.argv[2]), CompileLimits())"
    )
    with subprocess.Popen([sys.executable, "-c", start, COMPILER, str(tmp_path)], env=os.environ) as starter:
        wait_for(lambda: [one for one in compilers(starter.pid) if one.pid != starter.pid])
        family = psutil.Process(starter.pid).children(recursive=True)
        with compilers_paused("GPU-1"):
            wait_for(lambda: any(one.status() == psutil.STATUS_STOPPED for one in family))
            starter.kill()
            wait_for(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family))


class HostBound:
    """A program whose time is the host's: many short waits for a core."""

    on_device, bytes_per_ms = False, 0.0

    def __init__(self):
        self.seen = []

    def measure(self, count):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            for _ in range(20):
                time.sleep(0.0001)
                sum(range(3000))
            times.append(1e3 * (time.perf_counter() - start))
        self.seen += times
        return times


def test_a_program_of_the_host_is_measured_again_while_compilers_stand_still(compile_for, tmp_path):
    policy = TimingPolicy(least=10, warm_up_ms=0.0, seconds=0.5, certain=1e-6, clock_ms=0.0)
    program, busy, quiet = HostBound(), [], threading.Event()
    load = [compile_for(30.0, CompileLimits(seconds=60)) for _ in range(4)]
    wait_for(lambda: len(compilers()) == 4)

    def pause():
        quiet.set()
        return compilers_paused("GPU-1")

    schedule = time_candidate(policy, None, None, NothingToCheck(), True, pause)
    stood, command = [], next(schedule)
    while isinstance(command, MeasureTurn):
        before = cpu_seconds()
        times = program.measure(command.count)
        (stood if quiet.is_set() else busy).append((cpu_seconds() - before) / max(sum(times), 1e-3))
        try:
            command = schedule.send(Reply(TurnTimes(tuple(times)), sum(times)))
        except StopIteration:
            break
    schedule.close()
    assert busy
    assert stood
    assert statistics.fmean(stood) < 0.1 * statistics.fmean(busy)
    wait_for(lambda: not any(one.status() == psutil.STATUS_STOPPED for one in compilers()))
    (tmp_path / "stop").touch()
    assert [one.result(30).code for one in load] == [0] * 4


def test_a_timed_process_that_ends_ends_the_pause():
    policy = TimingPolicy(least=10, warm_up_ms=0.0, seconds=0.1, certain=1e-6, clock_ms=0.0)
    quiet, ended = threading.Event(), threading.Event()

    class Pause:
        def __enter__(self):
            quiet.set()

        def __exit__(self, *_):
            ended.set()

    schedule = time_candidate(policy, None, None, NothingToCheck(), True, Pause)
    command, times = next(schedule), (30.0, 31.0)
    while not quiet.is_set():
        command = schedule.send(Reply(TurnTimes(tuple(times[i % 2] for i in range(command.count))), 30.0))
    assert not ended.is_set()
    schedule.close()
    assert ended.is_set()
