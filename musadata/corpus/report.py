"""report.html: one page about a corpus that needs no network and no server."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import Any

import duckdb

from musadata.corpus import charts
from musadata.corpus.summary import DATASET_HEADINGS, list_datasets, list_funnel

REPORT = "report.html"
_TEMPLATE = Path(__file__).parent / "report.html"


def render_report(manifest: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> str:
    """The page; it depends on the corpus alone."""
    page = _Page(manifest, connection)
    sections = (page.numbers, page.funnel, page.tasks, page.acceptance, page.faults, page.samples, page.datasets)
    timed = page.value("SELECT count(speedup) FROM candidates")
    unspoken = "Nothing was timed: the emulator proves function, never speed."
    speed = f"{timed:,} candidates were timed." if timed else unspoken
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        lead=f"PyTorch code turned into verified training data for models that write GPU kernels. {speed}",
        body="\n".join(section() for section in sections),
        schema_version=manifest["schema_version"],
        code_version=manifest["code_version"],
    )


class _Page:
    """The sections of the report, each from a query or two."""

    def __init__(self, manifest: dict[str, Any], connection: duckdb.DuckDBPyConnection):
        self._manifest, self._connection = manifest, connection

    def rows(self, sql: str) -> list[Any]:
        return self._connection.sql(sql).fetchall()

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def numbers(self) -> str:
        tasks, candidates, accepted, solved = self.rows(
            """SELECT (SELECT count(*) FROM tasks), count(*), count(*) FILTER (accepted),
                      count(DISTINCT task_id) FILTER (accepted) FROM candidates"""
        )[0]
        kept, structures = self.rows("SELECT count(*), count(DISTINCT structure) FROM candidates WHERE kept")[0]
        repaired, tried = self.rows(
            "SELECT count(*) FILTER (success), count(*) FROM trajectories WHERE len(candidates) > 1"
        )[0]
        return charts.tiles(
            (
                (f"{tasks:,}", "tasks", f"{_percent(solved, tasks)} with an accepted kernel"),
                (f"{candidates:,}", "candidates", f"{_percent(accepted, candidates)} accepted"),
                (f"{kept:,}", "kernels kept", f"{structures:,} structures"),
                (f"{repaired:,}", "repaired", f"of {tried:,} conversations with feedback"),
                (f"{self.value('SELECT count(*) FROM rejects'):,}", "rejects", "each with its reason"),
            )
        )

    def funnel(self) -> str:
        parts = []
        for stage, steps in groupby(list_funnel(self._manifest), key=itemgetter(0)):
            rows = [(step, left, came - left, reasons) for _, step, came, left, reasons in steps]
            parts.append(f"<h3>{stage}</h3>" + charts.shares(rows, "passed on", "dropped"))
        return charts.section(
            "The funnel", "How many rows each step received and passed on, and why it dropped the others.", *parts
        )

    def tasks(self) -> str:
        families = self.rows(
            """SELECT t.operator_family, count(*) FILTER (c.task_id IS NOT NULL), count(*) FILTER (c.task_id IS NULL)
               FROM tasks t LEFT JOIN (SELECT DISTINCT task_id FROM candidates WHERE accepted) c USING (task_id)
               GROUP BY 1 ORDER BY count(*) DESC, 1"""
        )
        origins = self.rows(
            """SELECT source_kind, provenance.origin, provenance.license, count(*) AS n
               FROM tasks GROUP BY ALL ORDER BY n DESC, 1, 2, 3"""
        )
        return charts.section(
            "Tasks",
            "Tasks by operator family, and whether a candidate was accepted.",
            charts.shares([(*row, "") for row in families], "with an accepted kernel", "unsolved"),
            "<h3>balance over operator families</h3>",
            charts.table(("family", "tasks", "share", "target", "sampling weight"), self._balance()),
            "<h3>origins</h3>",
            charts.table(("source", "origin", "licence", "tasks"), origins),
        )

    def _balance(self) -> list[tuple[object, ...]]:
        found = sorted(self._manifest["balance"].items(), key=lambda item: (-item[1]["tasks"], item[0]))
        return [
            (
                family,
                one["tasks"],
                f"{one['share']:.1%}",
                "–" if one["target"] is None else f"{one['target']:.1%}",
                one["weight"],
            )
            for family, one in found
        ]

    def acceptance(self) -> str:
        by_source = self.rows(
            """SELECT t.source_kind || ', turn ' || c.turn,
                      count(*) FILTER (c.accepted), count(*) FILTER (NOT c.accepted)
               FROM candidates c JOIN tasks t USING (task_id) GROUP BY t.source_kind, c.turn ORDER BY 1"""
        )
        errors = self.rows(
            "SELECT error_class, count(*) AS n FROM candidates WHERE NOT accepted GROUP BY 1 ORDER BY n DESC, 1"
        )
        rules = self.rows(
            """SELECT findings[1].rule AS rule, error_class, count(*) AS n FROM candidates
               WHERE NOT accepted AND len(findings) > 0 GROUP BY ALL ORDER BY n DESC, 1, 2 LIMIT 12"""
        )
        structures = self.rows(
            "SELECT structure, count(*) AS n FROM candidates WHERE kept GROUP BY 1 ORDER BY n DESC, 1 LIMIT 12"
        )
        return charts.section(
            "Verdicts",
            "What the verifier found for every candidate.",
            charts.shares([(*row, "") for row in by_source], "accepted", "failed"),
            "<h3>error classes</h3>",
            charts.bars([(str(name), count, "") for name, count in errors]),
            "<h3>first finding</h3>",
            charts.table(("rule", "class", "candidates"), rules),
            "<h3>structures of the kernels that were kept</h3>",
            charts.bars([(name, count, "") for name, count in structures]),
        )

    def faults(self) -> str:
        rows = self.rows(
            """SELECT c.fault, count(*) FILTER (NOT c.accepted), count(*) FILTER (c.accepted),
                      count(*) FILTER (t.success AND NOT c.accepted)
               FROM candidates c LEFT JOIN trajectories t ON t.candidates[1] = c.candidate_id
               WHERE c.fault <> '' AND c.turn = 1 GROUP BY 1 ORDER BY count(*) DESC, 1"""
        )
        missed = sum(accepted for _, _, accepted, _ in rows)
        lead = "Faults that the compiler teacher seeded, and whether the verifier caught them. "
        lead += f"{missed:,} were accepted, which is a bug in the verifier." if missed else "None was accepted."
        shown = [(fault, caught, passed, f"{repaired:,} repaired") for fault, caught, passed, repaired in rows]
        return charts.section("Fault catalogue", lead, charts.shares(shown, "caught", "passed"))

    def samples(self) -> str:
        task = self.rows(
            """SELECT t.name, t.provenance.origin || ' ' || t.provenance.path || ':' || t.provenance.lines, t.reference,
                      c.source, c.structure
               FROM tasks t JOIN candidates c USING (task_id)
               WHERE c.kept ORDER BY md5(c.candidate_id) LIMIT 2"""
        )
        talk = self.rows(
            """SELECT task_id, fault, outcomes, list_transform(messages, lambda m: [m.role, m.content])
               FROM trajectories WHERE success AND len(candidates) > 1 ORDER BY md5(trajectory_id) LIMIT 2"""
        )
        parts = [
            charts.fold(
                f"{name} from {place}",
                f"<h3>reference</h3>{charts.prose(_fence(reference))}"
                f"<h3>accepted: {charts.escape(structure)}</h3>{charts.prose(_fence(source))}",
            )
            for name, place, reference, source, structure in task
        ]
        parts += [
            charts.fold(f"repair of “{fault}” in {task_id}", charts.conversation(_with_outcomes(messages, outcomes)))
            for task_id, fault, outcomes, messages in talk
        ]
        return charts.section("Samples", "Rows drawn by the hash of their id.", *parts)

    def datasets(self) -> str:
        table = charts.table(DATASET_HEADINGS, list_datasets(self._manifest))
        return charts.section("Files", "The datasets in this folder.", table)


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def _fence(code: str) -> str:
    return f"```python\n{code}```"


def _with_outcomes(messages: Sequence[Sequence[str]], outcomes: Sequence[str]) -> list[tuple[str, str, str]]:
    verdicts = iter(outcomes)
    return [(role, text, next(verdicts, "") if role == "assistant" else "") for role, text in messages]
