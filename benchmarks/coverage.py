"""Which operators of KernelBench's problems the generated tasks cover. KernelBench is read, never a source of data.

    python -m benchmarks.coverage CHECKOUT [--count 600] [--output benchmarks/results/coverage.json]

Both sides are read as text: the calls of `torch`, `nn` and `F`, under one name for each operator (`nn.LayerNorm` and
`F.layer_norm` are "layernorm"). A problem is covered if all of its operators are. Generated tasks are counted as they
are drawn: those that repeat a benchmark's problem are dropped later.
"""

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import report
from musadata.config import SourceConfig, SourceType
from musadata.mining.reading.dotted_names import dotted_name
from musadata.sources import open_source
from musadata.sources.drawn import DrawnSource
from musadata.sources.operators.inventory import inventory

ROOTS = ("torch.", "nn.", "F.")
# What computes nothing: containers, constants, draws, what sets a type or device, and dropout outside of training.
OTHER = frozenset(
    re.findall(
        r"\w+",
        """module modulelist moduledict sequential parameter parameterlist registerbuffer identity dropout dropout2d
        rand randn randint randperm randlike randnlike tensor zeros ones zeroslike oneslike full fulllike
        empty emptylike arange linspace eye device manualseed nograd isavailable constant normal uniform truncnormal
        init""",
    )
)
SEED = 20260601


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="of KernelBench")
    parser.add_argument("--count", type=int, default=600, help="composed modules to draw")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    ours = Counter(name for text in generated(options.count) for name in operators(text))
    rows, details = [], {}
    for level in (1, 2, 3):
        problems = {path.stem: operators(path.read_text()) for path in levels(options.checkout, level)}
        used = set().union(*problems.values())
        missing = sorted(used - ours.keys())
        covered = sum(names <= ours.keys() for names in problems.values())
        shown = f"{len(used) - len(missing)} of {len(used)} operators, {covered} of {len(problems)} problems"
        rows.append((f"KernelBench level {level}, covered by generated tasks", "", shown, True))
        uncovered = sorted(name for name, names in problems.items() if not names <= ours.keys())
        details[f"level{level}"] = {
            "operators": {name: ours[name] for name in sorted(used)},
            "missing": missing,
            "uncovered": uncovered,
        }
    report("coverage of KernelBench's operators", rows, {"composed": options.count, **details}, options.output)


def generated(count: int) -> Iterator[str]:
    """The references of the operator inventory and of so many composed modules."""
    sizes = {SourceType.OPERATORS: len(inventory()), SourceType.COMPOSITION: count}
    for kind, number in sizes.items():
        source = open_source(SourceConfig(kind, count=number), SEED)
        assert isinstance(source, DrawnSource)
        yield from (source.draw(index)[1] for index in range(number))


def levels(checkout: Path, level: int) -> list[Path]:
    found = sorted((checkout / "KernelBench" / f"level{level}").glob("*.py"))
    if not found:
        raise SystemExit(f"benchmark: {checkout} holds no KernelBench/level{level}; give a checkout of KernelBench")
    return found


def operators(text: str) -> set[str]:
    """The operators that a reference names in its calls."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    named = (dotted_name(call.func) for call in calls)
    found = {name.rpartition(".")[2].rstrip("_").replace("_", "").lower() for name in named if name.startswith(ROOTS)}
    return found - OTHER


if __name__ == "__main__":
    main()
