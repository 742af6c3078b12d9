"""report.html: one page about a corpus that needs no network and no server."""

from typing import Any

import duckdb

from musadata.corpus.pages import PAGES
from musadata.corpus.summary import DATASET_HEADINGS, list_datasets, list_funnel

REPORT = "report.html"


def render_report(manifest: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> str:
    """The page; it depends on the corpus alone."""
    return PAGES.get_template(REPORT).render(
        manifest=manifest,
        query=lambda sql: connection.sql(sql).fetchall(),
        funnel=list_funnel(manifest),
        balance=_list_balance(manifest["balance"]),
        dataset_headings=DATASET_HEADINGS,
        datasets=list_datasets(manifest),
    )


def _list_balance(balance: dict[str, Any]) -> list[tuple[object, ...]]:
    """(family, tasks, share, target, weight), most tasks first."""
    found = sorted(balance.items(), key=lambda item: (-item[1]["tasks"], item[0]))
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
