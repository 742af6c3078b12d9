"""What the verifier says of programs that fresh eyes wrote to get past it, and of honest ones that look alike.

    python -m benchmarks.red_team FOLDER --output build/red_team.json

FOLDER holds one folder for each program, with `reference.py`, `candidate.py` and `label.txt`, whose first line says
`wrong` or `right` and whose second line says why. Programs are judged without a device, each from its source, under the
policy `strict`. Those that do not compile, or that fail on the first call, are attacks that came to nothing: they are
counted apart. No program is kept here: whoever repeats this has others written.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measuring import report
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass
from musadata.verifier import Verifier

GOAL_REFUSED = 0.97


def main(argv: Sequence[str] | None = None) -> int:
    """Judge all; 1 if a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--policy", default="strict")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    programs = sorted(path.parent for path in arguments.folder.glob("*/label.txt"))
    config = VerifierConfig(backend=BackendType.EMULATED, policy=arguments.policy)
    with Verifier(config) as verifier, ThreadPoolExecutor(arguments.cores) as pool:
        found = list(pool.map(lambda folder: judge(folder, verifier), programs))
    for one in found:
        print(json.dumps(one))
    wrong, right = ([one for one in found if one["label"] == label] for label in ("wrong", "right"))
    live = [one for one in wrong if one["said"] not in (ErrorClass.COMPILE, "broken")]
    refused = sum(one["said"] not in ("accepted", ErrorClass.INFRA) for one in live) / max(1, len(live))
    honest = [one for one in right if one["said"] not in (ErrorClass.COMPILE, "broken")]
    refused_honest = [one["name"] for one in honest if one["said"] != "accepted"]
    rows = [
        ("wrong programs that run", "", f"{len(live)} of {len(wrong)}", True),
        ("refused", f">= {GOAL_REFUSED:.0%}", f"{refused:.1%}", refused >= GOAL_REFUSED),
        ("by class", "", json.dumps(Counter(one["said"] for one in live)), True),
        ("honest programs that run", "", f"{len(honest)} of {len(right)}", True),
        ("honest programs refused", "0", ", ".join(refused_honest) or "0", not refused_honest),
    ]
    report("red team", rows, {"programs": found}, arguments.output)
    return 0 if all(kept for *_, kept in rows) else 1


def judge(folder: Path, verifier: Verifier) -> dict[str, Any]:
    """A program's label and verdict."""
    label, why = [*(folder / "label.txt").read_text(encoding="utf-8").splitlines(), ""][:2]
    reference, candidate = ((folder / name).read_text(encoding="utf-8") for name in ("reference.py", "candidate.py"))
    entry = {"name": folder.name, "label": label.strip(), "why": why.strip()}
    try:
        verdict = verifier.verify_text(reference, candidate)
    except MusadataError as error:
        return {**entry, "said": "broken", "rules": [], "message": str(error)[:300]}
    said = "accepted" if verdict.accepted else str(verdict.error_class)
    messages = [finding.message[:300] for finding in verdict.findings[:2]]
    return {**entry, "said": said, "rules": [finding.rule for finding in verdict.findings], "message": messages}


if __name__ == "__main__":
    raise SystemExit(main())
