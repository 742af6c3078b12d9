"""Rows of kernels, and tasks with a candidate that people wrote, from repositories of CUDA code.

    python -m benchmarks.kernels Dao-AILab/causal-conv1d=PATH rosinality/stylegan2-pytorch=PATH … [--verify]

Counts per repository: rows, rows with an equivalent in PyTorch, tasks that the probe kept, rejects by reason; with
`--verify`, how many of the candidates the verifier accepts on the emulated backend.
"""

import argparse
from collections import Counter
from pathlib import Path

from benchmarks.measuring import report
from musadata.config import BackendType, SourceConfig, SourceType, TasksConfig, VerifierConfig
from musadata.mining.kernels.kernel_rows import KernelMiner
from musadata.mining.kernels.kernel_tasks import check_licenses
from musadata.records import Kernel, Reject, Task
from musadata.sandbox import Sandbox
from musadata.sources.code import CodeFiles
from musadata.sources.git import open_git
from musadata.tasks.probe import PRELOAD, probe
from musadata.verifier import Verifier

SEED = 20260601
PROMISED_TASKS, PROMISED_REPOSITORIES = 25, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", help="OWNER/NAME=PATH of a clone")
    parser.add_argument("--verify", action="store_true", help="judge the candidates, which compiles them")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    details, revisions, totals = {}, {}, Counter[str]()
    with Sandbox(preload=(*PRELOAD, "musadata.mining.search")) as sandbox:
        for name, path in (item.split("=", 1) for item in options.repositories):
            source = open_git(SourceConfig(SourceType.GIT, url=path), SEED)
            counts, solved = count(source, sandbox)
            if options.verify:
                counts += judge(solved)
            details[name], totals = dict(counts), totals + counts
            revisions[name] = source.provenance("", "").revision
    names = ("rows", "rows with an equivalent", "tasks", "accepted")
    rows = [(name, "", str(totals[name]), True) for name in names if name != "accepted" or options.verify]
    if options.verify:
        judged = {name: sum(map(counts.__getitem__, filter(is_verdict, counts))) for name, counts in details.items()}
        total, places = sum(judged.values()), sum(map(bool, judged.values()))
        shown = f"{total} from {places} repositories"
        promise = f">= {PROMISED_TASKS} from >= {PROMISED_REPOSITORIES}"
        kept = total >= PROMISED_TASKS and places >= PROMISED_REPOSITORIES
        rows.append(("human kernels judged with a PyTorch equivalent", promise, shown, kept))
    report("kernels", rows, {"repositories": details, "revisions": revisions}, options.output)


def is_verdict(outcome: str) -> bool:
    """Whether a count is one of verdicts on the candidates themselves, not of what kept the verifier from one."""
    return outcome == "accepted" or (outcome.startswith("not accepted") and not outcome.endswith((": infra", ": None")))


def count(source: CodeFiles, sandbox: Sandbox) -> tuple[Counter[str], list[tuple[Kernel, Task]]]:
    """What becomes of a repository's kernels, and those that have a task."""
    counts, solved, config = Counter[str](), [], TasksConfig()
    miner = KernelMiner(source)
    for unit in source.units():
        for item in miner.rows(unit, sandbox):
            if isinstance(item, Reject):
                counts[f"reject: {item.dataset} {item.reason}"] += 1
                continue
            counts["rows"] += 1
            counts["rows with an equivalent"] += bool(item.kernel.equivalent)
            forbidden = check_licenses(item.kernel, config.licenses)
            if forbidden is not None:
                counts[f"reject: license {forbidden.detail}"] += 1
            elif item.draft is not None:
                task = probe(item.draft, config, sandbox, SEED)
                if isinstance(task, Reject):
                    counts[f"reject: probe {task.reason}"] += 1
                else:
                    counts["tasks"] += 1
                    solved.append((item.kernel, task))
    return counts, solved


def judge(solved: list[tuple[Kernel, Task]]) -> Counter[str]:
    """Verdicts on the candidates."""
    counts = Counter[str]()
    with Verifier(VerifierConfig(backend=BackendType.EMULATED, input_sets=1)) as verifier:
        for kernel, task in solved:
            verdict = verifier.verify(task, kernel.candidate)
            outcome = "accepted" if verdict.accepted else f"not accepted: {verdict.error_class}"
            counts[outcome] += 1
            print(f"{kernel.wrapper}: {outcome}: {verdict.feedback[:200]!r}", flush=True)
    return counts


if __name__ == "__main__":
    main()
