"""The verdict service on Ray: the cost of a request, the rate on two nodes, and what is lost when things die.

    python -m benchmarks.serving --output benchmarks/results/serving.json

overhead: 64 requests at once, again and again, to a worker whose verdicts take half a second of waiting and no CPU, so
that the rest is the service's; the clients are a process of their own. Beside it, one request at a time that is decided
by reading the candidate, against the same call of a `Verifier`.

rate: the same candidates, honest kernels of `tests/adversarial` that no cache has seen, by `verify-batch` and by a
service on a Ray cluster of two nodes, each with half of the cores: verdicts a minute, both warm.

moments: at random moments, while candidates are judged on two nodes, a worker or a sandbox is killed, a node is killed,
or the client goes. A moment is good if every question that is still asked gets the verdict that it has undisturbed, and
in the end the service has nothing left to do.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import Row, end, report
from musadata.commands.serve import listen
from musadata.config import BackendType, VerifierConfig
from musadata.records import Verdict
from musadata.rows import plain, restore
from musadata.storage.journal import Journal
from musadata.verifier import Verifier
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.submission import Submission, SubmissionJudge
from tests.adversarial.programs import read_exercise, read_programs

CONFIG = VerifierConfig(backend=BackendType.EMULATED)
AT_ONCE, SLEEP_SECONDS, ROUNDS = 64, 0.5, 20
GOAL_MEDIAN_MS, GOAL_P99_MS, GOAL_RATE = 20.0, 100.0, 0.95
KINDS = ("worker", "sandbox", "node", "client")
_CLIENT = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from musadata.serving.client import RemoteVerifier
address, questions, at_once, spread = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3]), float(sys.argv[4])
remote = RemoteVerifier(address)
def ask(number, question):
    if number < at_once:  # else all would come at the same moment, again and again
        time.sleep(spread * number / at_once)
    start = time.monotonic()
    verdict = remote.ask(question)
    return start, time.monotonic(), verdict.accepted
with ThreadPoolExecutor(at_once) as pool:
    print(json.dumps(list(pool.map(ask, range(len(questions)), questions))))
"""


@dataclass(frozen=True)
class Answer:
    """When it was asked for and was there, by the machine's clock, and the verdict."""

    asked: float
    there: float
    accepted: bool

    @property
    def seconds(self) -> float:
        return self.there - self.asked


@dataclass(frozen=True)
class Case:
    """One question and how it is asked."""

    reference: str
    source: str
    inputs: Sequence[dict[str, Any]]

    def question(self) -> dict[str, Any]:
        return {"reference": self.reference, "candidate": self.source, "inputs": self.inputs}

    def anew(self) -> "Case":
        """With a comment in its kernels that no cache has seen."""
        return replace(self, source=self.source.replace("__global__", f"/* {time.time_ns()} */ __global__", 1))


def draw_cases(count: int, seed: int) -> list[Case]:
    """Honest programs on the inputs of their tasks."""
    programs = [one for one in read_programs("honest") if "__global__" in one.source]
    tasks = [read_exercise(program.value("task")).task for program in programs]
    cases = [Case(task.reference, one.source, plain(task.inputs)) for one, task in zip(programs, tasks, strict=True)]
    return [one.anew() for one in random.Random(seed).choices(cases, k=count)]


class SleepingJudge:
    """In the place of `JudgeActor`: a verdict takes time, and no CPU."""

    def __init__(self) -> None:
        self._verdict: dict[str, Any] = {}

    def open(self, config: VerifierConfig) -> str:
        with Verifier(config) as verifier:
            self._verdict = plain(verifier.give_up(rules.EXTRACT_NO_CODE.worded("There is no code.")))
        return "sleeping"

    def judge(self, attempt: str, submission: Submission) -> Verdict:
        time.sleep(SLEEP_SECONDS)
        return restore(Verdict, self._verdict)

    def cancel(self, attempt: str) -> None:
        """Nothing runs longer."""


@contextmanager
def front(actor: type, at_once: int) -> Iterator[str]:
    """The address of a service in this process, on the Ray cluster that it is connected to."""
    import uvicorn

    from musadata.serving.dispatcher import Dispatcher
    from musadata.serving.http_front import create_app
    from musadata.serving.ray_workers import RayWorkers

    servers: list[uvicorn.Server] = []
    with tempfile.TemporaryDirectory() as folder, Journal(folder, "verdicts") as journal:
        listening = listen("127.0.0.1", 0)

        async def serve() -> None:
            dispatcher = Dispatcher(journal, 4096, lambda text: print(text, file=sys.stderr))
            app = create_app(dispatcher, RayWorkers(CONFIG, dispatcher, at_once, actor=actor))
            servers.append(uvicorn.Server(uvicorn.Config(app, log_level="warning")))
            await servers[0].serve(sockets=[listening])

        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            _await_workers(address, 1)
            yield address
        finally:
            servers[0].should_exit = True
            thread.join()


def _health(address: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{address}/health") as reply:
            return dict(json.load(reply))
    except urllib.error.HTTPError as error:
        return dict(json.load(error))
    except OSError:
        return {"workers": {}}


def _await_workers(address: str, count: int) -> None:
    while list(_health(address)["workers"].values()).count("in service") < count:
        time.sleep(0.2)


def ask_from_outside(
    address: str, questions: Sequence[dict[str, Any]], at_once: int, spread: float = 0.0
) -> list[Answer]:
    """What comes of questions of a client process, whose first `at_once` questions are spread over so many seconds."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(questions, file)
        file.flush()
        command = [sys.executable, "-c", _CLIENT, address, file.name, str(at_once), str(spread)]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [Answer(*one) for one in json.loads(found)]


def measure_overhead() -> dict[str, float]:
    """Milliseconds beyond the half second at 64 at once, and of one request over a call."""
    import ray

    from musadata.serving.judge_actor import JudgeActor

    ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=1)
    questions = [{"reference": "", "candidate": f"nothing {number}"} for number in range(AT_ONCE * (ROUNDS + 1))]
    with front(SleepingJudge, AT_ONCE) as address:
        used = time.process_time()
        answers = ask_from_outside(address, questions, AT_ONCE, spread=SLEEP_SECONDS)
        used = time.process_time() - used
        late = sorted(one.seconds - SLEEP_SECONDS for one in answers[AT_ONCE:])  # the first ones open connections
    (case,) = draw_cases(1, 0)
    alone = [replace(case, source=f"nothing {number}") for number in range(101)]
    with Verifier(CONFIG) as verifier:
        judge, direct = SubmissionJudge(verifier), []
        for one in alone:
            start = time.perf_counter()
            judge.judge(Submission(one.reference, one.source, one.inputs))
            direct.append(time.perf_counter() - start)
    with front(JudgeActor, 1) as address:
        asked = [one.seconds for one in ask_from_outside(address, [one.question() for one in alone], 1)]
    ray.shutdown()
    return {
        "cpu_ms": 1e3 * used / len(questions),
        "median_ms": 1e3 * statistics.median(late),
        "p99_ms": 1e3 * late[int(0.99 * len(late))],
        "alone_ms": 1e3 * (statistics.median(asked[1:]) - statistics.median(direct[1:])),
    }


@contextmanager
def two_nodes() -> Iterator[tuple[Any, str]]:
    """A Ray cluster of two nodes that share this machine's cores, and the address of a service on it."""
    from ray.cluster_utils import Cluster

    cpus = max(1, (psutil.cpu_count() or 2) // 2)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=cpus) for _ in range(2)]
    command = [sys.executable, "-m", "musadata", "serve", "--backend", "emulated", "--port", "0"]
    with tempfile.TemporaryDirectory() as journal:
        command += ["--journal", journal, "--ray", cluster.address]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert service.stderr is not None
        address = next(line for line in service.stderr if line.startswith("verdicts at ")).split()[2]
        said = threading.Thread(target=lambda: [sys.stderr.write(line) for line in service.stderr or ()], daemon=True)
        said.start()
        try:
            address = address.removesuffix("/v1/verdicts,")
            _await_workers(address, len(nodes))
            yield cluster, address
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()
            cluster.shutdown()


def measure_rate(count: int) -> dict[str, float]:
    """Verdicts a minute of the service and of the batch command on candidates of the same programs: each twice, in an
    order in which a load that grows or falls meets both alike."""
    seconds = {"served": 0.0, "batched": 0.0}
    with two_nodes() as (_, address):
        ask_from_outside(address, [one.question() for one in draw_cases(4, 1)], 4)  # workers get warm
        for name, seed in (("served", 2), ("batched", 2), ("batched", 3), ("served", 3)):
            measure = _serve if name == "served" else _batch
            seconds[name] += measure(address, draw_cases(count // 2, seed))
    return {name: 60 * 2 * (count // 2) / spent for name, spent in seconds.items()}


def _serve(address: str, cases: Sequence[Case]) -> float:
    """Seconds from the first question to the last verdict."""
    answers = ask_from_outside(address, [one.question() for one in cases], 16)
    assert all(one.accepted for one in answers)
    return max(one.there for one in answers) - min(one.asked for one in answers)


def _batch(_: str, cases: Sequence[Case]) -> float:
    """Seconds from the start of its verifier to the last verdict."""
    with tempfile.TemporaryDirectory() as folder:
        rows, output = Path(folder, "rows.parquet"), Path(folder, "verdicts.parquet")
        pq.write_table(pa.Table.from_pylist([one.question() for one in cases]), rows)
        command = [sys.executable, "-m", "musadata", "verify-batch", str(rows), "--output", str(output)]
        start = done = 0.0
        process = subprocess.Popen([*command, "--backend", "emulated"], stderr=subprocess.PIPE, text=True)
        for line in process.stderr or ():
            if line.endswith("judged before\n"):
                start = time.monotonic()
            if line.startswith(f"{len(cases)} of {len(cases)} judged"):
                done = time.monotonic()
        process.wait()
        assert all(one["accepted"] for one in pq.read_table(output).column("verdict").to_pylist())
    return done - start


def disturb(kind: str, cluster: Any, client: subprocess.Popen[str]) -> None:
    """Kill what `kind` names."""
    if kind == "client":
        client.kill()
        return
    if kind == "node":
        node = random.choice(list(cluster.worker_nodes))
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=max(1, (psutil.cpu_count() or 2) // 2))
        return
    workers = [one for one in _below() if "ray::JudgeActor" in " ".join(_command_of(one))]
    if not workers:
        return
    victim = random.choice(workers)
    if kind == "sandbox":
        victim = random.choice(victim.children(recursive=True) or [victim])
    victim.kill()


def _below() -> list[psutil.Process]:
    """All processes that this benchmark has started, and what these have."""
    return psutil.Process().children(recursive=True)


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def measure_moments(count: int) -> dict[str, Any]:
    """How many moments of each kind were good."""
    good: dict[str, int] = dict.fromkeys(KINDS, 0)
    wrong: list[str] = []
    with two_nodes() as (cluster, address), tempfile.TemporaryDirectory() as folder:
        for moment in range(count):
            kind = KINDS[moment % len(KINDS)]
            cases = draw_cases(6, moment)
            Path(folder, "questions.json").write_text(json.dumps([one.question() for one in cases]))
            command = [sys.executable, "-c", _CLIENT, address, f"{folder}/questions.json", "6", "0"]
            client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            while client.poll() is None and not _health(address).get("running"):
                time.sleep(0.05)
            time.sleep(random.Random(moment).uniform(0.0, 3.0))
            disturb(kind, cluster, client)
            output, _ = client.communicate()
            accepted = [one[2] for one in json.loads(output)] if client.returncode == 0 else []
            if kind != "client" and accepted != [True] * len(cases):
                wrong.append(f"{moment} {kind}: {accepted}")
            end = time.monotonic() + 60
            while (left := [_health(address).get(name) for name in ("waiting", "running")]) != [0, 0]:
                if time.monotonic() > end:
                    wrong.append(f"{moment} {kind}: left {left}")
                    break
                time.sleep(0.2)
            good[kind] += not (wrong and wrong[-1].startswith(f"{moment} "))
            print(f"moment {moment}, {kind}: {sum(good.values())} good so far", file=sys.stderr, flush=True)
            _await_workers(address, 2)
        started = _below()
    _, left = psutil.wait_procs(started, 20)
    left_behind = [" ".join(_command_of(one))[:80] for one in left]
    return {"good": good, "wrong": wrong, "left_behind": left_behind, "moments": count}


os.environ.setdefault("RAY_worker_niceness", "0")  # as `musadata serve` sets it where it starts Ray


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=["overhead", "rate", "moments"])
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    parts, rows, found = arguments.part or ["overhead", "rate", "moments"], list[Row](), dict[str, Any]()
    if "overhead" in parts:
        found["overhead"] = cost = measure_overhead()
        for name, key, goal in (("median", "median_ms", GOAL_MEDIAN_MS), ("99th percentile", "p99_ms", GOAL_P99_MS)):
            what = f"overhead of a request, {AT_ONCE} at once, {name}"
            rows.append((what, f"at most {goal:g} ms", f"{cost[key]:.1f} ms", cost[key] <= goal))
        rows.append(("CPU time of the front for a request", "", f"{cost['cpu_ms']:.1f} ms", True))
        rows.append(("overhead of a request alone", "", f"{cost['alone_ms']:.1f} ms", True))
    if "rate" in parts:
        found["rate"] = rate = measure_rate(arguments.candidates)
        ratio, both = rate["served"] / rate["batched"], f"{rate['served']:.0f} against {rate['batched']:.0f}"
        what = "verdicts a minute on two nodes, against verify-batch"
        rows.append((what, f"at least {GOAL_RATE:g} times", f"{ratio:.2f} times ({both})", ratio >= GOAL_RATE))
    if "moments" in parts:
        found["moments"] = seen = measure_moments(arguments.moments)
        total = sum(seen["good"].values())
        kept = total == seen["moments"] and not seen["left_behind"]
        rows.append(
            ("moments after which nothing is lost, false or left", "all", f"{total} of {seen['moments']}", kept)
        )
        print("\n".join(seen["wrong"]), file=sys.stderr)
    report("serving", rows, found, arguments.output)
    return end(rows)


if __name__ == "__main__":
    sys.exit(main())
