"""Precision and recall of the links from Python wrappers to CUDA kernels, on a sample labelled by reading.

    python -m benchmarks.pairs open-mmlab/mmcv=PATH NVIDIA/apex=PATH …

`pairs_labels.jsonl` holds one line a link, labelled by one reader from the chain of names, and from the code where a
name left doubt: `right` says that every kernel named is launched by that binding, `wrong` that one is not, `missed`
that the binding is used from Python and launches kernels of its repository, yet was not linked when it was drawn.
Labels with a `path` hold every link of their repository that was read, found or not: from the bindings, the launches
and the uses in Python, before anything was linked. `complete`: all its kernels are named, so that one more is wrong.
The others are random, at most 35 links a repository; of long lists of kernels only the first few were read and kept.
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
        (
            "labelled links from how many repositories",
            "≥ 200 from ≥ 10",
            f"{judged} from {len(details)}",
            judged >= 200,
        ),
        ("precision", "≥ 0.99", f"{precision:.3f}", precision >= 0.99),
        ("recall, over links and bindings used from Python", "≥ 0.92", f"{recall:.3f}", recall >= 0.92),
    ]
    report("pairs", rows, {"repositories": details, "totals": dict(totals)}, options.output)


def judge(pairs: list[Pair], labels: list[dict[str, Any]]) -> Counter[str]:
    """Counts of right, wrong and unlabelled links, and of links or bindings with kernels that were reached or lost."""
    counts = _judge_read(pairs, labels) if "path" in labels[0] else _judge_sampled(pairs, labels)
    counts["unlabelled"] = len(pairs) - counts["right"] - counts["wrong"]
    return counts


def _judge_read(pairs: list[Pair], labels: list[dict[str, Any]]) -> Counter[str]:
    """Against all links of a repository."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for pair in pairs:
        place = pair.wrapper_place.rpartition(":")[0]
        found.setdefault((place, pair.wrapper, pair.binding), set()).update(pair.kernels)
    counts: Counter[str] = Counter()
    for label in labels:
        kernels, expected = found.get((label["path"], label["wrapper"], label["binding"])), set(label["kernels"])
        if kernels is None:
            counts["lost"] += 1
        else:
            counts["reached"] += 1
            counts["right" if kernels == expected or (expected < kernels and not label["complete"]) else "wrong"] += 1
    return counts


def _judge_sampled(pairs: list[Pair], labels: list[dict[str, Any]]) -> Counter[str]:
    """Against a sample of the links."""
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
    return counts


if __name__ == "__main__":
    main()
