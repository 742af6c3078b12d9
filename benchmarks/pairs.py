"""Precision and recall of the links from Python wrappers to CUDA kernels, on a sample labelled by reading.

    python -m benchmarks.pairs open-mmlab/mmcv=PATH NVIDIA/apex=PATH …

`pairs_labels.jsonl` holds one line a link, labelled by one reader from the chain of names, and from the code where a
name left doubt: `right` says that every kernel named is launched by that binding, `wrong` that one is not, `missed`
that the binding is used from Python and launches kernels of its repository, yet was not linked when it was drawn.
The sample is random, at most 35 links a repository; of long lists of kernels only the first few were read and kept.
Clones must hold the labelled revision; what no label speaks of is counted as unlabelled, never as right.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measuring import report
from musadata.mining.kernels.pairs import Pair, find_pairs
from musadata.sources.git import GitTree

LABELS = Path(__file__).with_name("pairs_labels.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", help="OWNER/NAME=PATH of a clone")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/pairs.json"))
    options = parser.parse_args()
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    totals: Counter[str] = Counter()
    details: dict[str, Any] = {}
    for name, path in (item.split("=", 1) for item in options.repositories):
        known = [label for label in labels if label["repository"] == name]
        counts = judge(find_pairs(GitTree(Path(path), known[0]["revision"])), known)
        details[name] = dict(counts)
        totals.update(counts)
    judged = totals["right"] + totals["wrong"]
    precision = totals["right"] / max(1, judged)
    recall = totals["reached"] / max(1, totals["reached"] + totals["lost"])
    rows = [
        ("labelled links from how many repositories", "≥ 100 from ≥ 5", f"{judged} from {len(details)}", judged >= 100),
        ("precision", "", f"{precision:.3f}", True),
        ("recall, over bindings used from Python", "", f"{recall:.3f}", True),
    ]
    report("pairs", rows, {"repositories": details, "totals": dict(totals)}, options.output)


def judge(pairs: list[Pair], labels: list[dict[str, Any]]) -> Counter[str]:
    """Counts of right, wrong and unlabelled links, and of bindings with kernels that were reached or lost."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for pair in pairs:
        found.setdefault((pair.wrapper, pair.extension, pair.binding), set()).update(pair.kernels)
    counts: Counter[str] = Counter()
    for label in labels:
        kernels = found.get((label["wrapper"], label["extension"], label["binding"]))
        if kernels is not None:
            counts["right" if label["label"] == "right" and set(label["kernels"]) <= kernels else "wrong"] += 1
    bindings = {(extension, binding) for _, extension, binding in found}
    expected = {(label["extension"], label["binding"]) for label in labels if label["label"] != "wrong"}
    counts["reached"] = len(bindings | {item for item in expected if item in bindings})
    counts["lost"] = len(expected - bindings)
    counts["unlabelled"] = len(pairs) - counts["right"] - counts["wrong"]
    return counts


if __name__ == "__main__":
    main()
