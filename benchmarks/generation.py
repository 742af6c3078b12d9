"""Generated tasks kept per second on one core, probe included, and how evenly they cover the families of work.

python -m benchmarks.generation [--source nnsmith] [--count 300] [--nodes 6] [--output FILE]

CPU seconds of this process and everything that it starts, so that a busy machine does not change the figure; the warm
start of the sandbox, paid once per worker, is left out. The limit that it is held against is drawing alone.
"""

import argparse
import os
import time
from collections import Counter
from pathlib import Path

import psutil

from benchmarks.measuring import report
from musadata.config import SourceConfig, SourceType, TasksConfig
from musadata.records import Draft, Provenance, Reject, SourceKind, Task
from musadata.sandbox import Sandbox
from musadata.sources import open_source
from musadata.sources.protocol import CodeFile
from musadata.tasks.probe import PRELOAD, probe
from musadata.tasks.selection import DECISIONS, KEPT, Signatures, select

PROMISED_RATE, PROMISED_SHARE = 5.0, 0.03
GENERATOR = "musadata.sources.generated.printer"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=["nnsmith", "composition", "operators"], default="nnsmith")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    config, seed = TasksConfig(), 20260601
    source = open_source(SourceConfig(SourceType(options.source), count=options.count, nodes=options.nodes), seed)
    kept: list[Task] = []
    rejects: Counter[str] = Counter()
    with Sandbox(preload=(*PRELOAD, GENERATOR)) as sandbox:
        probe(Draft(SourceKind.OPERATOR, "", "", Provenance("", "", "", "", "", "MIT")), config, sandbox, seed)
        cpu, wall, drawing = _cpu_seconds(), time.monotonic(), 0.0
        for unit in source.units():
            before = _cpu_seconds()
            drafts = list(source.read(unit, sandbox))
            drawing += _cpu_seconds() - before
            for draft in drafts:
                assert not isinstance(draft, CodeFile)  # which only repositories hold
                result = draft if isinstance(draft, Reject) else probe(draft, config, sandbox, seed)
                if isinstance(result, Reject):
                    rejects[result.reason] += 1
                else:
                    kept.append(result)
        decisions = select(Signatures.of(kept), config)
        cpu, wall = _cpu_seconds() - cpu, time.monotonic() - wall
    tasks = [task for task, decision in zip(kept, decisions, strict=True) if decision == KEPT]
    families = Counter(task.operator_family.value for task in tasks)
    rarest, fewest = min(families.items(), key=lambda pair: pair[1])
    rate, share = len(tasks) / cpu, fewest / len(tasks)
    rows = [
        ("tasks kept a second, one core", f">= {PROMISED_RATE:.0f}", f"{rate:.1f}", rate >= PROMISED_RATE),
        (f"share of the rarest family ({rarest})", ">= 3 %", f"{100 * share:.1f} %", share >= PROMISED_SHARE),
        (f"families among {len(tasks)} tasks", "", str(len(families)), True),
        ("of the time, spent drawing (the limit)", "", f"{100 * drawing / cpu:.0f} %", True),
    ]
    details = {
        "source": options.source,
        "drawn": options.count,
        "kept": len(tasks),
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "families": dict(families.most_common()),
        "levels": dict(Counter(task.level for task in tasks)),
        "operators": len({operator for task in tasks for operator in task.operators}),
        "rejects": dict(rejects + Counter(DECISIONS[decision] for decision in decisions if decision != KEPT)),
    }
    report(f"generated tasks: {options.source}", rows, details, options.output)
    print(details)


def _cpu_seconds() -> float:
    """User and system time of this process, of those that it started, and of those that they waited for."""
    while True:
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        try:
            return sum(sum(process.cpu_times()[:4]) for process in processes)
        except psutil.NoSuchProcess:  # it ended just now, and is in its parent's time the next time round
            continue


if __name__ == "__main__":
    main()
