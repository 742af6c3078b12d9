"""The tables at the end of a run: the datasets, and what each step dropped."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from musadata.corpus.datasets import DATASETS
from musadata.corpus.manifest import read_manifest


def print_summary(corpus: str, console: Console | None = None) -> None:
    """Print the datasets and the funnel of a corpus.

    Raises:
        MusadataError: it is not a corpus, or no stage has been completed.
    """
    manifest = read_manifest(corpus)
    console = console or Console()
    console.print(_datasets_table(corpus, manifest))
    console.print(_funnel_table(manifest))


def _datasets_table(corpus: str, manifest: dict[str, Any]) -> Table:
    table = Table(title=f"[bold]{escape(corpus)}[/bold]", title_justify="left")
    for heading, justify in (("dataset", "left"), ("rows", "right"), ("size", "right"), ("what it is", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for name, dataset in manifest["datasets"].items():
        table.add_row(name, f"{dataset['rows']:,}", show_bytes(dataset["bytes"]), DATASETS[name].purpose)
    return table


def _funnel_table(manifest: dict[str, Any]) -> Table:
    table = Table(title="[bold]the funnel[/bold]", title_justify="left")
    for heading, justify in (
        ("stage", "left"),
        ("step", "left"),
        ("in", "right"),
        ("out", "right"),
        ("dropped", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for stage, steps in manifest["funnel"].items():
        for step, counts in steps.items():
            table.add_row(
                stage, step, f"{counts['in']:,}", f"{counts['out']:,}", escape(show_reasons(counts["dropped"]))
            )
    return table


def show_reasons(dropped: dict[str, int], most: int = 4) -> str:
    """ "12 nondeterministic, 3 constant, … 5 more reasons", most frequent first."""
    ranked = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count:,} {reason}" for reason, count in ranked[:most]]
    rest = len(ranked) - most
    more = f"… {rest} more reason{'s' if rest > 1 else ''}"
    return ", ".join([*shown, more] if rest > 0 else shown)


def show_bytes(count: int) -> str:
    """ "1.2 MB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:,.1f} GB"
