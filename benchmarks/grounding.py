"""Do claims, written as expressions, catch false sentences and spare true ones?

python -m benchmarks.grounding [--set authors] [--show] [--output FILE]

A line of `grounding_sentences.jsonl` is a task: its traces (`facts`), the `program` that sentences are about if there
is one, and its `sentences`, half of them false (`label`). `claim` is the expression that somebody wrote for a sentence
without looking at its label; null where they thought that no fact decides it. In the set `authors` (47 tasks, about
traces) those are the sentences' own authors: their expressions, in another notation, were also where labels came from,
so they show what the evaluation loses, not what a reader gets wrong. In `dev` (73 tasks, about traces) and `test` (45
tasks, mostly about programs) readers wrote expressions for sentences of others, by the description of the language
alone. Sentences without the key `claim` wait for a reader; `why` is the fact that decides their label.
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
from musadata.records import ClaimOutcome, Trace
from musadata.rows import restore
from musadata.teacher.claims.expressions import Facts
from musadata.teacher.claims.judging import judge_claim

SENTENCES = Path(__file__).parent / "grounding_sentences.jsonl"
SETS = {"authors": "by their authors", "dev": "by readers, about traces", "test": "by readers, about programs"}
REPEATS = 5


@dataclass(frozen=True)
class Judged:
    """A labelled sentence and what became of its claim; "" where nobody thought that facts decide it."""

    task: str
    text: str
    claim: str
    is_true: bool
    outcome: ClaimOutcome
    why: str

    @property
    def is_contradicted(self) -> bool:
        return self.outcome is ClaimOutcome.CONTRADICTED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=tuple(SETS), help="one set of sentences; all by default")
    parser.add_argument("--show", action="store_true", help="print what was missed or flagged wrongly")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    tasks = [task for task in map(json.loads, SENTENCES.open(encoding="utf-8")) if options.set in (None, task["set"])]
    start = time.process_time()
    for _ in range(REPEATS):
        judged = {name: [one for task in tasks if task["set"] == name for one in judge(task)] for name in SETS}
    claims = sum(len(found) for found in judged.values())
    seconds = (time.process_time() - start) / REPEATS / max(1, claims)
    for one in (one for found in judged.values() for one in found):
        if options.show and one.is_contradicted == one.is_true:
            print(f"{one.is_true} {one.task}: {one.text}\n    {one.claim or '(no claim)'}  {one.why}")
    rows = [row for name, found in judged.items() if found for row in rows_of(found, SETS[name])]
    rows.append(("CPU time of a claim, facts included", "", f"{1e3 * seconds:.3f} ms", True))
    details = {
        name: dict(Counter(f"{'true' if one.is_true else 'false'}, {one.outcome}" for one in found))
        for name, found in judged.items()
    }
    report("grounding", rows, details, options.output)


def judge(task: dict[str, Any]) -> Iterator[Judged]:
    """The sentences of a task for which somebody wrote, or could not write, an expression."""
    facts = Facts(tuple(restore(Trace, trace) for trace in task["facts"]), task.get("program", ""))
    for sentence in (sentence for sentence in task["sentences"] if "claim" in sentence):
        claim, outcome, why = sentence["claim"] or "", ClaimOutcome.UNCHECKED, ""
        if claim:
            outcome, why = judge_claim(sentence["sentence"], claim, facts)
        yield Judged(task["task_id"], sentence["sentence"], claim, sentence["label"], outcome, why)


def rows_of(judged: Sequence[Judged], whose: str) -> list[Row]:
    false, true = ([one for one in judged if one.is_true is label] for label in (False, True))
    claimed = [one for one in false if one.claim]
    caught, flagged = (sum(one.is_contradicted for one in some) for some in (claimed, true))
    share, wrong = caught / max(1, len(claimed)), flagged / max(1, len(true))
    checked = sum(one.outcome is not ClaimOutcome.UNCHECKED for one in judged) / max(1, len(judged))
    return [
        (f"{whose}: of {len(claimed)} false claims caught", ">= 93 %", f"{100 * share:.1f} %", share >= 0.93),
        (f"... of {len(false)} false sentences", "", f"{100 * caught / max(1, len(false)):.1f} %", True),
        (f"... of {len(true)} true sentences flagged", "<= 1 %", f"{100 * wrong:.1f} %", wrong <= 0.01),
        ("... of all sentences, those that facts decide", "", f"{100 * checked:.1f} %", True),
    ]


if __name__ == "__main__":
    main()
