"""How a server is asked: throughput, many shards, killed processes and faulty servers, on loopback.

    python -m benchmarks.requests --part pool shards kill faults --output benchmarks/results/requests.json

`pool` compares with plain aiohttp in the same run: each round asks all ways one after the other, every second round in
the other order, and the median of the rounds' ratios counts, since the machine's speed changes within minutes.
`shards` makes a corpus of operators and runs stage 2 on it; a perfect stage takes as long as its requests or as the
same stage with a server that answers at once, whichever is more. The server is `tests/teacher/faulty_server.py`, in a
process of its own.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from benchmarks.measuring import ROOT, Row, python, report, run_watched
from musadata.config import Config, RequestsConfig, TeacherConfig, TeacherType
from musadata.errors import MusadataError
from musadata.sampling.conversing import hold, hold_all
from musadata.sampling.request_cache import RequestCache
from musadata.storage.journal import Journal
from musadata.teacher.chat import body_of
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.prompts import render_reasoning
from musadata.teacher.protocol import Conversation, Request, RequestFailed, RequestKind
from pipelines import journals
from pipelines.limits import requests_at_once
from pipelines.steps import concurrently
from tests.teacher.faulty_server import FATAL, FAULTS, VARIANTS
from tests.tracing.examples import example, traces_of

AT_ONCE = 64
KILLS = 10
TASKS = ("relu", "gelu_chain")
MIXED = tuple(fault for fault in FAULTS if fault != "huge_reply")


@contextlib.contextmanager
def server(*arguments: str) -> Iterator[str]:
    """A faulty server in a process of its own; its base URL."""
    command = [python(), "-m", "tests.teacher.faulty_server", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def stats(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/stats") as reply:
        found: dict[str, int] = json.load(reply)
    return found


def make_requests(count: int) -> list[Request]:
    """Reasoning requests as stage 2 sends them, each about another task."""
    tasks = [(example(name), traces_of(name)) for name in TASKS]
    made = []
    for index in range(count):
        task, traces = tasks[index % len(tasks)]
        task = dataclasses.replace(task, task_id=f"task-{index}", reference=f"{task.reference}\n# {index}\n")
        made.append(Request(RequestKind.REASON, task, traces, render_reasoning(task, traces)))
    return made


def teacher_config(url: str, **more: Any) -> TeacherConfig:
    return TeacherConfig(TeacherType.OPENAI, model="tiny", base_url=url, concurrency=AT_ONCE, **more)


def ask_all(
    url: str, requests: list[Request], folder: Path, limits: RequestsConfig, *, in_threads: bool = False, **more: Any
) -> list[str]:
    """All answers through the journals, as stage 2 gets them, or `in_threads` as stage 3 does, which judges between two
    requests; a failure as its reason."""
    config = teacher_config(url, **more)
    with (
        Journal(folder, "answers") as answers,
        Journal(folder, journals.FAILURES) as failures,
        Journal(folder, "usage") as usage,
        OpenAITeacher(config, limits) as teacher,
    ):
        cache = RequestCache(answers, answers, "", "", failures, usage)
        at_once = requests_at_once(Config(sources=(), teacher=config))
        if in_threads:
            ask = cache.ask_teacher(teacher)
            return list(concurrently(lambda one: hold(_outcome(one), ask), requests, at_once))
        return list(hold_all(_outcome, requests, cache.ask_later(teacher), at_once))


def _outcome(request: Request) -> Conversation[str]:
    try:
        return (yield request).text
    except RequestFailed as failure:
        return f"failed: {failure.reason}"


async def ask_plainly(url: str, requests: list[Request]) -> list[str]:
    """The same requests by aiohttp alone, with the same fields, each sent again at once until it is answered."""
    slots, config = asyncio.Semaphore(AT_ONCE), teacher_config(url)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(request: Request) -> str:
            body = body_of(request, config, structured=True)
            async with slots:
                while True:
                    async with session.post(f"{url}/chat/completions", json=body) as got:
                        if got.status == 200:
                            return str((await got.json())["choices"][0]["message"]["content"])

        return list(await asyncio.gather(*map(one, requests)))


def measure_pool(rounds: int, count: int) -> tuple[list[Row], dict[str, Any]]:
    taken: dict[str, list[tuple[float, float, int]]] = {"ours": [], "plain": [], "threads": []}
    load = os.getloadavg()[0]
    for number in range(rounds):
        for name in list(taken)[:: -1 if number % 2 else 1]:
            with (
                server("--latency", "0.2", "--fault", "http_500", "--share", "0.05", "--times", "1") as url,
                tempfile.TemporaryDirectory() as folder,
            ):
                requests = make_requests(count)  # new ones: they keep what they have encoded
                wall, cpu = time.perf_counter(), time.process_time()
                if name == "plain":
                    texts = asyncio.run(ask_plainly(url, requests))
                else:
                    texts = ask_all(url, requests, Path(folder), RequestsConfig(), in_threads=name == "threads")
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                assert len(texts) == count and not any(text.startswith("failed") for text in texts)
                taken[name].append((wall, cpu, stats(url)["most_at_once"]))
    ours, theirs = (median(wall for wall, _, _ in taken[name]) for name in ("ours", "plain"))
    our_cpu, their_cpu = (median(cpu for _, cpu, _ in taken[name]) for name in ("ours", "plain"))

    def ratio(name: str, which: int) -> float:
        return median(one[which] / plain[which] for one, plain in zip(taken[name], taken["plain"], strict=True))

    wall_ratio, cpu_ratio = ratio("ours", 0), ratio("ours", 1)
    most = max(at_once for name in ("ours", "threads") for _, _, at_once in taken[name])
    rows = [
        (f"{count} requests, wall against plain aiohttp", "<= 1.15", f"{wall_ratio:.2f}", wall_ratio <= 1.15),
        ("... CPU", "<= 1.3", f"{cpu_ratio:.2f}", cpu_ratio <= 1.3),
        ("... seconds, ours and plain", "", f"{ours:.2f}, {theirs:.2f}", True),
        ("... CPU seconds, ours and plain", "", f"{our_cpu:.2f}, {their_cpu:.2f}", True),
        (
            "... in threads, as stage 3 asks: wall, CPU",
            "",
            f"{ratio('threads', 0):.2f}, {ratio('threads', 1):.2f}",
            True,
        ),
        ("... requests at once", f"<= {AT_ONCE}", str(most), most <= AT_ONCE),
        (f"... load of the machine before, of {os.cpu_count()} cores", "", f"{load:.1f}", True),
    ]
    return rows, {**taken, "load": load}


SHARDS_CONFIG = """\
seed: 7
shards: 16
sources:
  - {kind: operators, count: COUNT}
teacher: {kind: openai, base_url: "URL", model: tiny, concurrency: 64, timeout_seconds: 120}
verifier: {backend: emulated}
"""


def stage2(
    folder: Path, name: str, base: Path, workers: int, latency_s: float, count: int
) -> tuple[float, dict[str, int]]:
    """Seconds of stage 2 on a copy of a corpus, and what the server saw."""
    corpus, config = folder / name, folder / f"{name}.yaml"
    shutil.copytree(base, corpus)
    with server("--latency", str(latency_s)) as url:
        config.write_text(SHARDS_CONFIG.replace("URL", url).replace("COUNT", str(count)))
        command = [python(), "-m", "pipelines.stage2", "--config", str(config), "--corpus", str(corpus)]
        done = run_watched([*command, "--direct_num_workers", str(workers)])
        assert done.code == 0, done.output[-2000:]
        return done.seconds, stats(url)


def measure_shards(latency_s: float, count: int) -> tuple[list[Row], dict[str, Any]]:
    rows: list[Row] = []
    details: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, base = folder / "base.yaml", folder / "base"
        config.write_text(SHARDS_CONFIG.replace("URL", "http://127.0.0.1:9/v1").replace("COUNT", str(count)))
        done = run_watched([python(), "-m", "pipelines.stage1", "--config", str(config), "--corpus", str(base)])
        assert done.code == 0, done.output[-2000:]
        for workers in (1, 2):
            at_once, _ = stage2(folder, f"quick{workers}", base, workers, 0.0, count)
            seconds, seen = stage2(folder, f"slow{workers}", base, workers, latency_s, count)
            ideal = seen["requests"] * latency_s / AT_ONCE
            ratio = seconds / max(ideal, at_once)
            what = f"stage 2, {seen['requests']} tasks in 16 shards, {latency_s:g} s latency, {workers} workers"
            rows.append((f"{what}, against a perfect one", "<= 1.5", f"{ratio:.2f}", ratio <= 1.5))
            rows.append(
                ("... seconds, with latency, without, ideal", "", f"{seconds:.1f}, {at_once:.1f}, {ideal:.1f}", True)
            )
            most = seen["most_at_once"]
            rows.append(("... requests at once, in all", f"<= {AT_ONCE}", str(most), most <= AT_ONCE))
            details[f"workers_{workers}"] = {"seconds": seconds, "without_latency": at_once, "ideal": ideal, **seen}
    return rows, details


def measure_kill(count: int) -> tuple[list[Row], dict[str, Any]]:
    """A process that asks `count` requests, killed at random moments and started again."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name, server("--latency", "0.1") as url:
        calm, killed = Path(name, "calm"), Path(name, "killed")
        seconds = time.monotonic()
        _run_child(url, calm, count, None)
        seconds = time.monotonic() - seconds
        before = stats(url)["requests"]
        for _ in range(KILLS):
            _run_child(url, killed, count, draw.uniform(0.0, 1.0) * seconds / KILLS)
        _run_child(url, killed, count, None)
        repeated = stats(url)["requests"] - before - count
        same = _digest(calm) == _digest(killed)
    most = KILLS * AT_ONCE
    rows = [
        (f"{count} requests, kill -9 at {KILLS} moments: repeated", f"<= {most}", str(repeated), repeated <= most),
        ("... answers as in an undisturbed run", "yes", "yes" if same else "no", same),
    ]
    return rows, {"repeated": repeated, "seconds_undisturbed": seconds}


def _run_child(url: str, folder: Path, count: int, kill_after: float | None) -> None:
    """Ask what is left; killed so many seconds after its first request."""
    command, asked = [python(), "-m", "benchmarks.requests", "--child", url, str(folder), str(count)], stats(url)
    with subprocess.Popen(command, cwd=ROOT) as process:
        while process.poll() is None and stats(url)["requests"] == asked["requests"]:
            time.sleep(0.01)
        try:
            code = process.wait(kill_after)
            assert code == 0
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)


def _digest(folder: Path) -> str:
    with Journal(folder, "answers") as answers:
        known = {key: answers.get(key) for key in answers}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def measure_faults(count: int) -> tuple[list[Row], dict[str, Any]]:
    """Every kind alone for all requests, then all kinds mixed for a tenth; then the server is mended."""
    requests, limits = make_requests(count), RequestsConfig(retries=1, deadline_seconds=4.0, stop_at_failed=1.0)
    wrong: list[str] = []
    ended: dict[str, str] = {}
    for fault in (*FAULTS, *VARIANTS, *FATAL):
        some = requests[:12]
        with server("--fault", fault) as url, tempfile.TemporaryDirectory() as name:
            start = time.monotonic()
            try:
                texts = ask_all(url, some, Path(name), limits, timeout_seconds=1.5)
                bad = [text for text in texts if text.startswith("failed")]
                ended[fault] = bad[0] if bad else "answered"
                good = bool(bad) is (fault in FAULTS) and len(texts) == len(some)
            except MusadataError as error:
                ended[fault], good = f"stopped: {error.what}", fault in FATAL
            late = time.monotonic() - start > limits.deadline_seconds + 3.0
            if not good or late:
                wrong.append(f"{fault}: {ended[fault]}{' too late' if late else ''}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server("--fault", *MIXED, *VARIANTS, "--share", "0.1") as url:
            texts = ask_all(url, requests, folder, limits, timeout_seconds=1.5)
        failed = sum(text.startswith("failed") for text in texts)
        with Journal(folder, journals.FAILURES) as failures:
            failures.clear()
        with server() as url:
            mended = ask_all(url, requests, folder, limits)
            again = stats(url)["requests"]
    complete = not any(text.startswith("failed") for text in mended) and again == failed
    rows = [
        (f"{len(ended)} kinds of server, each alone: other than expected", "0", str(len(wrong)), not wrong),
        (f"{len(MIXED) + len(VARIANTS)} kinds mixed at 10 %, {count} requests: unanswered", "", str(failed), True),
        (
            "... all answered once the server is mended, nothing else asked",
            "yes",
            "yes" if complete else "no",
            complete,
        ),
    ]
    return rows, {"ended": ended, "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        url, folder, count = asked.child
        ask_all(url, make_requests(int(count)), Path(folder), RequestsConfig())
        return 0
    rows: list[Row] = []
    details: dict[str, Any] = {}
    for part in asked.part:
        more, details[part] = PARTS[part]()
        rows += more
    report("requests", rows, details, asked.output)
    return int(not all(kept for _, _, _, kept in rows))


PARTS = {
    "pool": lambda: measure_pool(rounds=9, count=2000),
    "shards": lambda: measure_shards(latency_s=2.0, count=190),
    "kill": lambda: measure_kill(count=10_000),
    "faults": lambda: measure_faults(count=1000),
}

if __name__ == "__main__":
    sys.exit(main())
