"""Mining against its rivals on the same files: slicing speed, modules that run, pruning, and memory.

    python -m benchmarks.mining timm=PATH stylegan2=PATH … [--paritybench CHECKOUT] \\
        [--slice timm,stylegan2] [--prune timm,stylegan2] [--part slicing,running,losses,pruning,memory]

The paths are clones or bare mirrors of public repositories, which this project does not ship. Slicing is measured
against tree-sitter-python's bare parse of the same files (`pip install tree-sitter-python`), running against
pytorch-jit-paritybench in a checkout of its own, and pruning against the same run without it. At its commit e0644afa
the rival needs a guard against an endless recursion in `add_requirements`; a repository on which it still fails is
shown and not counted. It imports torchvision, torchaudio, tensorflow and others at the top of what it generates; where
one is not installed, an empty package has to stand in. One run writes the whole result; `--slice` and `--prune` name
the repositories of these two parts (default: all). `running` executes each kept reference once more and counts its
statements that never run. `losses` adds the repositories of `--also`, a few files of each.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from benchmarks.measuring import Row, report
from benchmarks.mining_memory import measure_memory
from musadata.config import SourceConfig, SourceType
from musadata.mining.miner import Miner
from musadata.mining.slicing.class_slicing import Slicer, Unsliceable
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.records import Draft, Reject
from musadata.sandbox import Caller, Limits, Outcome, Sandbox
from musadata.sources.git import GitTree, open_git, run_git
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.sources.trees import MemoryTree

RIVAL_SECONDS = 3600
UNRUN_LIMITS = Limits(seconds=60.0, memory_mb=4096)
NOT_MODULES = frozenset({"syntax_error", "odd_encoding", "file_too_large", "unreadable", "unreadable_object"})

# Losses that no arguments mend: the code needs what is not there, or cannot run. All other reasons are ours to mend.
NOT_OURS = frozenset(
    {"needs_package", "equivalent_needs_package", "needs_file", "needs_network", "needs_device", "outdated_code"}
    | {"broken_code", "not_implemented", "returns_no_tensor", "takes_no_inputs", "too_large", "lazy_fails"}
    | {"not_called_from_python", "module_as_value", "not_bound"}
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="*", help="NAME=PATH of a clone")
    parser.add_argument("--slice", default="", help="names of the repositories to slice, by commas")
    parser.add_argument("--prune", default="", help="names of the repositories to mine with and without pruning")
    parser.add_argument("--paritybench", type=Path, help="checkout of pytorch-jit-paritybench")
    parser.add_argument("--rival-python", default=sys.executable, help="interpreter that has the rival's requirements")
    parser.add_argument("--also", nargs="*", default=[], help="NAME=PATH of a clone, for the part `losses` alone")
    parser.add_argument("--files", type=int, default=3, help="files with modules that are read of each of these")
    parser.add_argument("--drafts", type=Path, help="folder for the references that run, to read them")
    parser.add_argument(
        "--dependencies", nargs="*", default=[], help="releases (name==version) whose code references may hold"
    )
    parser.add_argument("--jobs", type=int, default=1, help="repositories at a time")
    parser.add_argument(
        "--resume", type=Path, help="what an interrupted run printed; its repositories are not repeated"
    )
    parser.add_argument("--part", default="slicing,running,losses,pruning,memory")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/mining.json"))
    options = parser.parse_args()
    repositories, also = (dict(item.split("=", 1) for item in group) for group in (options.repositories, options.also))
    measures = {
        "slicing": lambda: measure_slicing(chosen(repositories, options.slice)),
        "running": lambda: measure_running(repositories, options),
        "losses": lambda: measure_losses(details.get("running", {}), also, options),
        "pruning": lambda: measure_pruning(chosen(repositories, options.prune)),
        "memory": measure_memory,
    }
    commits = {name: commit_of(path) for name, path in {**repositories, **also}.items()}
    details: dict[str, Any] = {"repositories": commits, "dependencies": options.dependencies}
    rows: list[Row] = []
    for part in options.part.split(","):
        found, details[part] = measures[part]()
        rows += found
        report("mining", rows, details, options.output)


def chosen(repositories: dict[str, str], names: str) -> dict[str, str]:
    return {name: repositories[name] for name in names.split(",")} if names else repositories


def open_tree(path: str) -> GitTree:
    return GitTree(Path(path), run_git(Path(path), "rev-parse", "HEAD").decode().strip())


def measure_slicing(repositories: dict[str, str]) -> tuple[list[Row], dict[str, Any]]:
    """CPU seconds to find and cut every module, against a bare parse."""
    details: dict[str, Any] = {}
    for name, path in repositories.items():
        tree = open_tree(path)
        files = read_all(tree)
        size = sum(map(len, files.values())) / 1e6
        parse_seconds = parse_bare(files)
        start = time.process_time()
        modules, cut = slice_all(MemoryTree(files))
        ours = time.process_time() - start
        details[name] = {"megabytes": size, "parse_seconds": parse_seconds, "slice_seconds": ours}
        details[name] |= {"modules": modules, "cut": cut, "ratio": parse_seconds / ours}
    parsed = sum(item["parse_seconds"] for item in details.values())
    ratio = parsed / max(1e-9, sum(item["slice_seconds"] for item in details.values()))
    shown = f"{ratio:.2f}×: " + ", ".join(f"{name} {item['ratio']:.2f}" for name, item in details.items())
    return [("slicing throughput, against tree-sitter-python's bare parse", "≥ 0.25×", shown, ratio >= 0.25)], details


def read_all(tree: Tree) -> dict[str, bytes]:
    files = {}
    for path in tree.paths():
        if path.endswith(".py"):
            try:
                files[path] = tree.read(path)
            except UnreadableFile:
                continue
    return files


def parse_bare(files: dict[str, bytes]) -> float:
    """CPU seconds of the rival."""
    import tree_sitter
    import tree_sitter_python

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_python.language()))
    start = time.process_time()
    for data in files.values():
        parser.parse(data)
    return time.process_time() - start


def slice_all(tree: Tree) -> tuple[int, int]:
    """How many modules were found, and how many of them could be cut out."""
    index = PackageIndex(tree)
    slicer = Slicer(index)
    modules = cut = 0
    for path in tree.paths():
        try:
            module = index.parse(path)
        except (UnreadableFile, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for definition in slicer.module_classes(module):
            modules += 1
            try:
                slicer.slice(definition)
            except Unsliceable:
                continue
            cut += 1
    return modules, cut


def measure_running(repositories: dict[str, str], options: argparse.Namespace) -> tuple[list[Row], dict[str, Any]]:
    """Modules that run, ours and the rival's, and the CPU seconds that each takes per module found."""
    details: dict[str, Any] = {}
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        done = printed(options.resume)
        missing = {name: path for name, path in repositories.items() if "ours" not in done.get(name, {})}
        waiting = {name: pool.submit(run_both, path, options) for name, path in missing.items()}
        for name in repositories:
            details[name] = waiting[name].result() if name in waiting else done[name]
            print(json.dumps({name: details[name]}), flush=True)
    if not options.paritybench:
        ours = sum(item["ours"]["run"] for item in details.values())
        return [("modules that run (no rival given)", "", str(ours), True)], details
    both = {name: item for name, item in details.items() if "failed" not in item["rival"]}
    ours, theirs = (sum(item[whose]["run"] for item in both.values()) for whose in ("ours", "rival"))
    shown = f"{ours} against {theirs} on {len(both)} repositories: {ours / max(1, theirs):.2f}×"
    names = sum(item["ours"]["names"] for item in both.values())
    fewer = [name for name, item in both.items() if item["ours"]["run"] < item["rival"]["run"]]
    each = "on each" if not fewer else "fewer on " + ", ".join(fewer)
    pace, rival_pace = (pace_of([item[whose] for item in both.values()]) for whose in ("ours", "rival"))
    return [
        ("modules that run, against paritybench", "≥ 2.5×", shown, ours >= 2.5 * theirs),
        ("... each class name of a repository once, as paritybench counts", "", f"{names} against {theirs}", True),
        ("no fewer than paritybench", "on each", each, not fewer),
        unrun_row([item["ours"] for item in details.values()]),
        ("CPU s per module found", "no more", f"{pace:.3f} against {rival_pace:.3f}", pace <= rival_pace),
    ], {"rival_commit": commit_of(str(options.paritybench)), "torch": torch.__version__, **details}


def printed(log: Path | None) -> dict[str, Any]:
    """The results of single repositories in what a run printed."""
    found: dict[str, Any] = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log else ():
        if line.startswith('{"'):
            found |= json.loads(line)
    return found


def run_both(path: str, options: argparse.Namespace) -> dict[str, Any]:
    """Ours and the rival's run on one repository, in a process of its own, so that each one's CPU time is known."""
    found = {"ours": run_ours(path, drafts=options.drafts, dependencies=tuple(options.dependencies))[0]}
    if options.paritybench:
        found["rival"] = run_rival(options.paritybench, options.rival_python, path)
    return found


def unrun_row(runs: list[dict[str, Any]]) -> Row:
    statements, unrun = (sum(item[name] for item in runs) for name in ("statements", "unrun"))
    share = unrun / max(1, statements)
    what = "statements of kept references that never run"
    return what, "≤ 5 %", f"{share:.1%} of {statements:,}", share <= 0.05


def measure_losses(
    running: dict[str, Any], also: dict[str, str], options: argparse.Namespace
) -> tuple[list[Row], dict[str, Any]]:
    """What becomes of every module of many repositories: those of the part before, and some files of others."""
    runs = {name: item["ours"] for name, item in running.items() if isinstance(item, dict) and "ours" in item}
    done = printed(options.resume)
    for name, path in also.items():
        runs[name] = done[name] if "run" in done.get(name, {}) else run_of(path, options)
        print(json.dumps({name: runs[name]}), flush=True)
    reasons: Counter[str] = Counter()
    for item in runs.values():
        reasons.update(
            {reason: count for reason, count in item["reasons"].items() if reason not in {"run", *NOT_MODULES}}
        )
    found, run = (sum(item[name] for item in runs.values()) for name in ("found", "run"))
    lost = sum(reasons.values())
    ours = Counter({reason: count for reason, count in reasons.items() if reason not in NOT_OURS})
    largest, most = ours.most_common(1)[0] if ours else ("none", 0)
    share = most / max(1, lost)
    crashes = reasons["internal_error"]
    errors = Counter(text for item in runs.values() for text, count in item["errors"].items() for _ in range(count))
    return [
        ("repositories that stage 1 ran over without a crash", "≥ 25", str(len(runs)), len(runs) >= 25),
        ("modules found, that run, lost without a reason", "", f"{found}, {run}, {found - run - lost}", True),
        ("... lost to an exception in the miner itself", "0", str(crashes), not crashes),
        ("... lost for reasons that are ours to mend", "", f"{ours.total()} of {lost}", True),
        ("... the most frequent of them", "≤ 15 %", f"{largest}: {share:.0%} of {lost}", share <= 0.15),
    ], {"runs": runs, "reasons": dict(reasons.most_common()), "errors": dict(errors.most_common(40))}


def run_of(path: str, options: argparse.Namespace) -> dict[str, Any]:
    """Some files of a repository."""
    return run_ours(path, files=options.files, dependencies=tuple(options.dependencies))[0]


def pace_of(runs: list[dict[str, Any]]) -> float:
    """CPU seconds per module found, over all repositories together."""
    return float(sum(item["cpu_seconds"] for item in runs) / max(1, sum(item["found"] for item in runs)))


def commit_of(path: str) -> str:
    return run_git(Path(path), "rev-parse", "HEAD").decode().strip()


@cache
def run_ours(
    path: str, prune: bool = True, files: int = 0, drafts: Path | None = None, dependencies: tuple[str, ...] = ()
) -> tuple[dict[str, Any], dict[str, int]]:
    """What becomes of every module of a repository, tried in the sandbox, and the lines of each one's reference.

    `files`: how many files with modules are read; 0 reads all.
    """
    source = open_git(SourceConfig(SourceType.GIT, url=path, dependencies=dependencies), seed=1)
    counts: Counter[str] = Counter()
    losses: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    unrun: Counter[str] = Counter()
    lines: dict[str, int] = {}
    names = set()
    units = source.units()
    if files:
        with_modules = [unit for unit in units if b"nn.Module" in read_or_empty(source.tree, unit)]
        units = sorted(with_modules, key=lambda unit: sha256(unit.encode()).digest())[:files]
    start, used = time.monotonic(), cpu_seconds()
    with Sandbox(preload=("torch",), setup="musadata.mining.search:warm_up") as sandbox:
        miner = Miner(source)
        caller = sandbox if prune else Unpruned(sandbox)
        for item in chain.from_iterable(miner.drafts(unit, caller) for unit in units):
            if isinstance(item, Draft):
                lines[f"{item.provenance.path}:{item.provenance.lines}"] = len(item.reference.splitlines())
                names.add(item.name)
                unrun.update(count_unrun(sandbox, item.reference))
                keep(drafts, path, item)
            if isinstance(item, Draft | Reject):
                counts["run" if isinstance(item, Draft) else item.reason] += 1
            if isinstance(item, Reject):
                losses[re.sub(r"\d+", "N", f"{item.reason}: {item.detail}")[:120]] += 1
                errors[f"{item.reason}: {item.detail.partition(':')[0][:40]}"] += 1
    seconds = {"seconds": time.monotonic() - start, "cpu_seconds": cpu_seconds() - used}
    found = sum(count for reason, count in counts.items() if reason not in NOT_MODULES)
    return {
        "run": counts["run"],
        "names": len(names),
        "found": found,
        "statements": unrun["statements"],
        "unrun": unrun["unrun"],
        "errors": dict(errors),
        **seconds,
        "reasons": dict(counts.most_common()),
        "losses": dict(losses.most_common(20)),
    }, lines


def read_or_empty(tree: Tree, path: str) -> bytes:
    try:
        return tree.read(path)
    except UnreadableFile:
        return b""


def count_unrun(sandbox: Caller, reference: str) -> dict[str, int]:
    """Statements, and those that never run; none of a reference that fails on its own parameters."""
    outcome = sandbox.call("benchmarks.unrun_lines:count", reference, limits=UNRUN_LIMITS)
    return outcome.value if outcome.ok else {}


def keep(folder: Path | None, path: str, draft: Draft) -> None:
    """Write a reference that runs to a folder, to read it."""
    if folder is not None:
        where = f"{path}:{draft.provenance.path}:{draft.provenance.lines}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{sha256(where.encode()).hexdigest()[:12]}.py"
        file.write_text(f"# {where}\n{draft.reference}", encoding="utf-8")


class Unpruned:
    """A sandbox in which arguments are searched for and nothing is pruned."""

    def __init__(self, sandbox: Caller):
        self._sandbox = sandbox

    def call(self, target: str, *arguments: Any, limits: Limits, files: Mapping[str, bytes] | None = None) -> Outcome:
        module, _, function = target.partition(":")
        if function != "search_and_prune":
            return self._sandbox.call(target, *arguments, limits=limits, files=files)
        outcome = self._sandbox.call(f"{module}:search_arguments", *arguments, limits=limits)
        value = {**outcome.value, "definitions": arguments[0]} if outcome.ok else outcome.value
        return replace(outcome, value=value)


def measure_pruning(repositories: dict[str, str]) -> tuple[list[Row], dict[str, Any]]:
    """Lines of the references that run with and without pruning, and the CPU seconds of both."""
    runs = {
        kind: [run_ours(path, prune) for path in repositories.values()]
        for kind, prune in (("before", False), ("after", True))
    }
    both = [before[1].keys() & after[1].keys() for before, after in zip(runs["before"], runs["after"], strict=True)]
    details: dict[str, Any] = {"repositories": list(repositories)}
    for kind, found in runs.items():
        lines = sorted(own[key] for (_, own), keys in zip(found, both, strict=True) for key in keys)
        details[kind] = {
            "run": sum(item["run"] for item, _ in found),
            "cpu_seconds_per_module_found": pace_of([item for item, _ in found]),
            "references": len(lines),
            "median": median(lines),
            "p90": quantiles(lines, n=10)[-1],
            "max": lines[-1],
        }
    before, after = details["before"], details["after"]
    shown = f"median {before['median']:g} and {after['median']:g}, p90 {before['p90']:g} and {after['p90']:g}"
    pace = "{before[cpu_seconds_per_module_found]:.3f} and {after[cpu_seconds_per_module_found]:.3f}"
    return [
        (f"lines of {after['references']} references before and after pruning", "", shown, True),
        (
            "modules that run after pruning",
            "no fewer",
            f"{after['run']} of {before['run']}",
            after["run"] >= before["run"],
        ),
        ("CPU s per module found, without and with pruning", "", pace.format(before=before, after=after), True),
    ], details


def cpu_seconds() -> float:
    """Of this process and of every child that has ended: wall time says little on a shared machine."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def run_rival(checkout: Path, python: str, path: str) -> dict[str, Any]:
    """The rival on the same Python files. A module of its runs if it found arguments on which `forward` returned.

    The rival executes what it mines unprotected: give it repositories that you would run yourself.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "repository"
        files.mkdir()
        for name, data in read_all(open_tree(path)).items():  # `git archive` fails on a mirror that lacks large files
            (files / name).parent.mkdir(parents=True, exist_ok=True)
            (files / name).write_bytes(data)
        (Path(folder) / "generated").mkdir()
        command = [python, "main.py", "--generate-one", str(files), "--tests-dir", f"{folder}/generated"]
        start, used = time.monotonic(), cpu_seconds()
        try:
            done = subprocess.run(
                command, cwd=checkout, capture_output=True, text=True, check=False, timeout=RIVAL_SECONDS
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"no end after {RIVAL_SECONDS} s"}
        seconds = {"seconds": time.monotonic() - start, "cpu_seconds": cpu_seconds() - used}
    found = re.findall(r"\('(\w+)', (\d+)\)", (done.stdout + done.stderr).rpartition("Stats: ")[2])
    stats = {name: int(count) for name, count in found}
    if "total" not in stats:
        return {"failed": done.stderr[-300:]}
    return {"run": stats.get("deduced_args_ok", 0), "found": stats["total"], **seconds, "stats": stats}


if __name__ == "__main__":
    main()
