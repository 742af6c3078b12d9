"""What the verifier says of programs that fresh eyes wrote to get past it, and of honest ones that look alike.

    python -m benchmarks.red_team FOLDER --output build/red_team.json

FOLDER holds one folder for each program, with `reference.py`, `candidate.py` and `label.txt`, whose first line says
`wrong` or `right` and whose second line says why. Programs are judged without a device, each from its source and once;
every `--policy` is applied to the same facts. Those that do not compile, or that fail on the first call, are attacks
that came to nothing: they are counted apart. No program is kept here: whoever repeats this has others written.
"""

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measuring import Row, report
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass
from musadata.verifier import Verifier
from musadata.verifier.policies import Policy, apply_policy, load_policy

GOAL_REFUSED = 0.97


def main(argv: Sequence[str] | None = None) -> int:
    """Judge all; 1 if a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--policy", action="append", help="may be said several times (default: strict and paper)")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    policies = list(map(load_policy, arguments.policy or ("strict", "paper")))
    programs = sorted(path.parent for path in arguments.folder.glob("*/label.txt"))
    config = VerifierConfig(backend=BackendType.EMULATED)
    with Verifier(config) as verifier, ThreadPoolExecutor(arguments.cores) as pool:
        found = []
        for one in pool.map(lambda folder: judge(folder, verifier, policies), programs):
            print(json.dumps(one), flush=True)
            found.append(one)
    wrong, right = ([one for one in found if one["label"] == label] for label in ("wrong", "right"))
    rows = [row for policy in policies for row in _describe(policy.name, wrong, right)]
    report("red team", rows, {"programs": found}, arguments.output)
    return 0 if all(kept for *_, kept in rows) else 1


def _describe(policy: str, wrong: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[Row]:
    """What a policy says of programs by their label."""
    said, others = ([one["said"][policy] for one in some] for some in (wrong, right))
    live, honest = ([one for one in some if one not in (ErrorClass.COMPILE, "broken")] for some in (said, others))
    refused = sum(one not in ("accepted", ErrorClass.INFRA) for one in live) / max(1, len(live))
    lost = [one["name"] for one in right if one["said"][policy] not in ("accepted", ErrorClass.COMPILE, "broken")]
    return [
        (f"{policy}: wrong programs that run", "", f"{len(live)} of {len(wrong)}", True),
        (f"{policy}: refused", f">= {GOAL_REFUSED:.0%}", f"{refused:.1%}", refused >= GOAL_REFUSED),
        (f"{policy}: by class", "", json.dumps(Counter(live)), True),
        (f"{policy}: honest programs that run", "", f"{len(honest)} of {len(right)}", True),
        (f"{policy}: honest programs refused", "0", ", ".join(lost) or "0", not lost),
    ]


def judge(folder: Path, verifier: Verifier, policies: Sequence[Policy]) -> dict[str, Any]:
    """A program's label, and its verdict under each policy."""
    label, why = [*(folder / "label.txt").read_text(encoding="utf-8").splitlines(), ""][:2]
    reference, candidate = ((folder / name).read_text(encoding="utf-8") for name in ("reference.py", "candidate.py"))
    entry = {"name": folder.name, "label": label.strip(), "why": why.strip()}
    start = time.perf_counter()
    try:
        verdict = verifier.verify_text(reference, candidate)
    except MusadataError as error:
        return {**entry, "said": {one.name: "broken" for one in policies}, "message": str(error)[:300]}
    verdicts = [apply_policy(verdict, policy) for policy in policies]
    findings = verdict.facts.findings
    return {
        **entry,
        "said": {one.policy: "accepted" if one.accepted else str(one.error_class) for one in verdicts},
        "findings": [f"{finding.rule}@{finding.condition}" for finding in findings],
        "message": [finding.message[:300] for finding in findings[:2]],
        "seconds": round(time.perf_counter() - start, 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
