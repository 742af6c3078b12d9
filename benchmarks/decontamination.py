"""Does the shipped fingerprint set find KernelBench, as published and disguised, and spare what is unrelated?

python -m benchmarks.decontamination --checkout ../KernelBench [--levels 1234] [--unrelated 300] [--output FILE]
    [--rewritten FOLDER]

Disguises are mechanical (benchmarks/disguise.py): other names, layout, order of independent statements and sizes, one
more level of modules, and all together. Unrelated tasks are generated ones, as many random graphs as composed modules.
A generated task whose `forward` is a single call is counted apart: KernelBench's level 1 is such calls, so that a layer
norm alone is its layer norm. The rival is matching by text alone.
"""

import argparse
import ast
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.disguise import DISGUISES, disguise
from benchmarks.measuring import Row, report
from musadata.sandbox import Limits, Sandbox
from musadata.sources.composed.recipe import Structures
from musadata.sources.nnsmith import print_graphs
from musadata.tasks.decontaminate import contamination, load_fingerprints, match_text

SET = "kernelbench"
CHANGES = {**DISGUISES, "all": disguise}
GENERATED = ("unrelated", "single call")
SEED = 99


@dataclass
class Counts:
    """How many tasks there were of each kind, and how many of them were recognised."""

    total: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    by_text: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)

    def check(self, sandbox: Sandbox, kind: str, name: str, source: str) -> None:
        """Look whether a task is recognised, by everything and by its text alone."""
        self.total[kind] += 1
        self.by_text[kind] += bool(match_text(source, load_fingerprints(SET)))
        outcome = sandbox.call("musadata.tasks.fingerprints.tracing:trace", source)
        graph = outcome.value.get("graph", "") if outcome.ok else ""
        results = sandbox.call("musadata.tasks.fingerprints.results:hash_results", source)
        match = contamination(source, graph, results.value if results.ok else [], [SET])
        if match:
            self.found[kind] += 1
            if kind in GENERATED:
                self.flagged.append(f"{kind}: {name}: {match}")
        elif kind not in GENERATED:
            self.missed.append(f"{kind} {name}")

    def share(self, counts: Counter[str], *kinds: str) -> float:
        return sum(counts[kind] for kind in kinds) / max(1, sum(self.total[kind] for kind in kinds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--levels", default="1234")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th task only")
    parser.add_argument("--unrelated", type=int, default=300, help="how many of each generator")
    parser.add_argument("--rewritten", type=Path, help="folder of tasks that somebody rewrote in other algebra")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    files = sorted(options.checkout.glob(f"KernelBench/level[{options.levels}]/*.py"))[:: options.every]
    if not files:
        raise SystemExit(f"benchmark: {options.checkout} holds no KernelBench/level*/*.py")
    rewritten = sorted(options.rewritten.glob("*.py")) if options.rewritten else []
    counts = Counts()
    preload = ("torch._dynamo", "musadata.tasks.fingerprints.tracing", "musadata.tasks.fingerprints.results")
    with Sandbox(preload=preload, limits=Limits(seconds=300.0, memory_mb=16384)) as sandbox:
        for file in files:
            name, source = f"{file.parent.name}/{file.stem}", file.read_text(encoding="utf-8")
            counts.check(sandbox, "published", name, source)
            for kind, change in CHANGES.items():
                counts.check(sandbox, kind, name, change(source, random.Random(f"{kind}/{name}")))
        for file in rewritten:
            counts.check(sandbox, "rewritten", file.stem, file.read_text(encoding="utf-8"))
        for name, source in generated(options.unrelated):
            counts.check(sandbox, "single call" if is_single_call(source) else "unrelated", name, source)
    details = {"every": options.every, **vars(counts)}
    report("decontamination", promises(counts), details, options.output)
    print(details)


def promises(counts: Counts) -> list[Row]:
    """What was promised, and what was measured."""
    published, unrelated = counts.share(counts.found, "published"), counts.share(counts.found, "unrelated")
    disguised, alone = counts.share(counts.found, *CHANGES), counts.share(counts.by_text, *CHANGES)
    rewritten = counts.share(counts.found, "rewritten")
    calls = f"{counts.found['single call']} of {counts.total['single call']}"
    flagged = f"of {counts.total['unrelated']} unrelated tasks flagged"
    return [
        ("tasks as published found", "100 %", f"{100 * published:.1f} %", published == 1.0),
        ("disguised tasks found", ">= 98 %", f"{100 * disguised:.1f} %", disguised >= 0.98),
        ("disguised tasks found by text alone (rival)", "", f"{100 * alone:.1f} %", True),
        (
            "rewritten tasks found",
            ">= 98 %",
            f"{100 * rewritten:.1f} % of {counts.total['rewritten']}",
            rewritten >= 0.98,
        ),
        (flagged, "<= 0.5 %", f"{100 * unrelated:.2f} %", unrelated <= 0.005),
        ("generated single calls flagged", "", calls, True),
    ]


def generated(count: int) -> Iterator[tuple[str, str]]:
    """Name and source of so many random graphs and so many composed modules."""
    for name, source in print_graphs(SEED, 0, count - 1, 6):
        if source:
            yield name, source
    structures = Structures(SEED)
    for index in range(count):
        composed = structures.compose(index)
        yield composed.name, composed.text


def is_single_call(source: str) -> bool:
    """Whether `forward` returns one call of its arguments and does nothing else."""
    forward = next(
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == "forward"
    )
    calls = sum(isinstance(node, (ast.Call, ast.BinOp)) for statement in forward.body for node in ast.walk(statement))
    return len(forward.body) == 1 and calls <= 1


if __name__ == "__main__":
    main()
