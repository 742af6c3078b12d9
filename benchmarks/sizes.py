"""Measure sizes of a corpus's tasks, and how the emulator judges references of any size at smaller sizes.

    python -m benchmarks.sizes --corpus build/quickstart --harness CHECKOUT [--every N [--first K]]

CHECKOUT is KernelBench's repository; nothing of it is kept but the names of its problems. Each reference of levels 1
and 2, or of other `--levels`, is shrunk, the compiler teacher writes a candidate that takes its sizes from the
arguments, and the emulator judges it against the text as it is.
"""

import argparse
import math
import os
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.kernelbench_candidates import PRELOAD, write_candidates
from benchmarks.measuring import Row, report
from musadata.config import BackendType, VerifierConfig
from musadata.corpus.query import query
from musadata.errors import MusadataError
from musadata.records import ErrorClass
from musadata.sandbox import Sandbox
from musadata.verifier import REFERENCE_PRELOAD, Verifier
from musadata.verifier.task_from_reference import PRELOAD_FOR_MANY

MEASURED, ELEMENTS = 0.98, 4_000_000
DECIDED, SECONDS = 0.95, 1.0


@dataclass(frozen=True)
class Judged:
    """One problem. `verdict`: "accepted", an error class, or why there is no candidate; `generic`: right at both forms.
    CPU seconds of all processes together: shrinking; a verdict with compilation, whole; the same once compiled."""

    name: str
    verdict: str
    generic: bool = False
    shrinking: float = 0.0
    seconds: float = 0.0
    compiled: float = 0.0


class CpuClock:
    """CPU seconds of this process and of all that it has started, ended ones included."""

    def __init__(self) -> None:
        self._start = _cpu_seconds()

    @property
    def seconds(self) -> float:
        return _cpu_seconds() - self._start


def _cpu_seconds() -> float:
    """User and system time of every process that descends from this one, and of their children that have ended."""
    times: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        times[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    own, added = {os.getpid()}, 1
    while added:
        more = {number for number, (parent, _) in times.items() if parent in own} - own
        own, added = own | more, len(more)
    return sum(times[number][1] for number in own if number in times)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="measure sizes of its tasks")
    parser.add_argument("--harness", type=Path, help="KernelBench's checkout")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2], help="of KernelBench")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth problem only")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="begin with the Kth of them, from 0")
    parser.add_argument("--workers", type=int, default=1, help="processes that judge problems")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    rows: list[Row] = list(_measured(options.corpus)) if options.corpus else []
    judged: list[Judged] = []
    if options.harness:
        levels = [options.harness / "KernelBench" / f"level{level}" for level in options.levels]
        problems = [path for level in levels for path in sorted(level.glob("*.py"))][options.first :: options.every]
        judged = list(_judge_all(problems, options.workers))
        rows += _summarize(judged)
    report("sizes", rows, {"problems": [asdict(one) for one in judged]}, options.output)
    return 0 if rows and all(kept for *_, kept in rows) else 1


def _measured(corpus: str) -> Iterator[Row]:
    """How many tasks have a measure size, and how large it is."""
    table = query(corpus, "SELECT measure FROM tasks")
    sizes = table.column("measure").to_pylist() if table else []
    largest = [max(math.prod(spec["shape"]) for spec in one if spec["kind"] != "literal") for one in sizes if one]
    share, median = len(largest) / max(len(sizes), 1), statistics.median(largest or [0])
    yield "tasks with a measure size", f">= {MEASURED:.0%}", f"{share:.1%} of {len(sizes)}", share >= MEASURED
    yield "elements of its largest input, median", f">= {ELEMENTS:,}", f"{median:,.0f}", median >= ELEMENTS


def _judge_all(problems: Sequence[Path], workers: int) -> Iterator[Judged]:
    """All of them, by several processes, each of which measures its own time."""
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for share in pool.map(_judge_share, [problems[number::workers] for number in range(workers)]):
            yield from share


def _judge_share(problems: Sequence[Path]) -> list[Judged]:
    found = []
    config = VerifierConfig(backend=BackendType.EMULATED)
    with (
        Sandbox(tuple(dict.fromkeys((*PRELOAD, *REFERENCE_PRELOAD, *PRELOAD_FOR_MANY)))) as sandbox,
        Verifier(config, sandbox) as verifier,
    ):
        for path in problems:
            judged = _judge(verifier, sandbox, path)
            print(judged, flush=True)
            found.append(judged)
    return found


def _judge(verifier: Verifier, sandbox: Sandbox, path: Path) -> Judged:
    reference, clock = path.read_text(), CpuClock()
    try:
        lone = verifier.read_reference(reference)
        shrinking = clock.seconds
        found, why = write_candidates(sandbox, path.stem, lone)
        candidate = found[0].source if found else ""
    except MusadataError as error:
        return Judged(path.stem, str(error))
    if not candidate:
        return Judged(path.stem, why)
    seconds = []
    for _ in range(2):
        clock = CpuClock()
        verdict = verifier.verify_text(reference, candidate)
        seconds.append(clock.seconds)
    generic = verdict.accepted and all(verifier.verify(form, candidate).accepted for form in lone.forms[1:])
    outcome = "accepted" if verdict.accepted else f"{verdict.error_class}: {verdict.findings[0].rule}"
    return Judged(path.stem, outcome, generic, shrinking, *seconds)


def _summarize(judged: Sequence[Judged]) -> Iterator[Row]:
    answered = [one for one in judged if one.seconds]
    decided = [one for one in answered if not one.verdict.startswith(ErrorClass.INFRA)]
    share = len(decided) / max(len(answered), 1)
    shrinking, seconds, compiled = (
        statistics.median([values[index] for values in map(_times, answered)] or [0.0]) for index in range(3)
    )
    yield "problems of the harness, with a candidate", "", f"{len(judged)}, {len(answered)}", True
    yield "candidates decided by the emulator", f">= {DECIDED:.0%}", f"{share:.1%}", share >= DECIDED
    accepted, generic = sum(one.verdict == "accepted" for one in answered), sum(one.generic for one in answered)
    yield "accepted; also with other sizes of the constructor", "", f"{accepted}; {generic}", True
    yield "shrinking, median CPU s", "", f"{shrinking:.2f}", True
    yield "a verdict with compilation, median CPU s", "", f"{seconds:.2f}", True
    yield "a verdict once compiled, median CPU s", f"<= {SECONDS:g}", f"{compiled:.2f}", compiled <= SECONDS


def _times(one: Judged) -> tuple[float, float, float]:
    return one.shrinking, one.seconds, one.compiled


if __name__ == "__main__":
    raise SystemExit(main())
