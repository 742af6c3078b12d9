"""Does the check of an analysis catch false sentences, and spare true ones?

python -m benchmarks.grounding [--sentences benchmarks/grounding_sentences.jsonl] [--set test] [--show] [--output FILE]

The sentences were written by people who had read references, traces and programs but not the code, half of them false;
`why` is the fact that decides each label. The set `dev` (73 tasks, two authors, about traces) was used for development.
`test` (45 other tasks, a third author, mostly about programs) was measured once before anyone who works on the check
had looked at it: that is the recorded result, of a check that was told the traces alone. Since then the check was
mended with these sentences as well: a new figure needs new sentences. `refuted_by` says what it takes to refute a false
sentence that was missed: arithmetic on shapes and constants, comparing a formula, analysing the program, the meaning of
what the task computes, or an argument (docs/grounding.md). A line of the file is a task: its traces (`facts`), the
`program` that sentences are about, if there is one, and its `sentences` with their labels. Cost is measured on the text
of one task, repeated to 8 and to 64 KB.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import Row, report
from musadata.records import Trace
from musadata.rows import restore
from musadata.teacher.grounding import Claim, Outcome, check_text, is_checked

SENTENCES = Path(__file__).parent / "grounding_sentences.jsonl"
SHORT, LONG = 8_000, 64_000


@dataclass(frozen=True)
class Judged:
    """A labelled sentence and the claims that the traces contradict."""

    task: str
    kind: str
    text: str
    is_true: bool
    refuted_by: str
    wrong: tuple[Claim, ...]
    is_checked: bool

    @property
    def is_right(self) -> bool:
        return bool(self.wrong) != self.is_true


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    parser.add_argument("--set", default="test", choices=("dev", "test"))
    parser.add_argument("--show", action="store_true", help="print the sentences that were judged wrongly")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    tasks = [task for task in map(json.loads, options.sentences.open(encoding="utf-8")) if task["set"] == options.set]
    judged = [found for task in tasks for found in judge(task)]
    if options.show:
        for sentence in judged:
            if not sentence.is_right:
                said = "; ".join(f"{claim.text}: {claim.wrong}" for claim in sentence.wrong)
                print(f"{sentence.is_true} [{sentence.kind}] {sentence.text} {said}")
    kinds = Counter((sentence.kind, sentence.is_true, sentence.is_right) for sentence in judged)
    details = {
        "set": options.set,
        "tasks": len(tasks),
        "kinds": {f"{kind}, {'true' if true else 'false'}, {'right' if right else 'wrong'}": count
                  for (kind, true, right), count in sorted(kinds.items())},
        "missed": dict(Counter(one.refuted_by for one in judged if not one.is_true and not one.wrong).most_common()),
    }  # fmt: skip
    report("grounding", promises(judged, seconds_of(tasks[0])), details, options.output)


def judge(task: dict[str, Any]) -> Iterator[Judged]:
    """The sentences of a task, each judged by itself."""
    traces = tuple(restore(Trace, trace) for trace in task["facts"])
    for sentence in task["sentences"]:
        claims = check_text(sentence["sentence"], traces, task.get("program", ""))
        wrong = tuple(claim for claim in claims if claim.outcome is Outcome.CONTRADICTED)
        yield Judged(
            task["task_id"],
            sentence["kind"],
            sentence["sentence"],
            sentence["label"],
            sentence.get("refuted_by", "not classified"),
            wrong,
            is_checked(claims),
        )


def seconds_of(task: dict[str, Any]) -> tuple[float, float]:
    """CPU seconds for a short and for a long text."""
    traces = tuple(restore(Trace, trace) for trace in task["facts"])
    text = " ".join(sentence["sentence"] for sentence in task["sentences"]) + "\n"
    costs = []
    for size in (SHORT, LONG):
        start = time.process_time()
        check_text((text * (size // len(text) + 1))[:size], traces)
        costs.append(time.process_time() - start)
    return costs[0], costs[1]


def promises(judged: Sequence[Judged], seconds: tuple[float, float]) -> list[Row]:
    """What was promised, and what was measured."""
    false = [sentence for sentence in judged if not sentence.is_true]
    true = [sentence for sentence in judged if sentence.is_true]
    caught = sum(bool(sentence.wrong) for sentence in false) / max(1, len(false))
    flagged = sum(bool(sentence.wrong) for sentence in true) / max(1, len(true))
    checked = sum(sentence.is_checked for sentence in judged) / max(1, len(judged))
    caught_of_checked = sum(bool(one.wrong) for one in false) / max(1, sum(one.is_checked for one in false))
    ratio = seconds[1] / max(seconds[0], 1e-9) / (LONG / SHORT)
    return [
        (f"of {len(false)} false sentences caught", ">= 95 %", f"{100 * caught:.1f} %", caught >= 0.95),
        (f"of {len(true)} true sentences flagged", "<= 2 %", f"{100 * flagged:.1f} %", flagged <= 0.02),
        ("of all sentences, those of which facts decide something", "", f"{100 * checked:.1f} %", True),
        ("of false ones among these, caught", "", f"{100 * caught_of_checked:.1f} %", True),
        ("CPU time of 64 KB, against eight times that of 8 KB", "<= 1.5", f"{ratio:.2f}", ratio <= 1.5),
        ("CPU time of 64 KB", "", f"{seconds[1]:.2f} s", True),
    ]


if __name__ == "__main__":
    main()
