"""`musadata report`: write report.html, one page about a corpus."""

import argparse

from musadata.corpus.manifest import read_manifest
from musadata.corpus.query import connect
from musadata.corpus.report import REPORT, render_report
from musadata.storage import files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", help="folder or URL of the corpus")
    parser.add_argument("--output", metavar="FILE", help=f"(default: {REPORT} in the corpus)")


def run(arguments: argparse.Namespace) -> int:
    path = arguments.output or files.join(arguments.corpus, REPORT)
    page = render_report(read_manifest(arguments.corpus), connect(arguments.corpus))
    files.write_atomic(path, page.encode())
    print(path)
    return 0
