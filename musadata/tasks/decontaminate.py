"""Decontamination: does a reference match a task of a benchmark, by its graph, its results or its text?

A fingerprint set is a JSON file of hashes, one entry per benchmark task; the benchmark's code is not in it.
`python -m musadata.tasks.fingerprints` makes one from a checkout.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.tasks.text import shingle_hashes

FOLDER = Path(__file__).parent / "fingerprints"
NGRAM = 10  # tokens; long enough that two authors rarely write the same by chance
COMMON = 5  # tasks of a benchmark; an n-gram in this many of them does not identify one
MIN_SHARED = 6  # n-grams: ten tasks of KernelBench have one to five of their own, which a convolution alone may repeat
CONTAINED = 0.6  # share of a task's n-grams that a copy of it still holds after edits
TELLING = 40  # shared n-grams of one task that are no coincidence, whatever the surrounding text


@dataclass(frozen=True)
class BenchmarkText:
    """A benchmark task's text as hashes of its n-grams.

    Attributes:
        own: those that few other tasks of the benchmark have, or all where it has none of its own.
        traced: whether the set knows the task's graph too.
    """

    name: str
    ngrams: frozenset[str]
    own: frozenset[str]
    traced: bool


@dataclass(frozen=True)
class FingerprintSet:
    """Hashes of a benchmark's tasks.

    Attributes:
        name: of the benchmark.
        graphs: graph fingerprint -> the benchmark's name for the task.
        results: hash of results -> the benchmark's name for the task, see `fingerprints.results`.
    """

    name: str
    graphs: dict[str, str]
    results: dict[str, str]
    texts: tuple[BenchmarkText, ...]

    @cached_property
    def holders(self) -> dict[str, list[int]]:
        """N-gram -> the tasks whose own it is, by position."""
        found: dict[str, list[int]] = defaultdict(list)
        for task, text in enumerate(self.texts):
            for one in text.own:
                found[one].append(task)
        return dict(found)


def contamination(reference: str, graph_fingerprint: str, results: Sequence[str], sets: Sequence[str]) -> str:
    """The benchmark task that a reference matches, such as "kernelbench/level1/19_ReLU"; empty if there is none.

    An equal graph is a match whatever the text and the shapes are: a mined `nn.ReLU` is KernelBench's ReLU. So are
    equal results, as of a layer norm that is written out. A text that says what a benchmark task says is a match even
    where the graph differs (see `match_text`).
    """
    for name in sets:
        fingerprints = load_fingerprints(name)
        if graph_fingerprint in fingerprints.graphs:
            return f"{fingerprints.name}/{fingerprints.graphs[graph_fingerprint]}"
        for one in results:
            if one in fingerprints.results:
                return f"{fingerprints.name}/{fingerprints.results[one]}"
        task = match_text(reference, fingerprints, traced=bool(graph_fingerprint))
        if task:
            return f"{fingerprints.name}/{task}"
    return ""


def match_text(reference: str, fingerprints: FingerprintSet, traced: bool = True) -> str:
    """The benchmark task that the reference is a copy of, going by most n-grams; empty if there is none.

    A copy holds most of the task's own n-grams. Where both graphs are known and only a few n-grams are shared, most of
    the copy must be in the task as well: a longer module that ends in somebody's one line is another module.
    """
    hashes = shingle_hashes(reference, NGRAM)
    shared: Counter[int] = Counter(task for one in hashes for task in fingerprints.holders.get(one, ()))
    best, found = 0.0, ""
    for task, count in sorted(shared.items()):
        text = fingerprints.texts[task]
        share = count / len(text.own)
        if count < MIN_SHARED or share < CONTAINED or share <= best:
            continue
        convincing = count >= TELLING or not (traced and text.traced)
        if convincing or len(hashes & text.ngrams) >= CONTAINED * len(hashes):
            best, found = share, text.name
    return found


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
            results={one: task["name"] for task in reversed(tasks) for one in task.get("results", ())},
            texts=_read_texts(tasks),
        )
    except FileNotFoundError as error:
        raise MusadataError(
            "there is no such fingerprint set", where=f"tasks.decontaminate: {name}", remedy=f"shipped: {shipped}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MusadataError(
            "is not a fingerprint set", where=str(path), remedy="make it with python -m musadata.tasks.fingerprints"
        ) from error


def _read_texts(tasks: Sequence[dict[str, Any]]) -> tuple[BenchmarkText, ...]:
    frequency = Counter(one for task in tasks for one in task["ngrams"])
    texts = []
    for task in tasks:
        ngrams = frozenset(task["ngrams"])
        own = frozenset(one for one in ngrams if frequency[one] < COMMON) or ngrams
        texts.append(BenchmarkText(task["name"], ngrams, own, traced=bool(task["graphs"])))
    return tuple(texts)
