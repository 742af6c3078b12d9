"""Mining against its rivals on the same files: slicing speed, modules that run, and memory.

    python -m benchmarks.mining timm=PATH stylegan2=PATH … [--paritybench CHECKOUT] [--part slicing,running,memory]

The paths are clones or bare mirrors of public repositories, which this project does not ship. Slicing is measured
against tree-sitter-python's bare parse of the same files (`pip install tree-sitter-python`), running against
pytorch-jit-paritybench in a checkout of its own.
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
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import report, run_watched
from musadata.config import SourceConfig, SourceType
from musadata.mining.miner import Miner
from musadata.mining.slicing.class_slicing import Slicer, Unsliceable
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.records import Draft, KernelDraft
from musadata.sandbox import Sandbox
from musadata.sources.code import CodeFiles
from musadata.sources.git import GitTree, open_git, run_git
from musadata.sources.protocol import Tree, UnreadableFile
from musadata.sources.trees import MemoryTree

Row = tuple[str, str, str, bool]
NOT_MODULES = frozenset({"syntax_error", "odd_encoding", "file_too_large", "unreadable", "unreadable_object"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="*", help="NAME=PATH of a clone")
    parser.add_argument("--paritybench", type=Path, help="checkout of pytorch-jit-paritybench")
    parser.add_argument("--rival-python", default=sys.executable, help="interpreter that has the rival's requirements")
    parser.add_argument("--part", default="slicing,running,memory")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/mining.json"))
    parser.add_argument("--mine-copies", type=int, help=argparse.SUPPRESS)  # the worker whose memory is watched
    options = parser.parse_args()
    if options.mine_copies:
        mine_copies(options.mine_copies)
        return
    repositories = dict(item.split("=", 1) for item in options.repositories)
    parts: dict[str, Any] = {}
    rows: list[Row] = []
    for name, measure in (("slicing", measure_slicing), ("running", measure_running)):
        if name in options.part.split(","):
            found, details = measure(repositories, options)
            rows += found
            parts[name] = details
    if "memory" in options.part.split(","):
        found, parts["memory"] = measure_memory()
        rows += found
    report("mining", rows, parts, options.output)


def open_tree(path: str) -> GitTree:
    return GitTree(Path(path), run_git(Path(path), "rev-parse", "HEAD").decode().strip())


def measure_slicing(repositories: dict[str, str], options: argparse.Namespace) -> tuple[list[Row], dict[str, Any]]:
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
    for name, path in repositories.items():
        details[name] = {"commit": commit_of(path), "ours": run_ours(path)}
        if options.paritybench:
            details[name]["rival"] = run_rival(options.paritybench, options.rival_python, path)
        print(json.dumps({name: details[name]}), flush=True)
    ours = sum(item["ours"]["run"] for item in details.values())
    if not options.paritybench:
        return [("modules that run (no rival given)", "", str(ours), True)], details
    theirs = sum(item["rival"]["run"] for item in details.values())
    shown = f"{ours} against {theirs}: {ours / max(1, theirs):.2f}×"
    pace, rival_pace = pace_of(details, "ours"), pace_of(details, "rival")
    return [
        ("modules that run, against paritybench", "≥ 2.5×", shown, ours >= 2.5 * theirs),
        ("CPU s per module found", "no more", f"{pace:.3f} against {rival_pace:.3f}", pace <= rival_pace),
    ], {"rival_commit": commit_of(str(options.paritybench)), "torch": torch.__version__, **details}


def pace_of(details: dict[str, Any], whose: str) -> float:
    """CPU seconds per module found, over all repositories together."""
    runs = [item[whose] for item in details.values()]
    return float(sum(item["cpu_seconds"] for item in runs) / max(1, sum(item["found"] for item in runs)))


def commit_of(path: str) -> str:
    return run_git(Path(path), "rev-parse", "HEAD").decode().strip()


def run_ours(path: str) -> dict[str, Any]:
    """What becomes of every module of a repository, each tried in the sandbox."""
    source = open_git(SourceConfig(SourceType.GIT, url=path), seed=1)
    counts: Counter[str] = Counter()
    start, used = time.monotonic(), cpu_seconds()
    with Sandbox(preload=("torch",), setup="musadata.mining.search:warm_up") as sandbox:
        miner = Miner(source)
        for unit in source.units():
            for item in miner.drafts(unit, sandbox):
                if not isinstance(item, KernelDraft):
                    counts["run" if isinstance(item, Draft) else item.reason] += 1
    seconds = {"seconds": time.monotonic() - start, "cpu_seconds": cpu_seconds() - used}
    found = sum(count for reason, count in counts.items() if reason not in NOT_MODULES)
    return {"run": counts["run"], "found": found, **seconds, "reasons": dict(counts.most_common())}


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
        listing = ["git", "-C", path, "archive", "HEAD", ":(glob)**/*.py"]
        archive = subprocess.run(listing, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(files)], input=archive, check=True)
        (Path(folder) / "generated").mkdir()
        command = [python, "main.py", "--generate-one", str(files), "--tests-dir", f"{folder}/generated"]
        start, used = time.monotonic(), cpu_seconds()
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
        seconds = {"seconds": time.monotonic() - start, "cpu_seconds": cpu_seconds() - used}
    found = re.findall(r"\('(\w+)', (\d+)\)", (done.stdout + done.stderr).rpartition("Stats: ")[2])
    stats = {name: int(count) for name, count in found}
    if "total" not in stats:
        raise SystemExit(f"benchmark: the rival failed on {path}: {done.stderr[-2000:]}")
    return {"run": stats.get("deduced_args_ok", 0), "found": stats["total"], **seconds, "stats": stats}


def measure_memory(counts: tuple[int, ...] = (10_000, 100_000)) -> tuple[list[Row], dict[str, Any]]:
    """Peak memory of a worker of stage 1, its sandbox included, over trees of copies of torch's own files."""
    peaks, seconds = {}, {}
    for count in counts:
        run = run_watched([sys.executable, "-m", "benchmarks.mining", "--mine-copies", str(count)])
        if run.code:
            raise SystemExit(f"benchmark: the worker failed: {run.output[-2000:]}")
        peaks[count], seconds[count] = run.peak_gb * 1024, run.seconds
    growth = peaks[counts[-1]] / peaks[counts[0]] - 1
    shown = f"{peaks[counts[0]]:.0f} MB, {peaks[counts[-1]]:.0f} MB: {growth:+.1%}"
    what = f"peak memory from {counts[0]:,} to {counts[-1]:,} source files"
    return [(what, "within 15 %", shown, growth <= 0.15)], {"megabytes": peaks, "seconds": seconds}


def mine_copies(count: int) -> None:
    """What a worker of stage 1 does with a source of so many files."""
    source = CodeFiles("copies", Copies(count), seed=1)
    counts: Counter[str] = Counter()
    with Sandbox(preload=("torch",), setup="musadata.mining.search:warm_up") as sandbox:
        miner = Miner(source)
        for unit in source.units():
            for item in miner.drafts(unit, sandbox):
                if not isinstance(item, KernelDraft):
                    counts["draft" if isinstance(item, Draft) else item.reason] += 1
    print(dict(counts))


class Copies:
    """Copies of the installed torch's Python files below 6 kB, every class under a name of its own; none is held.

    Of the files with modules one in twenty: what is mined in them is executed, and memory is asked for, not time.
    """

    def __init__(self, count: int):
        self._count = count
        root = Path(torch.__file__).parent
        files = sorted(path for path in root.rglob("*.py") if 0 < path.stat().st_size < 6000)
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
        modules = [text for text in texts if "Module)" in text]
        self._texts = [*(text for text in texts if "Module)" not in text), *modules[::20]]
        self._names = [re.findall(r"(?m)^class (\w+)", text) for text in self._texts]

    def paths(self) -> list[str]:
        return [f"p{number // 100:04d}/m{number:06d}.py" for number in range(self._count)]

    def read(self, path: str) -> bytes:
        number = int(path[-9:-3])
        text = self._texts[number % len(self._texts)]
        for name in self._names[number % len(self._texts)]:
            text = re.sub(rf"\b{name}\b", f"{name}{number}", text)
        return text.encode()


if __name__ == "__main__":
    main()
