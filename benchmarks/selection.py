"""The choice among accepted candidates: labelled pairs, against other ways to choose, its cost; and leaks of splits.

    python -m benchmarks.selection [--corpus CORPUS] [--output benchmarks/results/selection.json]

Pairs: kernels in selection_pairs_*.yaml, whose heads tell what their first result was. Ways to choose: of every task
with accepted candidates of different structures, sets of equal size are drawn at random, and taken by speed. Tasks are
those of the pairs and the honest programs of tests/adversarial, with eight samples each, in which one way of writing is
drawn as often as all others together, and those of CORPUS as they are. Where nothing was timed, speeds are drawn: one
for each structure, and a few per cent around it for each sample. Cost: 100,000 candidates in 10,000 tasks, made of the
programs at hand, whose kernels have names of their own in each, so that the code of most was read before; and the same
number of programs none of which was read before, by the time that each different program at hand takes in turn. Leaks:
all pairs of tasks of CORPUS in different splits, one by one.
"""

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import yaml

from benchmarks.measuring import Row, report
from musadata.config import TasksConfig
from musadata.sampling.diversity import choose_diverse
from musadata.sampling.structure import describe_structure, distance, is_near_identical
from musadata.storage.shards import SPLITS
from musadata.tasks.selection import COLUMNS, KEPT, Signatures, select
from musadata.tasks.splits import assign_splits, split_size
from musadata.tasks.text import PERMUTATIONS
from musadata.training_config import KeepBy

HERE = Path(__file__).parent
HONEST = HERE.parent / "tests" / "adversarial" / "honest"
SEED = 20260601
SAMPLES = 8
KEEP = 4
DRAWS = 20
CANDIDATES, TASKS = 100_000, 10_000
Pool = tuple[list[str], list[float | None]]  # one task's accepted programs, and their speedups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--candidates", type=int, default=CANDIDATES)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows, details = judge_pairs()
    written, own = list(written_pools()), list(corpus_pools(options.corpus)) if options.corpus else []
    for name, pools in (("written programs", written), ("the corpus", own)):
        if pools:
            more, detail = compare_choices(name, pools)
            rows, details = rows + more, details | {name: detail}
    programs = [source for sources, _ in [*written, *own] for source in sources]
    rows += [measure_first_reading(programs), *measure_cost(programs, options.candidates)]
    if options.corpus:
        rows += measure_leaks(options.corpus)
    report("selection", rows, details, options.output)


def judge_pairs() -> tuple[list[Row], dict[str, Any]]:
    """Whether disguised programs are the same and different ones are not, with those that fail."""
    same, different, wrong = 0, 0, []
    for path in sorted(HERE.glob("selection_pairs_*.yaml")):
        groups = yaml.safe_load(path.read_text(encoding="utf-8"))
        again = groups.pop("again")
        for group, programs in groups.items():
            structures = {name: describe_structure(code) for name, code in programs.items()}
            for name, code in again.get(group, {}).items():
                same += 1
                if not is_near_identical(structures[name], describe_structure(code)):
                    wrong.append(f"{group}: {name} is not itself")
            for one, other in combinations(structures, 2):
                different += 1
                if is_near_identical(structures[one], structures[other]):
                    wrong.append(f"{group}: {one} is {other}")
    split = sum("not itself" in one for one in wrong)
    found, apart = 1 - split / same, 1 - (len(wrong) - split) / different
    rows = [
        ("labelled pairs", ">= 60", str(same + different), same + different >= 60),
        (f"the same in other words ({same} pairs)", "100 %", f"{found:.1%}", found == 1),
        (f"different programs told apart ({different} pairs)", ">= 95 %", f"{apart:.1%}", apart >= 0.95),
    ]
    return rows, {"wrong_pairs": wrong}


def written_pools() -> Iterator[Pool]:
    """Samples of the tasks for which we wrote several programs."""
    ways: defaultdict[str, list[list[str]]] = defaultdict(list)
    for path in sorted(HERE.glob("selection_pairs_*.yaml")):
        groups = yaml.safe_load(path.read_text(encoding="utf-8"))
        again = groups.pop("again")
        for group, programs in groups.items():
            ways[group] += [
                [code, *([again[group][name]] if name in again.get(group, {}) else [])]
                for name, code in programs.items()
            ]
    for path in sorted(HONEST.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        reference = re.search(r"^# task: (\S+)", text, re.M)
        if reference and "__global__" in text:
            ways[reference.group(1)].append([text])
    for group, forms in sorted(ways.items()):
        if len(forms) > 2:
            draw = random.Random(f"{SEED}/{group}")
            usual = draw.choice(forms)
            samples = [draw.choice(usual if draw.random() < 0.5 else draw.choice(forms)) for _ in range(SAMPLES)]
            yield samples, draw_speeds(samples, draw)


def corpus_pools(corpus: Path) -> Iterator[Pool]:
    """The accepted candidates of a corpus, by task."""
    columns = ("task_id", "accepted", "source", "speedup")
    pools: defaultdict[str, list[tuple[str, float | None]]] = defaultdict(list)
    for path in sorted((corpus / "candidates").glob("*.parquet")):
        table = pq.read_table(path, columns=list(columns))
        for task, accepted, source, speedup in zip(*(table.column(name).to_pylist() for name in columns), strict=True):
            if accepted:
                pools[task].append((source, speedup))
    for task, found in sorted(pools.items()):
        sources, speedups = [source for source, _ in found], [speedup for _, speedup in found]
        timed = all(speedup is not None for speedup in speedups)
        yield sources, speedups if timed else draw_speeds(sources, random.Random(f"{SEED}/{task}"))


def draw_speeds(sources: Sequence[str], draw: random.Random) -> list[float | None]:
    base: dict[str, float] = {}
    for source in sources:
        base.setdefault(describe_structure(source).label, draw.lognormvariate(0, 0.5))
    return [base[describe_structure(source).label] * draw.uniform(0.97, 1.03) for source in sources]


def compare_choices(name: str, pools: Sequence[Pool]) -> tuple[list[Row], dict[str, Any]]:
    """Our choice against random draws and the fastest, in sets of equal size of two or more."""
    totals: defaultdict[str, float] = defaultdict(float)
    compared = 0
    for number, (sources, speedups) in enumerate(pools):
        choices = choose_diverse(sources, speedups, KEEP, KeepBy.STRUCTURE)
        ours = [index for index, choice in enumerate(choices) if choice.chosen]
        if len(ours) < 2:
            continue
        compared += 1
        draw = random.Random(f"{SEED}/{number}")
        ranked = sorted(range(len(sources)), key=lambda index: (-(speedups[index] or 0.0), index))
        totals["ours"] += _mean_distance([ours], sources)
        totals["random"] += _mean_distance([draw.sample(range(len(sources)), len(ours)) for _ in range(DRAWS)], sources)
        totals["fastest"] += _mean_distance([ranked[: len(ours)]], sources)
    apart = {way: total / max(1, compared) for way, total in totals.items()}
    if not compared:
        return [(f"{name}: tasks with different candidates", "", "0", True)], {}
    ratio = apart["ours"] / apart["random"]
    what = f"{name}: mean distance, ours to random, in sets of {compared} tasks"
    return [(what, ">= 1.3x", f"{ratio:.2f}x", ratio >= 1.3)], {"tasks": compared, "mean_distance": apart}


def _mean_distance(sets: Sequence[Sequence[int]], sources: Sequence[str]) -> float:
    """The mean over sets of the mean distance between two programs of one."""
    total = 0.0
    for some in sets:
        pairs = combinations((describe_structure(sources[index]) for index in some), 2)
        far = [distance(one, other) for one, other in pairs]
        total += sum(far) / len(far) / len(sets)
    return total


def measure_cost(programs: Sequence[str], candidates: int) -> list[Row]:
    """CPU time and memory of describing and choosing, each candidate a text of its own."""
    draw, tasks, seconds = random.Random(SEED), candidates * TASKS // CANDIDATES, 0.0
    characters, per_task = 0, candidates // max(1, tasks)
    for task in range(tasks):
        forms = draw.sample(programs, min(len(programs), per_task // 2))
        sources = [rename(draw.choice(forms), f"{task}x{sample}") for sample in range(per_task)]
        characters += sum(map(len, sources))
        start = time.process_time()
        choose_diverse(sources, [None] * len(sources), KEEP)
        seconds += time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    what = f"{candidates:,} candidates in {tasks:,} tasks, {characters / candidates / 1000:.1f} kB each"
    return [
        (f"CPU time of {what}", "<= 60 s", f"{seconds:.1f} s", seconds <= 60),
        ("peak memory", "<= 1 GB", f"{peak:.2f} GB", peak <= 1),
    ]


def measure_first_reading(programs: Sequence[str]) -> Row:
    """CPU time of describing different programs in turn, in a process that has read none of them, scaled up."""
    different = sorted(set(programs))
    run = subprocess.run([sys.executable, "-c", _READ_ALL], input=json.dumps(different), capture_output=True, text=True)
    seconds = float(run.stdout) * CANDIDATES / len(different)
    what = f"CPU time of reading {CANDIDATES:,} programs for the first time, from {len(different)}"
    return what, "", f"{seconds:.1f} s", True


_READ_ALL = """
import json, sys, time
from musadata.sampling.structure import describe_structure
programs = json.load(sys.stdin)
start = time.process_time()
for program in programs:
    describe_structure(program)
print(time.process_time() - start)
"""


def rename(source: str, mark: str) -> str:
    """The program with other names for its kernels."""
    names = set(re.findall(r"__global__[^;{(]*?(\w+)\s*\(", source))
    if not names:
        return f"{source}\n# {mark}"
    return re.sub(rf"\b({'|'.join(map(re.escape, names))})\b", rf"\1_{mark}", source)


def measure_leaks(corpus: Path) -> list[Row]:
    """Sizes of splits, and pairs of alike tasks in different ones, found without the code that makes the splits."""
    tables = [pq.read_table(path, columns=list(COLUMNS)) for path in sorted((corpus / "_probed").glob("*.parquet"))]
    config, signatures = TasksConfig(), Signatures.read(tables, sum(map(len, tables)))
    decisions = select(signatures, config)
    splits = assign_splits(signatures, decisions, config.duplicate_similarity)
    tasks = [row for table in tables for row in table.to_pylist()]
    kept = [(task, split) for task, split, one in zip(tasks, splits, decisions, strict=True) if one == KEPT]
    leaks = dict.fromkeys(("graph", "text", "structure"), 0)
    for (one, first), (other, second) in combinations(kept, 2):
        if first != second:
            equal = np.count_nonzero(np.equal(one["text_signature"], other["text_signature"]))
            leaks["graph"] += one["graph_fingerprint"] == other["graph_fingerprint"]
            leaks["text"] += bool(equal / PERMUTATIONS >= config.duplicate_similarity)
            leaks["structure"] += set(one["operators"]) == set(other["operators"])
    counts = [int(np.count_nonzero([split == index for _, split in kept])) for index in range(len(SPLITS))]
    shown, wanted = ", ".join(f"{name} {one}" for name, one in zip(SPLITS, counts, strict=True)), split_size(len(kept))
    rows = [
        (f"leaks between splits by {what}, of {len(kept)} tasks", "0", str(count), not count)
        for what, count in leaks.items()
    ]
    return [*rows, (f"tasks by split, of {len(kept)}", f">= {wanted} each", shown, min(counts) >= wanted)]


if __name__ == "__main__":
    main()
