"""Rows of kernels, and tasks with a candidate that people wrote, from repositories of CUDA code.

    python -m benchmarks.kernels Dao-AILab/causal-conv1d=PATH rosinality/stylegan2-pytorch=PATH … [--verify]

Counts per repository: rows, rows with an equivalent in PyTorch, tasks that the probe kept, rejects by reason; with
`--verify`, what the verifier says of the candidates on the emulated backend, at most `--most` of a repository.

The policy is `audit`: people prepare and finish their kernels' data with PyTorch, which other policies
refuse. A verdict is what compilation, execution and comparison say; what this backend cannot express is none.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measuring import report
from musadata.config import BackendType, SourceConfig, SourceType, TasksConfig, VerifierConfig
from musadata.mining.kernels.kernel_rows import GRADIENT, KernelMiner
from musadata.mining.kernels.kernel_tasks import check_licenses
from musadata.records import Kernel, Reject, Task
from musadata.sandbox import Sandbox
from musadata.sources.code import CodeFiles
from musadata.sources.git import open_git
from musadata.tasks.probe import PRELOAD, probe
from musadata.verifier import Verifier

SEED = 20260601
PROMISED_TASKS, PROMISED_REPOSITORIES = 60, 10
# Bound functions that launch kernels, of rows whose licences are permissive; each once, however many wrappers call it.
KERNELS, REFERENCES, TASKS = "bound kernels", "bound kernels with a reference", "bound kernels with a task"
GRADIENTS, PROMISED_GRADIENTS = "tasks from backward kernels", 15
PROMISED_SHARES = {REFERENCES: 0.4, TASKS: 0.25}
Done = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Judged:
    """A kernel that people wrote, and what the verifier says of it."""

    repository: str
    wrapper: str
    place: str
    equivalent: str
    outcome: str
    feedback: str

    @property
    def is_verdict(self) -> bool:
        """Whether the outcome is a verdict on the candidate itself, not on what kept the verifier from one."""
        return self.outcome not in ("infra", "None")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", help="OWNER/NAME=PATH of a clone")
    parser.add_argument("--verify", action="store_true", help="judge the candidates, which compiles them")
    parser.add_argument("--most", type=int, default=6, help="candidates of one repository that are judged, drawn")
    parser.add_argument("--progress", type=Path, help="a file of what a rerun leaves out")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    done = _read(options.progress)
    with Sandbox(preload=(*PRELOAD, "musadata.mining.search")) as sandbox:
        for name, path in (item.split("=", 1) for item in options.repositories):
            if not done.get(name, {}).get("finished"):
                source = open_git(SourceConfig(SourceType.GIT, url=path), SEED)
                counts, solved = count(source, sandbox)
                judged = done.get(name, {}).get("judged", [])
                done[name] = {"counts": dict(counts), "revision": source.provenance("", "").revision, "judged": judged}
                for case in judge(name, solved, options.most, known=judged) if options.verify else ():
                    judged.append(asdict(case))
                    _write(done, options.progress)
                done[name]["finished"] = True
                _write(done, options.progress)
    asked = [item.split("=", 1)[0] for item in options.repositories]
    write_report({name: done[name] for name in asked}, options.output, verified=options.verify)


def _read(progress: Path | None) -> Done:
    found = json.loads(progress.read_text()) if progress and progress.exists() else {}
    assert isinstance(found, dict)
    return found


def _write(done: Done, progress: Path | None) -> None:
    if progress:
        progress.write_text(json.dumps(done))


def write_report(done: Done, output: Path | None, *, verified: bool) -> None:
    """The table and the file of what was found."""
    totals = sum((Counter(item["counts"]) for item in done.values()), Counter[str]())
    rows = [(name, "", str(totals[name]), True) for name in ("rows", "rows with an equivalent", "tasks", KERNELS)]
    for name, least in PROMISED_SHARES.items():
        share = totals[name] / max(1, totals[KERNELS])
        rows.append((name, f">= {least:.0%}", f"{totals[name]}, {share:.0%}", share >= least))
    found = totals[GRADIENTS]
    rows.append((GRADIENTS, f">= {PROMISED_GRADIENTS}", str(found), found >= PROMISED_GRADIENTS))
    judged = [Judged(**case) for item in done.values() for case in item["judged"]]
    if verified:
        verdicts = [case for case in judged if case.is_verdict]
        rows.append(("human kernels judged with a PyTorch equivalent", "", _shown(verdicts), True))
        rows.append(_promised("accepted, of these", [case for case in verdicts if case.outcome == "accepted"]))
        rows.append(("not judged: beyond this backend", "", str(len(judged) - len(verdicts)), True))
        solved = {name: item for name, item in done.items() if item["counts"].get("tasks")}
        rows.append(("repositories; with such tasks", "", f"{len(done)}; {len(solved)}", True))
        rows += [(f"{name}: tasks, verdicts", "", _by_verdict(item), True) for name, item in solved.items()]
    details = {
        "repositories": {name: item["counts"] for name, item in done.items()},
        "revisions": {name: item["revision"] for name, item in done.items()},
        "judged": [asdict(case) for case in judged],
    }
    report("kernels", rows, details, output)


def _promised(what: str, verdicts: Sequence[Judged]) -> tuple[str, str, str, bool]:
    places = {case.repository for case in verdicts}
    kept = len(verdicts) >= PROMISED_TASKS and len(places) >= PROMISED_REPOSITORIES
    return what, f">= {PROMISED_TASKS} from >= {PROMISED_REPOSITORIES}", _shown(verdicts), kept


def _by_verdict(item: dict[str, Any]) -> str:
    """A repository's tasks, and how many of its judged candidates have each outcome."""
    outcomes = Counter(case["outcome"] for case in item["judged"])
    tasks = Counter(item["counts"])["tasks"]
    return ", ".join([str(tasks), *(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))])


def _shown(cases: Sequence[Judged]) -> str:
    return f"{len(cases)} from {len({case.repository for case in cases})} repositories"


def count(source: CodeFiles, sandbox: Sandbox) -> tuple[Counter[str], list[tuple[Kernel, Task]]]:
    """What becomes of a repository's kernels, and those that have a task."""
    counts, solved, config = Counter[str](), [], TasksConfig()
    bound: dict[str, set[tuple[str, str]]] = {KERNELS: set(), REFERENCES: set(), TASKS: set()}
    miner = KernelMiner(source)
    for unit in source.units():
        for item in miner.rows(unit, sandbox):
            if isinstance(item, Reject):
                counts[f"reject: {item.dataset} {item.reason}"] += 1
                continue
            counts["rows"] += 1
            counts["rows with an equivalent"] += bool(item.kernel.equivalent)
            forbidden = check_licenses(item.kernel, config.licenses)
            key = (item.kernel.extension, item.kernel.binding)
            if forbidden is not None:
                counts[f"reject: license {forbidden.detail}"] += 1
                continue
            bound[KERNELS].add(key)
            if item.kernel.equivalent:
                bound[REFERENCES].add(key)
            if item.draft is not None:
                task = probe(item.draft, config, sandbox, SEED)
                if isinstance(task, Reject):
                    counts[f"reject: probe {task.reason}"] += 1
                else:
                    counts["tasks"] += 1
                    counts[GRADIENTS] += item.kernel.equivalent.startswith(GRADIENT)
                    bound[TASKS].add(key)
                    solved.append((item.kernel, task))
    return counts + Counter({what: len(found) for what, found in bound.items()}), solved


def judge(
    name: str, solved: Sequence[tuple[Kernel, Task]], most: int, known: Sequence[dict[str, Any]]
) -> Iterator[Judged]:
    """What the verifier says of candidates, `most` of them, each text once; those in `known` have their verdict."""
    different = list({kernel.candidate: (kernel, task) for kernel, task in reversed(solved)}.values())[::-1]
    drawn = sorted(Random(SEED).sample(range(len(different)), min(most, len(different))))
    judged = {(case["wrapper"], case["place"], case["equivalent"]) for case in known}
    config = VerifierConfig(backend=BackendType.EMULATED, input_sets=1, policy="audit")
    with Verifier(config) as verifier:
        for kernel, task in map(different.__getitem__, drawn):
            place = f"{kernel.provenance.path}:{kernel.provenance.lines}"
            if (kernel.wrapper, place, kernel.equivalent) in judged:
                continue
            verdict = verifier.verify(task, kernel.candidate)
            outcome = "accepted" if verdict.accepted else str(verdict.error_class)
            feedback = "" if verdict.accepted else " ".join(verdict.feedback.split())[:300]
            print(f"{name} {kernel.wrapper}: {outcome}: {feedback!r}", flush=True)
            yield Judged(name, kernel.wrapper, place, kernel.equivalent, outcome, feedback)


if __name__ == "__main__":
    main()
