"""Modules that run, tasks that are kept, their widths and types, tries and CPU seconds, by tree.

What a change of mining moves, and what moves nothing:

    python -m benchmarks.mined_trees NAME=PATH … [--modules 40] [--before RESULT]

A path is a folder, a bare mirror, or a source distribution. Of each tree files are read in an order that their names
draw, until they hold that many modules. `--before` names the result of an earlier run, and shows what differs.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.measuring import report
from benchmarks.mining import NOT_MODULES, cpu_seconds, open_tree
from musadata.config import SourceConfig, SourceType, TasksConfig
from musadata.mining.miner import Miner
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import UNPARSABLE, PackageIndex
from musadata.records import Draft, Reject, Task
from musadata.sandbox import Caller, Limits, Outcome, Sandbox
from musadata.sources.archives import ArchiveTree
from musadata.sources.code import CodeFiles
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.sources.trees import FolderTree
from musadata.tasks.probe import PRELOAD as PROBING
from musadata.tasks.probe import probe
from musadata.tasks.reference_loading import build_model, load_reference

PRELOAD = (*PROBING, "musadata.mining.search", "musadata.mining.harvest.recording", "benchmarks.mined_trees")
WIDTH_LIMITS = Limits(seconds=20.0)
HALF_TYPES = ("float16", "bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", help="NAME=PATH")
    parser.add_argument("--modules", type=int, default=40, help="that are read of each tree, at least")
    parser.add_argument("--before", type=Path, help="result of an earlier run")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/mined_trees.json"))
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name, _, path in (item.partition("=") for item in options.trees):
        found[name] = run_tree(name, Path(path), options.modules)
        print(
            json.dumps({name: {key: value for key, value in found[name].items() if key not in ("modules", "tasks")}}),
            flush=True,
        )
    rows = [
        (what, "", f"{sum(item[what] for item in found.values()):,.0f}", True)
        for what in ("found", "run", "kept", "functions", "half", "lines", "tries", "cpu_seconds")
    ]
    widths = [width for item in found.values() for width in item["widths"]]
    rows.append(("median width of products and convolutions", "", f"{median(widths or [0]):.0f}", True))
    report("mined_trees", rows, {"trees": found}, options.output)
    if options.before:
        compare(json.loads(options.before.read_text(encoding="utf-8"))["trees"], found)


def open_path(path: Path) -> Tree:
    if path.is_file():
        return ArchiveTree(path.read_bytes(), path.name)
    return open_tree(str(path)) if (path / "HEAD").is_file() else FolderTree(path)


def run_tree(name: str, path: Path, modules: int) -> dict[str, Any]:
    """What becomes of some modules of a tree, and what it costs."""
    tree = open_path(path)
    source = CodeFiles(name, tree, SourceConfig(SourceType.DIRECTORY, path=name), seed=1)
    units, reasons, run = choose(tree, modules), Counter[str](), dict[str, int]()
    lost, tasks, widths = Counter[str](), list[Task](), list[int]()
    start, used = time.monotonic(), cpu_seconds()
    with Sandbox(preload=PRELOAD, setup="musadata.mining.search:warm_up") as sandbox:
        counting, miner = Counting(sandbox), Miner(source)
        for item in (item for unit in units for item in miner.drafts(unit, counting)):
            if isinstance(item, Draft):
                run[f"{item.provenance.path}:{item.name}"] = len(item.reference.splitlines())
                probed = probe(item, TasksConfig(), counting, 1)
                if isinstance(probed, Task):
                    tasks.append(probed)
                else:
                    lost[probed.reason] += 1
            elif isinstance(item, Reject):
                reasons[item.reason] += 1
    used = cpu_seconds() - used
    with Sandbox(preload=PRELOAD) as sandbox:
        for task in tasks:
            widths += sandbox.call("benchmarks.mined_trees:widest", task.reference, limits=WIDTH_LIMITS).value or []
    missed = sum(count for reason, count in reasons.items() if reason not in NOT_MODULES)
    return {
        "found": len(run) + missed,
        "run": len(run),
        "kept": len(tasks),
        "functions": sum(task.name[:1].islower() for task in tasks),
        "half": sum(any(spec.dtype in HALF_TYPES for spec in task.inputs) for task in tasks),
        "widths": widths,
        "lost": dict(lost.most_common()),
        "lines": sum(run.values()),
        "tries": counting.tries,
        "cpu_seconds": used,
        "seconds": time.monotonic() - start,
        "reasons": dict(reasons.most_common()),
        "modules": run,
        "tasks": [f"{task.provenance.path}:{task.name}" for task in tasks],
    }


class Products(TorchDispatchMode):
    """Records the features that each product contracts, and the channels that each convolution reads."""

    def __init__(self) -> None:
        super().__init__()
        self.widths: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").partition(".")[0]
        place = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}.get(name)
        if place is not None:
            self.widths.append(args[place].shape[-1])
        elif name == "convolution":
            self.widths.append(args[1].shape[1] * args[8])
        return func(*args, **(kwargs or {}))


def widest(source: str) -> list[int]:
    """The median width in one call of a reference; nothing where it multiplies nothing. Runs inside the sandbox."""
    reference = load_reference(source)
    model, products = build_model(reference, 0), Products()
    with torch.no_grad(), products:
        model(*reference.get_inputs())
    return [round(median(products.widths))] if products.widths else []


def choose(tree: Tree, modules: int) -> list[str]:
    """Files that hold so many modules together, in an order that depends on their names alone."""
    index = PackageIndex(tree)
    slicer, found, count = Slicer(index), list[str](), 0
    paths = [path for path in tree.paths() if path.endswith(".py") and "test" not in path]
    for path in sorted(paths, key=lambda path: sha256(path.encode()).digest()):
        try:
            own = len(slicer.module_classes(index.parse(path))) if b"orward" in tree.read(path) else 0
        except (*UNPARSABLE, UnreadableFile):
            continue
        if own and own <= modules // 2:  # one file is no sample of a tree
            found.append(path)
            count += own
        if count >= modules:
            break
    return found


class Counting:
    """A sandbox, and the tries that searches in it have used."""

    def __init__(self, sandbox: Caller):
        self._sandbox, self.tries = sandbox, 0

    def call(self, target: str, *arguments: Any, limits: Limits, files: Mapping[str, bytes] | None = None) -> Outcome:
        outcome = self._sandbox.call(target, *arguments, limits=limits, files=files)
        self.tries += outcome.value.get("tries", 0) if outcome.ok and isinstance(outcome.value, dict) else 0
        return outcome


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Print what runs no more, what runs now, and what costs differently."""
    for name in sorted(before.keys() & after.keys()):
        old, new = before[name], after[name]
        told = ("run", "kept", "lines", "tries", "cpu_seconds")
        changes = [f"{what} {old[what]:.0f} -> {new[what]:.0f}" for what in told]
        print(f"{name}: {', '.join(changes)}")
        for sign, ones, others in (("-", old, new), ("+", new, old)):
            for module in sorted(ones["modules"].keys() - others["modules"].keys()):
                print(f"  {sign} {module}")


if __name__ == "__main__":
    main()
