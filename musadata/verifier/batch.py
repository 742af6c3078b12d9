"""Many candidates at once: a verifier per device, and as many threads as candidates at a time.

Compilers and references keep the cores busy while other candidates are executed on the device; a candidate that is
timed has the device alone (`device_lock`). Every verdict is written to a journal beside the output at once, so that the
same command judges only what is missing when it is run again.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from musadata.config import VerifierConfig
from musadata.errors import MusadataError, Outage
from musadata.records import Verdict
from musadata.rows import plain, restore
from musadata.schema import arrow_schema
from musadata.storage.journal import Journal
from musadata.verifier.policies import apply_policy, load_policy
from musadata.verifier.shared_interpreter import shared_interpreter
from musadata.verifier.submission import Submission, SubmissionJudge, identify_judging, key_of
from musadata.verifier.verifier import Verifier

_PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class Batch:
    """What to judge and with what. `devices`: CUDA devices, each with its own process; empty for the first one."""

    candidates: Path
    output: Path
    config: VerifierConfig
    at_once: int
    devices: tuple[str, ...] = ()


def judge_batch(batch: Batch, say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)) -> list[Verdict]:
    """Judge every row of a Parquet file; the output has the same rows, in order, with a column `verdict`.

    Raises:
        MusadataError: the file cannot be read or lacks columns, or the backend is not there.
        Outage: the machine has kept some candidates from a verdict; the others are judged, and kept.
    """
    table, rows = _read(batch.candidates)
    _require_file(batch.output)
    identity, policy = identify_judging(batch.config), load_policy(batch.config.policy)
    keys = [key_of(identity, row) for row in rows]
    with Journal(batch.output.with_name(batch.output.name + ".journal"), "verdicts") as journal:
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in journal}
        known = sum(key in journal for key in keys)
        say(f"{len(rows)} candidates, {known} of them judged before")
        progress = _Progress(len(missing), say)
        if missing:
            judge = _judge_on if batch.devices else _judge_here
            outages = []
            for key, verdict in judge(batch, missing):
                if isinstance(verdict, Outage):
                    outages.append(verdict)
                    continue
                journal.put(key, plain(verdict))
                progress.count(verdict)
            if outages:
                text = f"{len(outages)} candidates are not judged ({outages[0]})"
                raise Outage(text, where="verify-batch", remedy="run the same command again: the others are kept")
        verdicts = [apply_policy(restore(Verdict, journal.get(key) or {}), policy) for key in keys]
    replace_verdicts(table, verdicts, batch.output)
    return verdicts


def _require_file(output: Path) -> None:
    """Check before the first verdict what would otherwise fail after the last."""
    if output.is_dir():
        raise MusadataError("is a folder", where=str(output), remedy="name the Parquet file to write")


def _read(path: Path) -> tuple[pa.Table, list[Submission]]:
    """The table, and of each row what its verdict depends on."""
    if not path.exists():
        raise MusadataError("does not exist", where=str(path), remedy="name a Parquet file")
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        what = " ".join(str(error).split())[:200]
        raise MusadataError(f"cannot be read ({what})", where=str(path), remedy="name a Parquet file") from error
    names = set(table.column_names)
    if "reference" not in names or not names & {"source", "candidate"}:
        raise MusadataError(
            "lacks the columns reference and source", where=str(path), remedy="join candidates with their tasks first"
        )
    wanted = [name for name in ("reference", "source", "candidate", "inputs", "measure") if name in names]
    rows = table.select(wanted).to_pylist()
    return table, [
        Submission(
            _text(row["reference"]),
            _text(row.get("source") if row.get("source") is not None else row.get("candidate")),
            row.get("inputs"),
            row.get("measure"),
        )
        for row in rows
    ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def replace_verdicts(table: pa.Table, verdicts: Sequence[Verdict], output: Path) -> None:
    """Write rows with their verdicts: the whole file or none."""
    column = pa.array([plain(verdict) for verdict in verdicts], pa.struct(list(arrow_schema(Verdict))))
    if "verdict" in table.column_names:
        table = table.drop_columns(["verdict"])
    partial = output.with_name(f"{output.name}.{os.getpid()}.partial")
    try:
        pq.write_table(table.append_column("verdict", column), partial, compression="zstd")
        partial.replace(output)
    except OSError as error:
        raise MusadataError(f"cannot be written ({error.strerror})", where=str(output)) from error
    finally:
        partial.unlink(missing_ok=True)


class _Progress:
    """Counts by outcome, said every few seconds."""

    def __init__(self, total: int, say: Callable[[str], None]):
        self._total, self._say = total, say
        self._counts = {"accepted": 0, "rejected": 0, "undecided": 0}
        self._start = self._last = time.monotonic()

    def count(self, verdict: Verdict) -> None:
        undecided = verdict.is_undecided
        self._counts["accepted" if verdict.accepted else "undecided" if undecided else "rejected"] += 1
        done, now = sum(self._counts.values()), time.monotonic()
        if now - self._last >= _PROGRESS_SECONDS or done == self._total:
            self._last = now
            counts = ", ".join(f"{count} {name}" for name, count in self._counts.items())
            self._say(f"{done} of {self._total} judged in {now - self._start:.0f} s: {counts}")


def _judge_here(batch: Batch, rows: dict[str, Submission]) -> Iterator[tuple[str, Verdict | Outage]]:
    """Keys and verdicts as they come, by threads of this process: one device needs no other."""
    opened = Verifier(batch.config, reads_many=True)
    with shared_interpreter(), opened as verifier, ThreadPoolExecutor(batch.at_once) as pool:
        judge = SubmissionJudge(verifier)
        keys = {pool.submit(judge.judge, row): key for key, row in rows.items()}
        try:
            for done in as_completed(keys):
                outage = done.exception()
                yield keys.pop(done), outage if isinstance(outage, Outage) else done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _judge_on(batch: Batch, rows: dict[str, Submission]) -> Iterator[tuple[str, Verdict | Outage]]:
    """The same by a process for each of the batch's devices."""
    context = multiprocessing.get_context("spawn")
    questions: Any = context.Queue()
    answers: Any = context.Queue()
    devices = batch.devices
    threads = [batch.at_once // len(devices) + (i < batch.at_once % len(devices)) for i in range(len(devices))]
    processes = [
        context.Process(target=_work, args=(batch.config, max(1, count), device, questions, answers), daemon=True)
        for device, count in zip(devices, threads, strict=True)
    ]
    for item in rows.items():
        questions.put(item)
    for _ in range(sum(max(1, count) for count in threads)):
        questions.put(None)
    for process in processes:
        process.start()
    try:
        for _ in rows:
            key, verdict = _next_answer(answers, processes)
            yield key, verdict
    finally:
        for process in processes:
            process.terminate()  # what it has started dies with it
            process.join()


def _next_answer(answers: Any, processes: Sequence[BaseProcess]) -> tuple[str, Verdict | Outage]:
    while True:
        ended = [process for process in processes if process.exitcode not in (None, 0)]
        try:
            answer: tuple[str, Any] = answers.get(timeout=1.0)
        except queue.Empty:
            if ended or not any(process.is_alive() for process in processes):
                code = ended[0].exitcode if ended else 0
                raise Outage(
                    f"a worker process ended (exit code {code})",
                    where="verify-batch",
                    remedy="free some memory and run the same command again: what has been judged is kept",
                ) from None
            continue
        if answer[0] == "":
            raise MusadataError(str(answer[1]))
        return answer


def _work(config: VerifierConfig, threads: int, device: str, questions: Any, answers: Any) -> None:
    """A process's whole life: its verifier serves its threads until the questions end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    os.environ["CUDA_VISIBLE_DEVICES"] = device
    try:
        with shared_interpreter(), Verifier(config, reads_many=True) as verifier:
            judge = SubmissionJudge(verifier)
            workers = [threading.Thread(target=_serve, args=(judge, questions, answers)) for _ in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    except MusadataError as error:
        answers.put(("", str(error)))


def _serve(judge: SubmissionJudge, questions: Any, answers: Any) -> None:
    """One thread's work."""
    while (item := questions.get()) is not None:
        key, row = item
        try:
            answers.put((key, judge.judge(row)))
        except Outage as outage:
            answers.put((key, outage))


def parse_devices(text: str) -> tuple[str, ...]:
    """The devices of `--devices 0,1`.

    Raises:
        MusadataError: it is anything but numbers, or names a device twice.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    with contextlib.suppress(ValueError):
        if len({int(name) for name in names}) == len(names):
            return names
    raise MusadataError(f"{text!r} is no list of devices", where="--devices", remedy="say 0,1 or leave it out")
