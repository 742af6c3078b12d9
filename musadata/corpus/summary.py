"""The datasets of a corpus and what each step dropped: as rows for card and report, and printed at a run's end."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import read_manifest
from musadata.corpus.spending import HEADINGS as SPENDING_HEADINGS
from musadata.corpus.spending import list_spending

DATASET_HEADINGS = ("dataset", "rows", "shards", "size", "what it is")
FUNNEL_HEADINGS = ("stage", "step", "in", "out", "dropped")
_NUMBERS = ("rows", "shards", "size", "in", "out", *SPENDING_HEADINGS[2:])


def print_summary(corpus: str, console: Console | None = None) -> None:
    """Print the datasets and the funnel of a corpus.

    Raises:
        MusadataError: it is not a corpus, or no stage has been completed.
    """
    manifest = read_manifest(corpus)
    console = console or Console()
    console.print(_table(corpus, DATASET_HEADINGS, list_datasets(manifest)))
    console.print(_table("the funnel", FUNNEL_HEADINGS, list_funnel(manifest)))
    if spent := list_spending(manifest):
        console.print(_table("spending", SPENDING_HEADINGS, spent))


def list_datasets(manifest: dict[str, Any]) -> list[tuple[str, int, int, str, str]]:
    """A row for each dataset, as `DATASET_HEADINGS` names its columns."""
    return [
        (name, found["rows"], len(found["shards"]), _show_bytes(found["bytes"]), DATASETS[name].purpose)
        for name, found in manifest["datasets"].items()
    ]


def list_funnel(manifest: dict[str, Any]) -> list[tuple[str, str, int, int, str]]:
    """A row for each step, as `FUNNEL_HEADINGS` names its columns."""
    return [
        (stage, step, counts["in"], counts["out"], _show_reasons(counts["dropped"]))
        for stage, steps in manifest["funnel"].items()
        for step, counts in steps.items()
    ]


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str | int]]) -> Table:
    """Numbers are aligned to the right."""
    table = Table(title=f"[bold]{escape(title)}[/bold]", title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else escape(cell) for cell in row))
    return table


def _show_reasons(dropped: dict[str, int], most: int = 4) -> str:
    """ "12 nondeterministic, 3 constant, … 5 more reasons", most frequent first."""
    ranked = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count:,} {reason}" for reason, count in ranked[:most]]
    rest = len(ranked) - most
    more = f"… {rest} more reason{'s' if rest > 1 else ''}"
    return ", ".join([*shown, more] if rest > 0 else shown)


def _show_bytes(count: int) -> str:
    """ "1.2 MB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.1f} GB"
