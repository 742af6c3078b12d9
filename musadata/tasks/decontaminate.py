"""Keeping benchmarks out: does a reference match a task of a benchmark, by its graph or by its text?

A fingerprint set is a JSON file of hashes, one entry per benchmark task; the benchmark's code is not in it.
`python -m musadata.tasks.fingerprints` makes one from a checkout.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from musadata.errors import MusadataError
from musadata.tasks.text import shingle_hashes

FOLDER = Path(__file__).parent / "fingerprints"
NGRAM = 10  # tokens; long enough that two authors rarely write the same by chance
MIN_SHARED = 6  # n-grams: ten tasks of KernelBench have one to five of their own, which a convolution alone may repeat
CONTAINED = 0.6  # share of a benchmark task's n-grams that a copy of it still holds after edits


@dataclass(frozen=True)
class FingerprintSet:
    """Hashes of a benchmark's tasks.

    Attributes:
        name: of the benchmark.
        graphs: graph fingerprint -> the benchmark's name for the task.
        ngrams: per task its name and the hashes of its n-grams, those that are common in the benchmark left out.
    """

    name: str
    graphs: dict[str, str]
    ngrams: tuple[tuple[str, frozenset[str]], ...]

    @cached_property
    def holders(self) -> dict[str, list[int]]:
        """N-gram -> the tasks that hold it, by position."""
        found: dict[str, list[int]] = defaultdict(list)
        for task, (_, hashes) in enumerate(self.ngrams):
            for one in hashes:
                found[one].append(task)
        return dict(found)


def contamination(reference: str, graph_fingerprint: str, sets: Sequence[str]) -> str:
    """The benchmark task that a reference matches, such as "kernelbench/level1/19_ReLU"; empty if there is none.

    An equal graph is a match whatever the text and the shapes are: a mined `nn.ReLU` is KernelBench's ReLU. A text is a
    match if it holds most of a benchmark task's n-grams, even where the reference cannot be traced alike.
    """
    for name in sets:
        fingerprints = load_fingerprints(name)
        if graph_fingerprint in fingerprints.graphs:
            return f"{fingerprints.name}/{fingerprints.graphs[graph_fingerprint]}"
        task = match_text(reference, fingerprints)
        if task:
            return f"{fingerprints.name}/{task}"
    return ""


def match_text(reference: str, fingerprints: FingerprintSet) -> str:
    """The benchmark task of which the reference holds most n-grams; empty if there is none."""
    shared: dict[int, int] = defaultdict(int)
    for one in shingle_hashes(reference, NGRAM):
        for task in fingerprints.holders.get(one, ()):
            shared[task] += 1
    enough = {task: count for task, count in shared.items() if count >= MIN_SHARED}
    shares = [(count / len(fingerprints.ngrams[task][1]), -task) for task, count in enough.items()]
    share, task = max(shares, default=(0.0, 0))
    return fingerprints.ngrams[-task][0] if share >= CONTAINED else ""


@cache
def load_fingerprints(name: str) -> FingerprintSet:
    """A set by its name in `musadata/tasks/fingerprints/`, or by the path of its file.

    Raises:
        MusadataError: there is no such set, or the file is not one.
    """
    path = Path(name) if name.endswith(".json") else FOLDER / f"{name}.json"
    shipped = ", ".join(sorted(file.stem for file in FOLDER.glob("*.json"))) or "none"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        tasks = data["tasks"]
        return FingerprintSet(
            name=data["benchmark"],
            graphs={graph: task["name"] for task in reversed(tasks) for graph in task["graphs"]},
            ngrams=tuple((task["name"], frozenset(task["ngrams"])) for task in tasks if task["ngrams"]),
        )
    except FileNotFoundError as error:
        raise MusadataError(
            "there is no such fingerprint set", where=f"tasks.decontaminate: {name}", remedy=f"shipped: {shipped}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MusadataError(
            "is not a fingerprint set", where=str(path), remedy="make it with python -m musadata.tasks.fingerprints"
        ) from error
