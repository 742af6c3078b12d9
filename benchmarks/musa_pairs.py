"""How many of the kernels that a repository holds for CUDA and for MUSA are found as pairs.

    python -m benchmarks.musa_pairs open-mmlab/mmcv=PATH InfiniTensor/InfiniCore=PATH

`musa_pairs_labels.jsonl` holds one line for each MUSA kernel that is not paired, labelled by reading: `cuda` names its
counterpart, "" if the repository has none. What is neither paired nor labelled is counted as lost.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.measuring import report
from musadata.mining.kernels.musa_pairs import MusaPairs
from musadata.mining.kernels.repository import Repository, is_musa
from musadata.sources.git import GitTree

LABELS = Path(__file__).with_name("musa_pairs_labels.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", help="OWNER/NAME=PATH of a clone")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/musa_pairs.json"))
    options = parser.parse_args()
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    details: dict[str, Any] = {}
    for name, path in (item.split("=", 1) for item in options.repositories):
        details[name] = count(Path(path), [label for label in labels if label["repository"] == name])
    paired, lost = (sum(item[key] for item in details.values()) for key in ("paired", "lost"))
    share = paired / max(1, paired + lost)
    rows = [
        (
            "kernels for MUSA in repositories that have both",
            "",
            str(sum(item["musa"] for item in details.values())),
            True,
        ),
        ("pairs, of the kernels that exist for both", "≥ 90 %", f"{share:.1%} of {paired + lost}", share >= 0.9),
    ]
    report("musa pairs", rows, {"repositories": details}, options.output)


def count(path: Path, labels: list[dict[str, str]]) -> dict[str, Any]:
    """What becomes of a repository's MUSA kernels."""
    revision = labels[0]["revision"] if labels else "HEAD"
    repository = Repository(GitTree(path, revision))
    functions = [function for file in repository.native.values() for function in file.functions]
    musa = {(item.path, item.name) for item in functions if item.is_kernel and is_musa(item.path)}
    pairs = MusaPairs(repository).by_kernel.values()
    paired = {(kernel.path, kernel.name) for pair in pairs for kernel in pair.musa}
    alone = {(label["path"], label["name"]) for label in labels if not label["cuda"]}
    return {"revision": revision, "musa": len(musa), "paired": len(paired), "lost": len(musa - paired - alone)}


if __name__ == "__main__":
    main()
