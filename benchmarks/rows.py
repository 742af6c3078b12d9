"""How much rows differ: answers of a pair, turns of a conversation, its outcomes, and the sentences of each family.

    python -m benchmarks.rows CORPUS [--show] [--output FILE]

The distance of two programs is the share of their lines, blank ones aside, that the other one does not have in their
place. Outcomes are those of conversations with more than one answer. The last rows are about words: how much of the
prose of each family of `sft`, in words, the most frequent sentences are, with names and figures left out. Code and
tables are no prose.
"""

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from statistics import median

import yaml

from benchmarks.measuring import Row, report
from benchmarks.unit_tests import read
from musadata.records import Candidate, Trajectory
from musadata.training_rows import PreferenceRow, SftRow

MOST_FREQUENT = 50
FAR = 0.3
_VARYING = re.compile(r"`[^`]*`|\*\*[^*]*\*\*|\d[\d.,]*(?:e[+-]?\d+)?|\([^()]*\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)


def sentences_of(text: str) -> list[str]:
    """The sentences of a text without its code and tables, with a mark for each name and figure."""
    lines = [line.strip("- *") for line in _CODE.sub("", text).splitlines() if line and line[0] not in "#|"]
    plain = (_VARYING.sub("_", line) for line in lines)
    return [part.strip() for line in plain for part in re.split(r"(?<=[.!?;:])\s", line) if len(part.split()) > 2]


def distance(one: str, other: str) -> float:
    """Of two programs, 0 to 1."""
    left, right = ([line.strip() for line in text.splitlines() if line.strip()] for text in (one, other))
    return 1 - SequenceMatcher(a=left, b=right, autojunk=False).ratio()


def rows_of_pairs(distances: Sequence[float]) -> list[Row]:
    middle = _median(distances)
    what = "distance of chosen and rejected, median"
    return [(what, ">= 20 %", f"{middle:.1%} of {len(distances)}", middle >= 0.2)]


def rows_of_turns(distances: Sequence[float]) -> list[Row]:
    middle, share = _median(distances), sum(one > FAR for one in distances) / max(1, len(distances))
    return [
        ("distance of neighbouring turns, median", ">= 10 %", f"{middle:.1%} of {len(distances)}", middle >= 0.1),
        (f"neighbouring turns above {FAR:.0%}", ">= a third", f"{share:.1%}", share >= 1 / 3),
    ]


def _median(values: Sequence[float]) -> float:
    return median(values) if values else 0.0


def rows_of_outcomes(trajectories: Sequence[Trajectory]) -> list[Row]:
    held = [one for one in trajectories if len(one.candidates) > 1]
    failed, two = sum(not one.success for one in held), sum(one.success and len(one.candidates) > 2 for one in held)

    def row(what: str, least: float, number: int) -> Row:
        share = number / max(1, len(held))
        return what, f">= {least:.0%}", f"{share:.1%} of {len(held)}", share >= least

    return [row("conversations that fail", 0.1, failed), row("conversations that need two repairs", 0.2, two)]


def row_of_family(family: str, words: Counter[str]) -> Row:
    total, common = words.total(), words.most_common(MOST_FREQUENT)
    share = sum(number for _, number in common) / max(1, total)
    what = f"share of the {MOST_FREQUENT} most frequent sentences in the words of {family}"
    return what, "<= 25 %", f"{share:.1%} of {total}", share <= 0.25


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--show", action="store_true", help="print the most frequent sentences of each family")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    corpus = arguments.corpus
    sources = {one.candidate_id: one.source for one in read(corpus, "candidates", Candidate)}
    trajectories = list(read(corpus, "trajectories", Trajectory))
    pairs = [(one.chosen_id, one.rejected_id) for one in read(corpus, "preferences", PreferenceRow)]
    turns = [pair for one in trajectories for pair in pairwise(one.candidates)]
    words: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in read(corpus, "sft", SftRow):
        for sentence in sentences_of(row.completion[-1].content):
            words[row.family][sentence] += len(sentence.split())
    rows = [
        *rows_of_pairs(list(_distances(pairs, sources))),
        *rows_of_turns(list(_distances(turns, sources))),
        *rows_of_outcomes(trajectories),
        *(row_of_family(*one) for one in sorted(words.items())),
    ]
    details = {
        "outcomes": dict(Counter(", ".join(one.outcomes) for one in trajectories if len(one.candidates) > 1)),
        "sentences": {family: dict(counted.most_common(10)) for family, counted in words.items()},
    }
    if arguments.show:
        print(yaml.safe_dump(details, sort_keys=False, width=200))
    report("rows", rows, details, arguments.output)
    return 0 if all(kept for *_, kept in rows) else 1


def _distances(pairs: Sequence[tuple[str, str]], sources: dict[str, str]) -> Iterator[float]:
    return (distance(sources[one], sources[other]) for one, other in pairs)


if __name__ == "__main__":
    raise SystemExit(main())
