"""Do the figures of a corpus' profiling rows agree with the counters, and does the check see figures that do not?

    python -m benchmarks.profiling CORPUS [--output FILE]

The counters are read back from each prompt, as a trainer or a model sees them. The last row changes every figure of
every answer by one, a figure at a time, and counts how many of these answers the check refuses: what it lets pass is
the figure of another counter of the same launch.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.measuring import Row, report
from musadata.corpus.manifest import open_corpus
from musadata.records import Reject
from musadata.rows import restore
from musadata.sampling.profiling.check import check_diagnosis
from musadata.sampling.profiling.metrics import Counters, read_table
from musadata.sampling.profiling.profiles import FAMILY, STEP
from musadata.training_rows import SftRow

LEAST_ROWS = 20
_TABLE = re.compile(r"```csv\n(.*?)\n```", re.DOTALL)
_KIND = re.compile(r'"kind": "(\w+)"')
_CODE = re.compile(r"`[^`]*`")
_FIGURE = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/profiling.json"))
    arguments = parser.parse_args(argv)
    found = list(read_profiles(arguments.corpus))
    wrong = [row.sft_id for row in found if check_diagnosis(row.completion[-1].content, counters_of(row))]
    changed = [text for row in found for text in change_figures(row.completion[-1].content)]
    seen = sum(bool(check_diagnosis(text, counters_of(row))) for row in found for text in _changed(row))
    kinds = Counter(match[1] for row in found if (match := _KIND.search(row.evidence)))
    share = 1 - len(wrong) / max(1, len(found))
    rows: list[Row] = [
        ("profiling rows", f">= {LEAST_ROWS}", str(len(found)), len(found) >= LEAST_ROWS),
        ("rows whose figures agree with their counters", "100 %", f"{share:.1%}", bool(found) and not wrong),
        ("kinds of problem that come first", "", ", ".join(f"{kind} {n}" for kind, n in kinds.most_common()), True),
        ("answers with one figure changed that are refused", "", f"{seen} of {len(changed)}", True),
    ]
    rejects = Counter(reject.detail.partition(":")[0] for reject in read_rejects(arguments.corpus))
    report("profiling", rows, {"wrong": wrong, "rejects": dict(rejects)}, arguments.output)
    return int(not all(kept for *_, kept in rows))


def read_profiles(corpus: str) -> Iterator[SftRow]:
    for path in open_corpus(corpus).paths("sft"):
        for row in pq.read_table(path).to_pylist():
            if row["family"] == FAMILY:
                yield restore(SftRow, row)


def read_rejects(corpus: str) -> Iterator[Reject]:
    for path in open_corpus(corpus).paths("rejects"):
        for row in pq.read_table(path).to_pylist():
            if row["step"] == STEP:
                yield restore(Reject, row)


def counters_of(row: SftRow) -> Counters:
    found = _TABLE.search(row.prompt[-1].content)
    if found is None:
        raise ValueError(f"{row.sft_id} has no counters")
    return read_table(found[1])


def _changed(row: SftRow) -> Iterator[str]:
    return change_figures(row.completion[-1].content)


def change_figures(text: str) -> Iterator[str]:
    """The answer with one of its figures larger by one, for each in turn."""
    prose = _CODE.sub(lambda code: "#" * len(code[0]), text)
    for figure in _FIGURE.finditer(prose):
        yield f"{text[: figure.start()]}{float(figure[0]) + 1:g}{text[figure.end() :]}"


if __name__ == "__main__":
    raise SystemExit(main())
