"""`musadata diff`, `merge` and `forget`: whole corpora."""

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from musadata.corpus.comparison import HEADINGS, compare_rows, compare_settings


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of a corpus")
    parser.add_argument("other", help="folder or URL of another one")


def run_diff(arguments: argparse.Namespace) -> int:
    """Exit code 1 if rows differ, as diff has it."""
    console = Console()
    settings = compare_settings(arguments.corpus, arguments.other)
    rows = compare_rows(arguments.corpus, arguments.other)
    if settings:
        console.print(_table("settings", ("key", "here", "there"), settings))
    console.print(_table("rows", HEADINGS, rows))
    return int(any(sum(row[4:]) for row in rows))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpora", nargs="+", help="folders of corpora; of later ones only new tasks count")
    parser.add_argument("--to", required=True, metavar="CORPUS", help="a new or empty folder")


def run_merge(arguments: argparse.Namespace) -> int:
    from musadata.corpus.rewriting import merge

    for dataset, rows in merge(arguments.corpora, arguments.to).items():
        print(f"{dataset}: {rows:,} rows")
    return 0


def add_forget_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus, which is changed")
    parser.add_argument(
        "--repository", required=True, metavar="URL", help="as provenance.repository or origin names it"
    )


def run_forget(arguments: argparse.Namespace) -> int:
    from musadata.corpus.rewriting import forget

    done = forget(arguments.corpus, arguments.repository)
    for dataset, rows in done.rows.items():
        print(f"{dataset}: {rows:,} rows taken out")
    print(f"{done.rewritten} of {done.shards} shards were written anew")
    print("_journal may still quote it: delete that folder if it must go, and take the source out of the config")
    return 0
