"""The compiler teacher's candidates for KernelBench at its own sizes, judged by us and by KernelBench's harness.

    python -m benchmarks.kernelbench HARNESS --per-level 16 --output build/kernelbench.json

HARNESS is a checkout of ScalingIntelligence/KernelBench: its problems are read there, and nothing of them is kept. They
are a yardstick, never a source of data. Of each of the levels 1 to 3 as many problems are drawn as asked for, evenly
over the level, of those for which the teacher has a candidate. Every candidate is judged on its own, from its source;
the harness gets some of them, drawn evenly again, since one takes it several seconds. Ours are judged under `paper`;
how many each other policy accepts, of the same facts, is said as well. Rates are of whole runs, the start of processes
included. A candidate that the harness does not finish in time counts as if it had ended then, which is in its favour.
Each difference between the two verdicts is listed with what both had to say.
With `--variants`, further schedules are judged for problems whose first candidate is neither hopeless nor fast enough,
beginning with the fastest of these; the best candidate counts for the problem.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.kernelbench_candidates import PRELOAD, write_candidates
from benchmarks.measuring import Row, end, report
from benchmarks.throughput import Pair, run_harness
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass, Verdict
from musadata.sandbox import Sandbox
from musadata.verifier import Verifier
from musadata.verifier.policies import NAMES, decide, load_policy
from musadata.verifier.shared_interpreter import shared_interpreter
from musadata.verifier.task_from_reference import PRELOAD as READING
from musadata.verifier.task_from_reference import PRELOAD_FOR_MANY, read_reference

GOAL_RATIO, GOAL_RATE, GOAL_INTERVAL, FROM_MS = 20.0, 60.0, 0.01, 0.02
GOAL_SPEEDUP, GOAL_FASTER = 1.1, 0.25
MOST_CANDIDATES = 6  # of a problem
_HOPELESS = 0.3  # of eager's speed: another schedule of the same kernels is not three times faster
_LEVELS = (1, 2, 3)


@dataclass(frozen=True)
class Problem:
    """A problem's text, and the candidates for it, of which the first is the likeliest."""

    name: str
    reference: str
    candidates: tuple[str, ...]

    @property
    def candidate(self) -> str:
        return self.candidates[0]


@dataclass(frozen=True)
class Judged:
    """What became of a candidate: seconds from its turn to its verdict, and when after the start that was."""

    verdict: Verdict | None
    trouble: str
    seconds: float
    at: float


def read_level(harness: Path, level: int) -> list[tuple[str, str]]:
    """Names and texts of a level's problems, by number."""
    paths = sorted(
        (harness / "KernelBench" / f"level{level}").glob("*.py"), key=lambda path: int(path.name.split("_")[0])
    )
    return [(f"level{level}_{path.stem}", path.read_text(encoding="utf-8")) for path in paths]


def draw_evenly(items: Sequence[Any], count: int) -> list[Any]:
    """So many of them, spread over all; all of them if `count` is 0."""
    if count <= 0 or count >= len(items):
        return list(items)
    return [items[int((index + 0.5) * len(items) / count)] for index in range(count)]


def find_candidates(
    harness: Path, per_level: int, cores: int, kept: Path | None, write: bool
) -> tuple[list[Problem], dict[str, str]]:
    """Problems of all levels with their candidates, and why others have none.

    With `write`, what the file `kept` lacks is added to it as it comes, in an order of which every beginning is an even
    draw: that takes minutes, and no device.
    """
    texts = {name: text for level in _LEVELS for name, text in read_level(harness, level)}
    found: dict[str, dict[str, Any]] = {"candidates": {}, "missing": {}}
    if kept is not None and kept.is_file():
        found = json.loads(kept.read_text(encoding="utf-8"))
    left = [name for name in sorted(texts, key=_even_order) if name not in found["candidates"] | found["missing"]]
    for name, sources, why in _write_candidates([(name, texts[name]) for name in left], cores) if write else ():
        found["candidates" if sources else "missing"][name] = sources or why
        if kept is not None:
            kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    candidates = found["candidates"]
    problems = [Problem(name, text, tuple(candidates[name])) for name, text in texts.items() if name in candidates]
    return _draw_each_level(problems, per_level), found["missing"]


def _even_order(name: str) -> tuple[int, str]:
    """A sort key by which every beginning is spread over all levels: the bits of the number within one, reversed."""
    return int(f"{int(name.split('_')[1]) - 1:08b}"[::-1], 2), name


def _draw_each_level(problems: Sequence[Problem], per_level: int) -> list[Problem]:
    levels = [[one for one in problems if one.name.startswith(f"level{level}_")] for level in _LEVELS]
    return [one for level in levels for one in draw_evenly(level, per_level)]


def _write_candidates(problems: Sequence[tuple[str, str]], cores: int) -> Iterator[tuple[str, list[str], str]]:
    """(name, candidates, why there are none), as they come."""
    with Sandbox((*PRELOAD, *READING, *PRELOAD_FOR_MANY)) as sandbox:

        def write(problem: tuple[str, str]) -> tuple[str, list[str], str]:
            name, reference = problem
            try:
                found, why = write_candidates(sandbox, name, read_reference(reference, VerifierConfig(), sandbox))
            except MusadataError as error:
                return name, [], f"cannot be read: {error}"[:200]
            return name, [one.source for one in found[:MOST_CANDIDATES]], why

        with ThreadPoolExecutor(cores) as pool:
            for done in as_completed([pool.submit(write, problem) for problem in problems]):
                yield done.result()


def judge_all(
    problems: Sequence[Problem], config: VerifierConfig, cores: int, seconds: float
) -> Iterator[tuple[str, Judged]]:
    """Names and verdicts as they come, begun in the given order; what has none after `seconds` is left out."""
    start = time.monotonic()
    opened = Verifier(config, reads_many=True)
    with shared_interpreter(), opened as verifier, ThreadPoolExecutor(cores + cores // 2) as pool:

        def judge(problem: Problem) -> Judged:
            began = time.monotonic()
            try:
                verdict, trouble = verifier.verify_text(problem.reference, problem.candidate), ""
            except MusadataError as error:
                verdict, trouble = None, str(error)[:400]
            now = time.monotonic()
            return Judged(verdict, trouble, now - began, now - start)

        names = {pool.submit(judge, problem): problem.name for problem in problems}
        try:
            for done in as_completed(names, timeout=max(1.0, seconds)):
                yield names[done], done.result()
        except TimeoutError:
            print("time is up for our side", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def measure_ours(problems: Sequence[Problem], arguments: argparse.Namespace, note: Any) -> dict[str, Any]:
    """Every verdict, and the rate."""
    config = VerifierConfig(backend=BackendType(arguments.backend), policy="paper")
    start = time.monotonic()
    found: dict[str, Any] = {"seconds": 0.0, "verdicts": {}}
    mixed = sorted(problems, key=lambda problem: _even_order(problem.name))  # large inputs are not all at once
    for name, judged in judge_all(mixed, config, arguments.cores, 60 * arguments.minutes):
        found["verdicts"][name] = describe(judged)
        found["seconds"] = time.monotonic() - start
        note(found)
    found["seconds"] = time.monotonic() - start
    return found


def measure_variants(problems: Sequence[Problem], ours: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Add the verdicts on further candidates to `ours`, in what is left of its time."""
    speedups = {name: one.get("speedup") or 0.0 for name, one in ours["verdicts"].items()}
    near = [one for one in problems if _HOPELESS <= speedups.get(one.name, 0.0) < GOAL_SPEEDUP]
    near.sort(key=lambda one: -speedups[one.name])
    variants = [
        Problem(f"{one.name} {number}", one.reference, (one.candidates[number],))
        for number in range(1, MOST_CANDIDATES)
        for one in near
        if number < len(one.candidates)
    ]
    config = VerifierConfig(backend=BackendType(arguments.backend), policy="paper")
    left = 60 * arguments.minutes - ours["seconds"]
    ours["variants"] = {name: describe(judged) for name, judged in judge_all(variants, config, arguments.cores, left)}
    ours["variants_given"] = len(variants)


def best_speedups(ours: dict[str, Any]) -> dict[str, float]:
    """Of each problem's accepted candidates, the fastest one's speed relative to eager."""
    best: dict[str, float] = {}
    for name, one in (*ours["verdicts"].items(), *ours.get("variants", {}).items()):
        problem = name.partition(" ")[0]
        best[problem] = max(best.get(problem, 0.0), one.get("speedup") or 0.0)
    return best


def summarise_variants(ours: dict[str, Any], problems: int) -> list[Row]:
    """What became of the further candidates, and how many problems have a fast one."""
    outcomes = [one["outcome"] for one in ours["variants"].values()]
    counts = [*map(outcomes.count, ("accepted", "rejected", "undecided")), ours["variants_given"] - len(outcomes)]
    what = "variants: accepted, rejected, undecided, not judged in time"
    return [(what, "", ", ".join(map(str, counts)), True), _faster(ours, problems)]


def _faster(ours: dict[str, Any], problems: int) -> Row:
    faster = sum(speedup >= GOAL_SPEEDUP for speedup in best_speedups(ours).values())
    given = f"{len(ours['verdicts'])} candidates and {len(ours['variants'])} variants"
    return (
        f"of {problems} problems, those {GOAL_SPEEDUP:g} times as fast as eager or faster",
        f">= {GOAL_FASTER:.0%}",
        f"{faster} ({faster / max(1, problems):.0%}), best of {given}",
        faster >= GOAL_FASTER * problems,
    )


def describe(judged: Judged) -> dict[str, Any]:
    """A verdict as plain values."""
    base = {"seconds": round(judged.seconds, 2), "at": round(judged.at, 2)}
    verdict = judged.verdict
    if verdict is None:
        return {**base, "outcome": "undecided", "why": judged.trouble}
    outcome = "accepted" if verdict.accepted else "undecided" if verdict.error_class is ErrorClass.INFRA else "rejected"
    return {
        **base,
        "outcome": outcome,
        "why": "; ".join(f"{finding.rule}: {finding.message}" for finding in verdict.findings)[:400],
        "speedup": verdict.speedup,
        "timings": {one.name: [one.median_ms, one.low_ms, one.high_ms, one.repetitions] for one in verdict.timings},
        "shrunk": verdict.shrunk[:200],
        "policies": [name for name in NAMES if decide(verdict.facts, load_policy(name)).accepted],
    }


def measure_harness(problems: Sequence[Problem], arguments: argparse.Namespace) -> dict[str, Any]:
    """The harness on some of them."""
    pairs = [
        Pair(problem.name, problem.reference, problem.candidate)
        for problem in draw_evenly(problems, arguments.harness_candidates)
    ]
    try:
        limits = 60 * arguments.harness_minutes, arguments.harness_seconds_each
        found = run_harness(pairs, arguments.harness, arguments.cores, *limits)
    except RuntimeError as error:
        return {"trouble": str(error)[-1500:], "evaluations": {}, "given": len(pairs)}
    return {**found, "given": len(pairs)}


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> list[dict[str, str]]:
    """Candidates on which the two do not agree, with what each had to say."""
    differences = []
    for name, evaluation in theirs["evaluations"].items():
        mine = ours["verdicts"].get(name)
        if mine is None or evaluation.get("timed_out") or (mine["outcome"] == "accepted") == evaluation["accepted"]:
            continue
        said = json.dumps(evaluation.get("metadata", ""))[:400]
        differences.append({"name": name, "ours": f"{mine['outcome']} {mine['why']}"[:400], "harness": said})
    return differences


def summarise(ours: dict[str, Any], theirs: dict[str, Any], asked: int) -> tuple[list[Row], dict[str, Any]]:
    """The rows of the table, and figures for the file."""
    verdicts = ours["verdicts"]
    outcomes = [one["outcome"] for one in verdicts.values()]
    undecided = outcomes.count("undecided") + asked - len(outcomes)
    rate = 60 * len(verdicts) / ours["seconds"] if ours["seconds"] else 0.0
    speedups = [one["speedup"] for one in verdicts.values() if one.get("speedup")]
    wide = _wide_intervals(verdicts)
    done = theirs.get("evaluations", {})
    spent = (theirs.get("compile_seconds") or 0.0) * len(done) / max(1, theirs.get("given", 0))
    spent += sum(one["seconds"] for one in done.values())
    rival = 60 * len(done) / spent if spent else 0.0
    differences = compare(ours, theirs) if done else []
    shown = f"{statistics.median(speedups):.2f} over {len(speedups)}" if speedups else "none"
    lines: list[Row] = [
        ("candidates at the checkout's own sizes", "", str(asked), True),
        ("undecided", "0", str(undecided), undecided == 0),
        ("accepted, rejected", "", f"{outcomes.count('accepted')}, {outcomes.count('rejected')}", True),
        ("accepted under each policy", "", ", ".join(map(_count_accepted(verdicts), NAMES)), True),
        ("candidates a minute", f">= {GOAL_RATE:g}", f"{rate:.1f}", rate >= GOAL_RATE),
        ("median speedup over eager", "", shown, True),
        (f"95 % intervals above {FROM_MS * 1e3:g} µs wider than 1 %", "0", str(len(wide)), not wide),
        ("the harness, candidates a minute", "", f"{rival:.2f} ({_describe_done(done)})", True),
        (
            "ours / the harness's",
            f">= {GOAL_RATIO:g}",
            f"{rate / rival:.1f}" if rival else "not measured",
            bool(rival) and rate / rival >= GOAL_RATIO,
        ),
        ("verdicts that differ from the harness's", "", f"{len(differences)} of {len(done)}", True),
    ]
    return lines, {"rate": rate, "harness_rate": rival, "differences": differences, "wide_intervals": wide}


def _count_accepted(verdicts: dict[str, Any]) -> Callable[[str], str]:
    return lambda name: f"{name} {sum(name in one.get('policies', ()) for one in verdicts.values())}"


def _describe_done(done: dict[str, Any]) -> str:
    late = sum(bool(one.get("timed_out")) for one in done.values())
    return f"{len(done)} done{f', of which {late} ended as too slow' * bool(late)}"


def _wide_intervals(verdicts: dict[str, Any]) -> dict[str, list[float]]:
    return {
        f"{name} {side}": times
        for name, one in verdicts.items()
        for side, times in one.get("timings", {}).items()
        if times[0] >= FROM_MS and times[2] - times[1] > GOAL_INTERVAL * times[0]
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both and print; 1 if a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", type=Path)
    parser.add_argument("--per-level", type=int, default=0, help="problems of each level; 0 for all")
    parser.add_argument("--variants", action="store_true", help="judge further candidates as well")
    parser.add_argument("--candidates", type=Path, help="a file to keep candidates in, or to read them from")
    parser.add_argument("--only-candidates", action="store_true", help="write them, and judge nothing")
    parser.add_argument("--minutes", type=float, default=30.0, help="for our side")
    parser.add_argument("--harness-candidates", type=int, default=16, help="how many the harness judges; whole rounds")
    parser.add_argument("--harness-minutes", type=float, default=20.0)
    parser.add_argument("--harness-seconds-each", type=float, default=180.0, help="of which no more count for one")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    arguments.harness = arguments.harness.resolve()
    partial = Path(tempfile.gettempdir()) if arguments.output is None else arguments.output.parent
    partial.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    kept = arguments.candidates
    write = kept is None or arguments.only_candidates or not kept.is_file()
    problems, missing = find_candidates(arguments.harness, arguments.per_level, arguments.cores, kept, write)
    drawing = time.monotonic() - start
    print(f"{len(problems)} candidates after {drawing:.0f} s, {len(missing)} problems have none", flush=True)

    if arguments.only_candidates:
        return 0

    def note(found: dict[str, Any]) -> None:
        """Keep what there is: the run may be cut off."""
        if arguments.output is not None:
            (partial / f"{arguments.output.stem}_partial.json").write_text(json.dumps(found, indent=1))

    ours = measure_ours(problems, arguments, note)
    if arguments.variants:
        measure_variants(problems, ours, arguments)
        note(ours)
    theirs: dict[str, Any] = {"evaluations": {}}
    if arguments.harness_candidates and arguments.backend == "cuda":
        theirs = measure_harness(problems, arguments)
    lines, figures = summarise(ours, theirs, len(problems))
    if arguments.variants:
        lines += summarise_variants(ours, len(problems) + (0 if arguments.per_level else len(missing)))
    details = {"seconds_for_candidates": drawing, "no_candidate": missing, "ours": ours, "harness": theirs, **figures}
    report("KernelBench at its own sizes", lines, details, arguments.output)
    for one in figures["differences"]:
        print(json.dumps(one), flush=True)
    return end(lines)


if __name__ == "__main__":
    raise SystemExit(main())
