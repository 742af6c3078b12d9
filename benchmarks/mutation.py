"""How many single faults in honest kernels the verifier catches: mutation testing of the verifier itself.

    python -m benchmarks.mutation --limit 400 --output build/mutation.json

Faults are made mechanically (`benchmarks/mutations/operators.py`) in the honest kernels of `tests/adversarial`, drawn
evenly over kinds and kernels by hash. A mutant that does not compile is no fault and not counted. One that survives is
set aside as equivalent if its machine code is the same as the original's, or if `equivalent.yaml` says why it cannot
matter *and* no bit of any output differs on a battery of inputs (or only the order of a sum does); else it counts as
missed. Interrupted runs go on where they stopped: fates are kept beside the output.
"""

import argparse
import json
import multiprocessing
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import ROOT, report
from benchmarks.mutations.judging import Court, Fate
from benchmarks.mutations.operators import KINDS, Mutant, mutate
from tests.adversarial.programs import read_exercise, read_programs

GOALS = {"all": 0.98, "precision": 0.90}
_court: Court | None = None
_stack = ExitStack()


def draw_mutants(limit: int) -> list[Mutant]:
    """`limit` mutants, the kinds taking turns and within a kind the kernels, in the order of their hashes."""
    by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    for program in read_programs("honest"):
        for mutant in mutate(program.name, program.value("task"), program.source):
            by_kind[mutant.kind].append(mutant)
    for kind, mutants in by_kind.items():
        turn: Counter[str] = Counter()
        order = []
        for mutant in sorted(mutants, key=lambda m: m.key):
            order.append((turn[mutant.program], mutant.key, mutant))
            turn[mutant.program] += 1
        by_kind[kind] = [mutant for _, _, mutant in sorted(order, key=lambda item: item[:2])]
    drawn: list[Mutant] = []
    for position in range(max(map(len, by_kind.values()))):
        drawn += [by_kind[kind][position] for kind in KINDS if position < len(by_kind[kind])]
    return drawn[:limit]


def _judge(mutant: Mutant) -> Fate:
    global _court
    if _court is None:
        _court = _stack.enter_context(Court())
    program = next(item for item in read_programs("honest") if item.name == mutant.program)
    return _court.judge(mutant, program.source, read_exercise(program.value("task")))


def judge_all(mutants: Sequence[Mutant], journal: Path, processes: int) -> list[Fate]:
    """The fate of every mutant; those that the journal knows are not judged again."""
    known: dict[str, Fate] = {}
    if journal.exists():
        for line in journal.read_text(encoding="utf-8").splitlines():
            fate = Fate(**json.loads(line))
            known[fate.key] = fate
    waiting = [mutant for mutant in mutants if mutant.key not in known]
    journal.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with journal.open("a", encoding="utf-8") as file, ProcessPoolExecutor(processes, context) as pool:
        for number, done in enumerate(as_completed([pool.submit(_judge, mutant) for mutant in waiting]), 1):
            fate = done.result()
            known[fate.key] = fate
            file.write(json.dumps(asdict(fate)) + "\n")
            file.flush()
            if number % 20 == 0:
                print(f"{number} of {len(waiting)}", flush=True)
    return [known[mutant.key] for mutant in mutants]


def settle(fates: Sequence[Fate]) -> list[tuple[Fate, str]]:
    """Each fate with its verdict: caught, sanitised, equivalent, missed, stillborn or undecided."""
    listed = yaml.safe_load((ROOT / "benchmarks/mutations/equivalent.yaml").read_text(encoding="utf-8")) or {}
    settled = []
    for fate in fates:
        entry = listed.get(fate.key) if fate.status in ("survived", "sanitised") else None
        proven = entry is not None and (entry["outputs"] == "rounded" or not fate.difference)
        if fate.status == "same_code" or proven:
            settled.append((fate, "equivalent"))
        else:
            settled.append((fate, "missed" if fate.status == "survived" else fate.status))
    return settled


def share_caught(verdicts: Sequence[str], sanitize: bool) -> float:
    """Caught over all that can be: without stillborn, undecided and equivalent mutants."""
    caught = sum(verdict == "caught" or (sanitize and verdict == "sanitised") for verdict in verdicts)
    counted = sum(verdict in ("caught", "sanitised", "missed") for verdict in verdicts)
    return caught / counted if counted else 0.0


def print_table(settled: Sequence[tuple[Fate, str]]) -> None:
    columns = ("caught", "sanitised", "missed", "equivalent", "stillborn", "undecided")
    table = Table(title="single faults in honest kernels")
    for column in ("kind", "mutants", *columns, "share caught", "with --sanitize"):
        table.add_column(column)
    for kind in (*KINDS, "all"):
        verdicts = [verdict for fate, verdict in settled if kind in (fate.kind, "all")]
        counts = Counter(verdicts)
        shares = [f"{share_caught(verdicts, sanitize):.1%}" for sanitize in (False, True)]
        table.add_row(kind, str(len(verdicts)), *[str(counts[column]) for column in columns], *shares)
    Console().print(table)
    for fate, verdict in settled:
        if verdict in ("missed", "undecided"):
            print(f"{verdict} {fate.key} {fate.program}:{fate.line} {fate.kind}: {fate.before!r} -> {fate.after!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=400, help="mutants to judge (default 400)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "mutation.json")
    options = parser.parse_args()
    mutants = draw_mutants(options.limit)
    fates = judge_all(mutants, options.output.with_suffix(".jsonl"), options.processes)
    settled = settle(fates)
    print_table(settled)
    rows = []
    for name, goal in GOALS.items():
        verdicts = [verdict for fate, verdict in settled if name in (fate.kind, "all")]
        for sanitize in (False, True):
            share = share_caught(verdicts, sanitize)
            what = f"{name} faults caught" + (" with --sanitize" if sanitize else "")
            rows.append((what, f">= {goal:.0%}", f"{share:.1%}", share >= goal))
    details = {"faults": [{**asdict(fate), "verdict": verdict} for fate, verdict in settled]}
    report("mutation", rows, details, options.output)


if __name__ == "__main__":
    main()
