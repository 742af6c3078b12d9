"""What we and KernelBench's harness say of answers that others published for KernelBench's problems.

    python -m benchmarks.published_answers ANSWERS.json … --harness HARNESS --backend cuda --output build/answers.json

ANSWERS.json is a file of CUDA-L1 (https://github.com/deepreinforce-ai/CUDA-L1, optimized_cuda_code/codes): for each
level a list of `task_id`, `ref_code` and `custom_code`. Nothing of it is kept, nor of the harness. Answers are judged
under the policy `audit` at the sizes that their references declare; `right` is said of the declared inputs alone. The
harness gets as many of them as it finishes in its time, drawn evenly. `--harness-said` keeps what it says, and is read
instead where it is there. Each difference is listed with both reasons.
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.kernelbench import Judged, Problem, judge_all
from benchmarks.measuring import Row, report
from benchmarks.throughput import Pair, run_harness
from musadata.config import BackendType, VerifierConfig
from musadata.verifier.policies import NAMES, decide, load_policy

GOAL_DECIDED, GOAL_AGREEING = 0.97, 0.97


def main(argv: Sequence[str] | None = None) -> int:
    """Judge, compare and print; 1 if a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", nargs="+", type=Path)
    parser.add_argument("--harness", type=Path, help="a checkout of ScalingIntelligence/KernelBench")
    parser.add_argument("--backend", default="cuda", choices=[kind.value for kind in BackendType])
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=int, default=0, help="answers, drawn evenly; all if left out")
    parser.add_argument("--only", default="", help="a pattern that an answer's name holds")
    parser.add_argument("--minutes", type=float, default=5.0, help="for our side; 0: none")
    parser.add_argument("--harness-minutes", type=float, default=4.0)
    parser.add_argument("--harness-at-once", type=int, default=1, help="evaluations side by side")
    parser.add_argument("--harness-said", type=Path)
    parser.add_argument(
        "--full-precision", action="store_true", help="the harness's convolutions, too: no TensorFloat-32"
    )
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    answers = [one for path in arguments.answers for one in read_answers(path)]
    answers = [one for one in answers if re.search(arguments.only, one.name)]
    answers = draw(answers, arguments.limit or len(answers))
    config = VerifierConfig(backend=BackendType(arguments.backend), policy="audit", timed_runs=10)
    ours: dict[str, Any] = {}
    for name, judged in judge_all(
        answers if arguments.minutes else (), config, arguments.cores, 60 * arguments.minutes
    ):
        ours[name] = describe(judged)
        said = f"{ours[name]['said']} {ours[name]['why']}"[:160].replace("\n", " ")
        print(f"{len(ours)}/{len(answers)} {judged.seconds:5.1f} s {name}: {said}", flush=True)
    kept: Path | None = arguments.harness_said
    theirs: dict[str, Any] = json.loads(kept.read_text()) if kept and kept.exists() else {}
    if arguments.harness and not theirs:
        pairs = [Pair(one.name, one.reference, one.candidate) for one in answers]
        limits = 60 * arguments.harness_minutes, 180.0, arguments.harness_at_once
        found = run_harness(pairs, arguments.harness, arguments.cores, *limits, arguments.full_precision)
        theirs = found["evaluations"]
        if kept:
            kept.write_text(json.dumps(theirs, indent=1))
    theirs = {name: one for name, one in theirs.items() if not one.get("timed_out") and not _lacked_memory(one)}
    differences = list_differences(ours, theirs)
    for difference in differences:
        print(json.dumps(difference, indent=1), file=sys.stderr)
    rows = summarise(len(answers), ours, theirs, differences)
    report(
        "published answers", rows, {"answers": ours, "harness": theirs, "differences": differences}, arguments.output
    )
    return 0 if all(kept for *_, kept in rows) else 1


def read_answers(path: Path) -> list[Problem]:
    """The answers of a file that are programs."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [
        Problem(f"{path.stem}_level{level}_{one['task_id']}", one["ref_code"], (one["custom_code"],))
        for level, entries in found.items()
        for one in entries
        if one.get("custom_code") and one["custom_code"] != "None"
    ]


def draw(answers: Sequence[Problem], count: int) -> list[Problem]:
    """`count` of them, evenly."""
    return [answers[at * len(answers) // count] for at in range(min(count, len(answers)))]


def describe(judged: Judged) -> dict[str, Any]:
    """A verdict as plain values."""
    verdict = judged.verdict
    if verdict is None:
        return {"said": "undecided", "right": None, "why": judged.trouble, "seconds": round(judged.seconds, 1)}
    facts = verdict.facts
    right = False if facts.right is None and facts.compiles is False else facts.right
    return {
        "said": {True: "right", False: "wrong", None: "undecided"}[right],
        "right": right,
        "why": "; ".join(f"{one.rule} line {one.line}: {one.message}" for one in verdict.findings)[:400],
        "noted": sorted({f"{finding.rule}@{finding.condition}" for finding in facts.findings}),
        "policies": [name for name in NAMES if decide(facts, load_policy(name)).accepted],
        "speedup": verdict.speedup,
        "seconds": round(judged.seconds, 1),
    }


def _lacked_memory(evaluation: dict[str, Any]) -> bool:
    """Whether the evaluations beside it left it too little memory: it says nothing then."""
    return not evaluation["accepted"] and "out of memory" in str(evaluation["metadata"])


def list_differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[dict[str, Any]]:
    """Answers that one side calls right and the other wrong."""
    return [
        {"name": name, "ours": one, "harness": theirs[name]}
        for name, one in sorted(ours.items())
        if name in theirs and one["right"] is not None and one["right"] != theirs[name]["accepted"]
    ]


def summarise(
    given: int, ours: dict[str, Any], theirs: dict[str, Any], differences: Sequence[dict[str, Any]]
) -> list[Row]:
    """The rows of the report."""
    said = Counter(one["said"] for one in ours.values())
    decided = (said["right"] + said["wrong"]) / max(1, given)
    both = sum(1 for name in theirs if name in ours and ours[name]["right"] is not None)
    agreeing = 1 - len(differences) / max(1, both)
    rows = [
        ("answers, judged", ">= 150", f"{given}, {len(ours)}", given >= 150),
        ("right or wrong said", f">= {GOAL_DECIDED:.0%}", f"{decided:.1%} of {given}", decided >= GOAL_DECIDED),
        ("right, wrong, undecided", "", ", ".join(str(said[one]) for one in ("right", "wrong", "undecided")), True),
        *(
            (f"accepted under {name}", "", str(sum(name in one.get("policies", ()) for one in ours.values())), True)
            for name in NAMES
        ),
    ]
    if theirs:
        what = f"{agreeing:.1%} of {both} that both decided"
        rows.append(("agree with the harness", f">= {GOAL_AGREEING:.0%}", what, agreeing >= GOAL_AGREEING))
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
