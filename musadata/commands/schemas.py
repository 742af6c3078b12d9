"""`musadata schemas`: write the JSON Schemas of all datasets, or check that they agree with the code."""

import argparse
from pathlib import Path

from musadata.corpus.schemas import FOLDER, find_drift, make_schemas, render_schema
from musadata.errors import MusadataError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, default=FOLDER, metavar="FOLDER", help=f"(default: {FOLDER})")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 2 if a file and the code differ")


def run(arguments: argparse.Namespace) -> int:
    drift = find_drift(arguments.output)
    if arguments.check:
        if drift:
            raise MusadataError(
                f"differs from the code: {', '.join(drift)}",
                where=str(arguments.output),
                remedy="run `python -m musadata schemas`, or raise SCHEMA_VERSION if a name or type has changed",
            )
        return 0
    schemas = make_schemas()
    if arguments.output.is_file():
        raise MusadataError("is a file", where=str(arguments.output), remedy="name a folder")
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in drift:
        if name in schemas:
            (arguments.output / name).write_text(render_schema(schemas[name]), encoding="utf-8")
        elif arguments.output == FOLDER:  # another folder may hold JSON that is not ours
            (arguments.output / name).unlink()
        print(arguments.output / name)
    return 0
