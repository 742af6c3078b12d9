"""What a corpus teaches, family by family: rows, targets that stand twice, failed programs among them, and whether the
verdict of a review can be guessed without reading the program.

python -m benchmarks.families CORPUS [--output benchmarks/results/families.json]

Needs `pip install scikit-learn`. The guess is a logistic regression on the prompts of the reviews: their length, counts
of characters, and words, each as often as it occurs; in five folds, with all rows of a task in one of them. Its area
under the ROC curve is 0.5 where nothing gives the verdict away. `--pairs` adds two neighbouring words as features.
Optimisation rows and pairs of measured programs exist only where a device measured.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Row, report
from musadata.corpus.query import connect

LEAST_ROWS = 20
MOST_AREA = 0.6
FOLDS = 5
MEASURED = ("optimisation", "faster over slower")
PROGRAMS = ("generation", "reasoned", "repair", "optimisation")  # families of sft whose targets are programs
ASKED = ("review", "feedback", "profiling", "question", "unit_test")
FAMILIES = (*PROGRAMS, *ASKED, "rft", "right over wrong", "rl")
CHARACTERS = '(){}[];,.+-*/%<>=&|!"#'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows = read_rows(options.corpus)
    counts = Counter(row["family"] for row in rows)
    few = {name: counts[name] for name in FAMILIES if counts[name] < LEAST_ROWS and name not in MEASURED}
    twice, failed = count_repeats(rows), sum(row["failed"] for row in rows)
    reviews = [row for row in rows if row["family"] == "review"]
    right = [json.loads(row["evidence"])["accepted"] for row in reviews]
    area = guess_verdicts([row["text"] for row in reviews], right, [row["task_id"] for row in reviews], options.pairs)
    table: list[Row] = [
        ("families with fewer rows, measured ones aside", f"none under {LEAST_ROWS}", str(few or "none"), not few),
        ("the same program as a target twice within a family", "0", str(twice), twice == 0),
        ("failed programs in messages of an assistant", "0", str(failed), failed == 0),
        ("reviews of right programs", "half", f"{sum(right)} of {len(right)}", 2 * sum(right) == len(right)),
        ("area under the curve, guessing verdicts of reviews", f"<= {MOST_AREA}", f"{area:.3f}", area <= MOST_AREA),
    ]
    classes = Counter(json.loads(row["evidence"])["error_class"] or "right" for row in reviews)
    report(
        "families", table, {"rows_of": dict(counts), "reviews": dict(classes), "pairs": options.pairs}, options.output
    )


def read_rows(corpus: str) -> list[dict[str, Any]]:
    """All rows that trainers read: family, task, text of the prompt, target's program, and whether one of the messages
    of an assistant holds a failed program."""
    connection = connect(corpus)
    found = connection.sql("SELECT candidate_id, source, accepted FROM candidates").fetchall()
    sources = {key: source for key, source, _ in found}
    accepted = {source for _, source, right in found if right}
    wrong = {source.strip() for source in sources.values() if source not in accepted}
    queries = (
        "SELECT family, task_id, prompt, candidate_id, evidence, [completion, conversation] AS said FROM sft",
        "SELECT 'rft' AS family, task_id, prompt, candidate_id, '' AS evidence, [completion, conversation] AS said"
        " FROM rft",
        "SELECT kind AS family, task_id, prompt, chosen_id AS candidate_id, '' AS evidence, [prompt, chosen] AS said"
        " FROM preferences",
        "SELECT 'rl' AS family, task_id, prompt, '' AS candidate_id, '' AS evidence, [prompt] AS said FROM rl",
        "SELECT 'trajectories' AS family, task_id, messages AS prompt, '' AS candidate_id, '' AS evidence,"
        " [messages] AS said FROM trajectories",
    )
    rows = [row for query in queries for row in connection.sql(query).to_arrow_table().to_pylist()]
    for row in rows:
        row["text"] = row.pop("prompt")[-1]["content"]
        row["program"] = sources.get(row["candidate_id"], "")
        answers = {message["content"] for said in row.pop("said") for message in said if message["role"] == "assistant"}
        row["failed"] = any(_programs(answer) & wrong for answer in answers)
    return rows


def _programs(answer: str) -> set[str]:
    """The fenced blocks of an answer."""
    return {block.strip().removeprefix("python\n").strip() for block in answer.split("```")[1::2]}


def count_repeats(rows: Iterable[dict[str, Any]]) -> int:
    """How many targets stand in their family already. Of reviews and the like the program is the question."""
    programs = (*PROGRAMS, "rft", "right over wrong", "honest over cheating", "faster over slower")
    targets = Counter((row["family"], row["program"]) for row in rows if row["family"] in programs)
    return sum(count - 1 for count in targets.values())


def guess_verdicts(texts: Sequence[str], right: Sequence[bool], tasks: Sequence[str], pairs: bool) -> float:
    """Area under the ROC curve of out-of-fold guesses, for the best of several strengths of regularisation."""
    return max(_areas(texts, right, tasks, pairs))


def _areas(texts: Sequence[str], right: Sequence[bool], tasks: Sequence[str], pairs: bool) -> Iterator[float]:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline, make_union
    from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler

    numbers = make_pipeline(FunctionTransformer(_count), StandardScaler())
    words = CountVectorizer(token_pattern=r"\w+|[^\w\s]", lowercase=False, ngram_range=(1, 1 + pairs), min_df=2)
    features = make_union(numbers, make_pipeline(words, MaxAbsScaler()))
    for strength in (0.1, 1.0, 10.0):
        model = make_pipeline(features, LogisticRegression(C=strength, max_iter=2000))
        folds = GroupKFold(FOLDS)
        yield roc_auc_score(
            right, cross_val_predict(model, texts, right, groups=tasks, cv=folds, method="decision_function")
        )


def _count(texts: Sequence[str]) -> list[list[int]]:
    return [[len(text), text.count("\n"), *(text.count(one) for one in CHARACTERS)] for text in texts]


if __name__ == "__main__":
    main()
