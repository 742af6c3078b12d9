"""`musadata policies` and `musadata rejudge`: what rules there are, and other verdicts on the same facts."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.records import Candidate, Verdict
from musadata.rows import restore
from musadata.verifier.policies import NAMES, apply_policy, load_policy
from musadata.verifier.protocol.variants import DECLARED
from musadata.verifier.rules.catalogue import RULES
from musadata.verifier.summary import render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `policies`."""
    parser.add_argument("name", nargs="?", help="show the rules of one policy; a name or a YAML file")


def run(arguments: argparse.Namespace) -> int:
    """List the policies, or which findings one of them refuses."""
    if arguments.name is None:
        for name in NAMES:
            print(f"{name:12} {load_policy(name).about}")
        return 0
    policy = load_policy(arguments.name)
    for rule in RULES.values():
        refused, declared = policy.is_refused(rule), policy.is_refused(rule, DECLARED)
        word = "refused" if refused and declared else "on declared inputs" if declared else "noted"
        print(f"{rule.id:32} {rule.error_class.value:12} {word}")
    return 0


def add_rejudge_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `rejudge`."""
    parser.add_argument("path", type=Path, help="a Parquet file that verify-batch wrote, or a corpus")
    parser.add_argument("--policy", required=True, help=f"{', '.join(NAMES)}, or a YAML file")
    parser.add_argument("--output", type=Path, help="Parquet file to write: the same rows with the new verdicts")


def run_rejudge(arguments: argparse.Namespace) -> int:
    """Judge again under another policy, from the facts that were kept. Nothing is executed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from musadata.verifier.batch import replace_verdicts

    policy = load_policy(arguments.policy)
    files = (
        sorted((arguments.path / "candidates").glob("**/*.parquet")) if arguments.path.is_dir() else [arguments.path]
    )
    if not files or not files[0].exists():
        remedy = "name a Parquet file of verify-batch, or a corpus with candidates"
        raise MusadataError("holds no verdicts", where=str(arguments.path), remedy=remedy)
    try:
        tables = [pq.read_table(file) for file in files]
    except (OSError, pa.ArrowInvalid) as error:
        raise MusadataError(f"cannot be read ({error})"[:300], where=str(arguments.path)) from error
    verdicts = [apply_policy(one, policy) for table in tables for one in _verdicts(table, str(arguments.path))]
    if arguments.output is not None:
        replace_verdicts(pa.concat_tables(tables), verdicts, arguments.output)
        print(f"verdicts in {arguments.output}", file=sys.stderr)
    print(render(verdicts))
    return 0


def _verdicts(table: Any, where: str) -> Iterator[Verdict]:
    if "verdict" in table.column_names:
        rows = table.column("verdict").to_pylist()
    elif {"facts", "source"} <= set(table.column_names):
        shared = [field.name for field in fields(Verdict) if field.name in {one.name for one in fields(Candidate)}]
        rows = table.select([name for name in shared if name in table.column_names]).to_pylist()
    else:
        remedy = "judge it once more with verify-batch: verdicts of older versions hold no facts"
        raise MusadataError("has no column `verdict` or `facts`", where=where, remedy=remedy)
    for row in rows:
        yield restore(Verdict, row)
