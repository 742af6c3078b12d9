"""report.html: one page about a corpus that needs no network and no server."""

from typing import TYPE_CHECKING, Any

from musadata.corpus.difficulty import HEADINGS as PASS_HEADINGS
from musadata.corpus.difficulty import list_pass_rates
from musadata.corpus.page_templates import PAGES
from musadata.corpus.spending import HEADINGS, list_spending
from musadata.corpus.summary import DATASET_HEADINGS, list_datasets, list_funnel

if TYPE_CHECKING:
    import duckdb

REPORT = "report.html"


def render_report(manifest: dict[str, Any], connection: "duckdb.DuckDBPyConnection") -> str:
    """The page; it depends on the corpus alone."""
    return PAGES.get_template(REPORT).render(
        manifest=manifest,
        query=lambda sql: connection.sql(sql).fetchall(),
        funnel=list_funnel(manifest),
        dataset_headings=DATASET_HEADINGS,
        datasets=list_datasets(manifest),
        pass_headings=PASS_HEADINGS,
        pass_rates=list_pass_rates(manifest),
        spending_headings=HEADINGS,
        spending=list_spending(manifest),
    )
