"""Licences that files are said to have, on files labelled by reading their headers and their repositories' licences.

    python -m benchmarks.licenses NVIDIAGameWorks/kaolin=PATH open-mmlab/mmcv=PATH …

`licenses_labels.jsonl` holds one line a file: repository, revision, path, SHA-256 of the content, label, and the reason
in a few words. `permissive`: everything that speaks of the file is a permissive licence. `restricted`: some text limits
its use, or asks for the licence of a work made from it (GPL, non-commercial, no copying). `unclear`: no licence can be
told. The files are drawn so that all kinds of headers of a repository appear, which makes odd ones far more frequent
than they are. A file whose content is another one is an error. No contents are kept here.
"""

import argparse
import json
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.measuring import report
from musadata.config import SourceConfig, SourceType, TasksConfig
from musadata.sources.git import open_git
from musadata.sources.licenses import is_allowed

LABELS = Path(__file__).with_name("licenses_labels.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", help="OWNER/NAME=PATH of a clone")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/licenses.json"))
    options = parser.parse_args()
    labels = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    counts: Counter[str] = Counter()
    wrong: list[dict[str, Any]] = []
    names = dict(item.split("=", 1) for item in options.repositories)
    for name, path in names.items():
        for label in judge(path, [item for item in labels if item["repository"] == name]):
            counts[f"{label['label']} called {'permissive' if label['permissive'] else 'not permissive'}"] += 1
            if label["permissive"] is not (label["label"] == "permissive"):
                wrong.append(label)
    judged = sum(counts.values())
    repositories = len({item["repository"] for item in labels if item["repository"] in names})
    taken = counts["restricted called permissive"] + counts["unclear called permissive"]
    known = counts["permissive called permissive"], counts["permissive called not permissive"]
    report(
        "licenses",
        [
            (
                "labelled files",
                "≥ 200 from ≥ 10",
                f"{judged} from {repositories}",
                judged >= 200 and repositories >= 10,
            ),
            ("restricted or unclear files called permissive", "0", str(taken), taken == 0),
            ("permissive files called permissive", "", f"{known[0]} of {sum(known)}", True),
        ],
        {"counts": dict(counts), "wrong": wrong},
        options.output,
    )


def judge(path: str, labels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The labels of one repository with `license` and `permissive`, what a row of this file would say.

    Raises:
        SystemExit: the clone holds another revision or another content.
    """
    source = open_git(SourceConfig(SourceType.GIT, url=path, revision=labels[0]["revision"] if labels else ""), seed=1)
    found = []
    for label in labels:
        if sha256(source.tree.read(label["path"])).hexdigest() != label["sha256"]:
            raise SystemExit(f"benchmark: {path} holds another {label['path']} than the labelled one")
        license = source.provenance(label["path"], "").license
        found.append({**label, "license": license, "permissive": is_allowed(license, TasksConfig().licenses)})
    return found


if __name__ == "__main__":
    main()
