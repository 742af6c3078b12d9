"""The compiler teacher's schedules against eager PyTorch, on references of our own at sizes that fill a device.

    python -m benchmarks.schedules --only-candidates --candidates build/schedules_candidates.json
    python -m benchmarks.schedules --candidates build/schedules_candidates.json --output build/schedules.json

The references are in schedules.yaml. Candidates of all plans are written without a device; on one, the verifier judges
and times them as any others, the likeliest of each reference first, so that a run that is cut short has one of each.
A reference's speedup is that of its fastest accepted candidate. TF32 is off on both sides.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

from benchmarks.kernelbench import Problem, describe, judge_all
from benchmarks.kernelbench_candidates import PRELOAD, write_candidates
from benchmarks.measuring import Row, end, report
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.sandbox import Sandbox
from musadata.verifier.task_from_reference import PRELOAD as READING
from musadata.verifier.task_from_reference import PRELOAD_FOR_MANY, read_reference

_REFERENCES = Path(__file__).with_name("schedules.yaml")
Found = dict[str, Any]  # plain values, by name


@dataclass(frozen=True)
class Group:
    """References of one kind: their texts by name, and the least speedup that is promised for each, or for their
    geometric mean; None if nothing is promised."""

    name: str
    texts: dict[str, str]
    promise: float | None
    mean: bool


def read_groups() -> list[Group]:
    """All references."""
    return [
        Group(
            entry["group"],
            {name: Template(entry["text"]).substitute(values) for name, values in entry["cases"].items()},
            entry.get("promise"),
            entry.get("mean", False),
        )
        for entry in yaml.safe_load(_REFERENCES.read_text(encoding="utf-8"))
    ]


def write_all(texts: dict[str, str], cores: int) -> Iterator[tuple[str, Found]]:
    """Names and candidates of all plans, as they come: {"candidates": [plan, schedules and source], "why"}."""
    with Sandbox((*PRELOAD, *READING, *PRELOAD_FOR_MANY)) as sandbox, ThreadPoolExecutor(cores) as pool:

        def write(name: str) -> tuple[str, Found]:
            try:
                found, why = write_candidates(sandbox, name, read_reference(texts[name], VerifierConfig(), sandbox))
            except MusadataError as error:
                found, why = [], f"cannot be read: {error}"[:300]
            plain = [{"plan": one.plan.name, "schedule": one.schedule, "source": one.source} for one in found]
            return name, {"candidates": plain, "why": why}

        for done in as_completed([pool.submit(write, name) for name in texts]):
            yield done.result()


def find_candidates(texts: dict[str, str], cores: int, kept: Path | None) -> Found:
    """The candidates of all references: those in the file, and those that it lacks, which are added to it."""
    found: Found = json.loads(kept.read_text(encoding="utf-8")) if kept is not None and kept.is_file() else {}
    missing = {name: text for name, text in texts.items() if name not in found}
    for name, candidates in write_all(missing, cores) if missing else ():
        found[name] = candidates
        if kept is not None:
            kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def judge(
    texts: dict[str, str], candidates: Found, options: argparse.Namespace, note: Callable[[Found], None]
) -> Found:
    """For each reference its candidates without their source, with their verdicts as far as time allowed."""
    ranked = [
        (rank, Problem(f"{name}#{rank}", texts[name], (one["source"],)))
        for name in texts
        for rank, one in enumerate(candidates[name]["candidates"][: options.plans])
    ]
    problems = [problem for _, problem in sorted(ranked, key=lambda pair: pair[0])]
    shown: Found = {
        name: [{key: one[key] for key in ("plan", "schedule")} for one in candidates[name]["candidates"]]
        for name in texts
    }
    config = VerifierConfig(backend=BackendType(options.backend))
    for problem_name, judged in judge_all(problems, config, options.cores, 60 * options.minutes):
        name, rank = problem_name.split("#")
        shown[name][int(rank)].update(describe(judged))
        note(shown)
    return shown


def best_of(candidates: Sequence[Found]) -> Found | None:
    """The fastest accepted candidate."""
    timed = [one for one in candidates if one.get("outcome") == "accepted" and one.get("speedup")]
    return max(timed, key=lambda one: float(one["speedup"]), default=None)


def summarise(groups: Sequence[Group], judged: Found) -> list[Row]:
    """A row for each group with a promise or a reference that was timed; one that was not breaks its promise."""
    lines: list[Row] = []
    for group in groups:
        best = {name: best_of(judged.get(name, [])) for name in group.texts}
        speedups = [float(one["speedup"]) if one else 0.0 for one in best.values()]
        shown = ", ".join(f"{name} {speedup:.2f}" for name, speedup in zip(best, speedups, strict=True))
        least = min(speedups)
        if group.mean:
            least = statistics.geometric_mean(speedups) if least else 0.0
            shown = f"{least:.2f} ({shown})"
        kept = group.promise is None or least >= group.promise
        lines.append((group.name, f">= {group.promise:g}" if group.promise else "", shown, kept))
    all_of_them = [one for candidates in judged.values() for one in candidates]
    for outcome in ("rejected", "undecided"):
        bad = sum(one.get("outcome") == outcome for one in all_of_them)
        lines.append((f"candidates {outcome}", "0", str(bad), not bad))
    late = sum("outcome" not in one for one in all_of_them)
    lines.append(("candidates not judged in time", "", f"{late} of {len(all_of_them)}", True))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=Path, help="a file to keep candidates in, or to read them from")
    parser.add_argument("--only-candidates", action="store_true", help="write them, and judge nothing")
    parser.add_argument("--only", default="", help="references and groups whose names contain this")
    parser.add_argument("--plans", type=int, default=6, help="candidates of a reference at most")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    groups = read_groups()
    texts = {
        name: text
        for one in groups
        for name, text in one.texts.items()
        if options.only in name or options.only in one.name
    }
    start = time.monotonic()
    candidates = find_candidates(texts, options.cores, options.candidates)
    written = time.monotonic() - start
    count = sum(len(candidates[name]["candidates"]) for name in texts)
    missing = {name: candidates[name]["why"] for name in texts if not candidates[name]["candidates"]}
    print(f"{count} candidates of {len(texts)} references after {written:.0f} s; none: {missing}", flush=True)
    if options.only_candidates:
        return 0

    def note(judged: Found) -> None:
        """Keep what there is: the run may be cut off."""
        if options.output is not None:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.with_name(f"{options.output.stem}_partial.json").write_text(json.dumps(judged, indent=1))

    judged = judge(texts, candidates, options, note)
    asked = [
        Group(g.name, own, g.promise, g.mean)
        for g in groups
        if (own := {n: t for n, t in g.texts.items() if n in texts})
    ]
    lines = summarise(asked, judged)
    details = {"seconds_for_candidates": written, "seconds": time.monotonic() - start, "no_candidate": missing}
    report("schedules against eager", lines, {**details, "references": judged}, options.output)
    return end(lines)


if __name__ == "__main__":
    raise SystemExit(main())
