"""Candidates verified per minute on one GPU host, against KernelBench's own harness, on the same candidates.

    python -m benchmarks.throughput --harness HARNESS --cores 16 --output build/throughput.json

HARNESS is a checkout of ScalingIntelligence/KernelBench. Candidates are those honest kernels of `tests/adversarial`
that its harness can express and compile ahead: float32 inputs only, built when the module is imported. Both sides start
from source (every candidate gets a comment that no cache has seen), make 5 correctness and 100 timing runs, and use all
cores and one GPU; both are whole commands, Python's start included. The harness, which takes several seconds for each,
gets some of the candidates, drawn evenly; those that it does not take are left out of its time and of the comparison.
Also measured: one candidate alone, from source to verdict, and what becomes of the harness's adversarial kernels.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.kernelbench_harness import write_stand_ins
from benchmarks.measuring import ROOT, Row, report
from tests.adversarial.programs import Program, read_exercise, read_programs

GOAL_RATIO, GOAL_COLD_SECONDS = 20.0, 3.0
_INCLUDE = "#include <torch/extension.h>"
_FULL = "_full_headers"  # ends the names of candidates for which nvcc needs PyTorch's own headers, nearly a minute each
_CHECKS = ["--input-sets", "5", "--timed-runs", "100"]


@dataclass(frozen=True)
class Pair:
    """A candidate, made new to every cache, and its reference."""

    name: str
    reference: str
    candidate: str


def choose(limit: int) -> list[Pair]:
    """Honest kernels whose reference only takes float32 tensors, spread over all of them."""
    nonce = f"// {time.time_ns()}\n"
    pairs = []
    for program in read_programs("honest"):
        exercise = read_exercise(program.value("task"))
        if _is_plain(program) and all(spec.dtype == "float32" for spec in exercise.task.inputs):
            source = program.source.replace(_INCLUDE, nonce + _INCLUDE)
            pairs.append(Pair(program.name, exercise.task.reference, source))
    step = max(1.0, len(pairs) / limit)
    return [pairs[int(index * step)] for index in range(min(limit, len(pairs)))]


def _is_plain(program: Program) -> bool:
    """Whether both sides can take it as it is: compiled from its own text, which a comment makes new, and so early
    that the harness finds it in its cache."""
    return _INCLUDE in program.source and any(_builds(statement) for statement in ast.parse(program.source).body)


def _builds(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return False
    called = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    names = {func.id if isinstance(func, ast.Name) else getattr(func, "attr", "") for func in called}
    return bool(names & {"load_inline", "load"})


def verify_batch(pairs: Sequence[Pair], work: Path, backend: str, cores: int) -> tuple[float, dict[str, Any]]:
    """Seconds of the whole command, and the verdicts by name."""
    import pyarrow as pa  # a device's machine may lack it
    import pyarrow.parquet as pq

    rows = [{"name": p.name, "reference": p.reference, "source": p.candidate} for p in pairs]
    given, out = work / f"candidates{len(pairs)}.parquet", work / f"verdicts{len(pairs)}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), given)
    command = [sys.executable, "-m", "musadata", "verify-batch", str(given), "--output", str(out)]
    command += ["--backend", backend, "--compile-workers", str(cores), *_CHECKS]
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True)
    seconds = time.perf_counter() - start
    return seconds, {row["name"]: row["verdict"] for row in pq.read_table(out).to_pylist()}


def verify_alone(pair: Pair, work: Path, backend: str) -> float:
    """Seconds of the whole command for one candidate that no cache knows."""
    reference, candidate = work / "reference.py", work / "candidate.py"
    reference.write_text(pair.reference)
    candidate.write_text(pair.candidate.replace(_INCLUDE, f"// {time.time_ns()}\n{_INCLUDE}"))
    command = [sys.executable, "-m", "musadata", "verify", "--reference", str(reference), "--candidate", str(candidate)]
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "--backend", backend, *_CHECKS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{pair.name} is not accepted: {done.stdout[-500:]} {done.stderr[-500:]}")
    return time.perf_counter() - start


def run_harness(
    pairs: Sequence[Pair],
    harness: Path,
    cores: int,
    seconds: float,
    seconds_each: float = 180.0,
    at_once: int = 1,
    full_precision: bool = False,
) -> dict[str, Any]:
    """What the harness reports, and in `wall_seconds` how long the whole command took; partial if time runs out."""
    work = Path(tempfile.mkdtemp(prefix="musadata-harness-"))
    try:
        for pair in pairs:
            (work / f"{pair.name}.reference.py").write_text(pair.reference)
            (work / f"{pair.name}.candidate.py").write_text(pair.candidate)
        write_stand_ins(work / "stand_ins")
        path = [str(harness / "src"), str(work / "stand_ins"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), "HOME": str(work)}
        command = [sys.executable, "-m", "benchmarks.kernelbench_harness", "--work", str(work), "--cores", str(cores)]
        command += ["--seconds-each", str(seconds_each), "--at-once", str(at_once)]
        command += ["--full-precision"] if full_precision else []
        start = time.perf_counter()
        with (work / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, process_group=0)
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()
        wall = time.perf_counter() - start
        found = work / "harness.json"
        if not found.exists():
            raise RuntimeError("the harness reports nothing: " + (work / "log").read_text(errors="replace")[-2000:])
        return {**json.loads(found.read_text()), "wall_seconds": wall}
    finally:
        shutil.rmtree(work, ignore_errors=True)


def judge_adversarial(harness: Path, backend: str) -> dict[str, str]:
    """Our verdicts on the harness's own cheats, on matrices of 512; none where the checkout lacks them."""
    from musadata.config import BackendType, VerifierConfig
    from musadata.verifier import Verifier

    folders = (harness / "adversarial", harness / "src" / "kernelbench" / "unit_tests" / "test_kernels")
    problem = harness / "KernelBench" / "level1" / "1_Square_matrix_multiplication_.py"
    reference = next((path for path in (folders[0] / "reference.py", problem) if path.is_file()), None)
    cheats = {
        name: path
        for name in ("non_default_stream", "result_reuse", "zero_out")
        for folder in folders
        for path in (folder / f"{name}.py", folder / f"{name}_kernel.py")
        if path.is_file()
    }
    if reference is None or not cheats:
        return {}
    found = {}
    with Verifier(VerifierConfig(backend=BackendType(backend))) as verifier:
        task = verifier.read_task(reference.read_text().replace("N = 2048 * 2", "N = 512"))
        for name, path in cheats.items():
            verdict = verifier.verify(task, path.read_text())
            rules = ", ".join(finding.rule for finding in verdict.findings)
            found[name] = "accepted" if verdict.accepted else f"{verdict.error_class}: {rules}"
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both and print; 1 if a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--harness", type=Path)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--candidates", type=int, default=48, help="whole rounds of the cores are fairest")
    parser.add_argument("--small", action="store_true", help="leave out the run over all of them")
    parser.add_argument("--harness-candidates", type=int, default=16, help="how many the harness judges; whole rounds")
    parser.add_argument("--harness-seconds", type=float, default=430.0, help="after which what it has done counts")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    pairs = choose(arguments.candidates)
    work = Path(tempfile.mkdtemp(prefix="musadata-throughput-"))
    try:
        return _measure(arguments, pairs, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _measure(arguments: argparse.Namespace, pairs: list[Pair], work: Path) -> int:
    backend, cores, harness = arguments.backend, arguments.cores, arguments.harness
    details: dict[str, Any] = {"torch": torch.__version__, "cores": cores}
    everything = choose(1000)
    rare = next(pair for pair in everything if "cooperative_groups" in pair.candidate)
    for pair in (pairs[0], rare):
        verify_alone(pair, work, backend)  # builds what is built once per machine, for each way to compile
    alone = sorted(verify_alone(pairs[0], work, backend) for _ in range(5))
    seconds, verdicts = verify_batch(pairs, work, backend, cores)
    accepted = {name for name, verdict in verdicts.items() if verdict["accepted"]}
    quick = [pair for pair in pairs if not pair.name.endswith(_FULL)]
    quick_seconds, _ = verify_batch(quick, work, backend, cores) if len(quick) < len(pairs) else (seconds, verdicts)
    quick_rate = len(quick) / quick_seconds * 60
    all_seconds, all_verdicts = seconds, verdicts
    if len(everything) > len(pairs) and not arguments.small:
        all_seconds, all_verdicts = verify_batch(everything, work, backend, cores)
    all_accepted = sum(verdict["accepted"] for verdict in all_verdicts.values())
    rate = len(pairs) / seconds * 60
    lines = [
        (
            "one candidate alone, cold, median s",
            f"<= {GOAL_COLD_SECONDS}",
            f"{alone[2]:.2f}",
            alone[2] <= GOAL_COLD_SECONDS,
        ),
        (f"candidates per minute, {len(pairs)} at once", "", f"{rate:.0f} ({len(accepted)} accepted)", True),
        ("... without those that need PyTorch's own headers", "", f"{quick_rate:.0f} of {len(quick)}", True),
        (
            f"candidates per minute, {len(all_verdicts)} at once",
            "all accepted",
            f"{len(all_verdicts) / all_seconds * 60:.0f} ({all_accepted} accepted)",
            all_accepted == len(all_verdicts),
        ),
    ]
    details |= {
        "alone_seconds": alone,
        "seconds": seconds,
        "quick_seconds": quick_seconds,
        "all_seconds": all_seconds,
        "verdicts": _short(all_verdicts),
    }
    if harness:
        rejected = judge_adversarial(harness, backend)
        said = str(rejected) if rejected else "not in this checkout"
        promise = "rejected" if rejected else ""
        lines.append(("KernelBench's adversarial kernels", promise, said, "accepted" not in rejected.values()))
        details["adversarial"] = rejected
    if harness and backend == "cuda":
        lines += _compare(pairs, arguments, rate, accepted, details)
        ratio = quick_rate / details["harness_per_minute"] if details["harness_per_minute"] else 0.0
        lines.append(("... without those that need PyTorch's own headers", "", f"{ratio:.1f}", True))
    report("throughput", lines, details, arguments.output)
    return 0 if all(line[3] for line in lines) else 1


def _compare(
    pairs: Sequence[Pair], arguments: argparse.Namespace, rate: float, accepted: set[str], details: dict[str, Any]
) -> list[Row]:
    """The harness on the same candidates."""
    step = max(1, len(pairs) // arguments.harness_candidates)
    some = pairs[::step][: arguments.harness_candidates]
    try:
        together = run_harness(some, arguments.harness, arguments.cores, arguments.harness_seconds)
    except RuntimeError as error:  # ours were measured all the same
        together = {"evaluations": {}, "compile_seconds": 0.0, "trouble": str(error)[-1500:]}
    done = together["evaluations"]
    taken = {name: item for name, item in done.items() if item["accepted"]}
    # What it rejects for reasons of form costs it nothing here: neither its evaluation nor its share of compiling.
    spent = together["compile_seconds"] * len(taken) / len(some) + sum(item["seconds"] for item in taken.values())
    rival = len(taken) / spent * 60 if taken else 0.0
    ratio = rate / rival if rival else 0.0
    details |= {"harness": together, "harness_per_minute": rival, "ratio": ratio}
    missed = sorted(set(taken) - accepted)
    return [
        ("the harness, candidates per minute", "> 0", f"{rival:.1f} ({len(taken)} of {len(some)} taken)", bool(taken)),
        ("candidates per minute, ours / the harness's", f">= {GOAL_RATIO:g}", f"{ratio:.1f}", ratio >= GOAL_RATIO),
        ("accepted by the harness and not by us", "none", ", ".join(missed) or "none", not missed),
    ]


def _short(verdicts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {
            "accepted": verdict["accepted"],
            "speedup": verdict["speedup"],
            "own_share": verdict["own_share"],
            "timings": verdict["timings"],
            "findings": [f"{finding['rule']} {finding['message'][:200]}" for finding in verdict["findings"]],
        }
        for name, verdict in verdicts.items()
    }


if __name__ == "__main__":
    raise SystemExit(main())
