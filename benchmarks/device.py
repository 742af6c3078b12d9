"""Everything that needs a GPU, in one command, within nine minutes.

    python -m benchmarks.device --output build/device --harness HARNESS
    python -m benchmarks.device --output build/device --dry-run      # the plumbing, emulated, on a machine with no GPU

Each part is a command of its own with its own time limit, and writes its own JSON; a part that fails or takes too long
is reported and the next begins. `summary.json` holds what became of each, and the device, driver, CUDA and torch.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT, describe_machine

Words = tuple[str, ...]  # of a command

_PYTHON = sys.executable
_NEEDING_ALL = ("relu_float4", "row_sum_labelled_tiles")  # common headers and others


@dataclass(frozen=True)
class Part:
    """One command. `results`: the JSON file that it writes, if it does."""

    name: str
    command: Words
    seconds: float
    results: str = ""


def plan_parts(output: Path, harness: Path | None, dry: bool, cores: int, annotated: Path | None) -> list[Part]:
    """The parts in the order in which they matter; a corpus only where there is one of the quickstart to begin with."""
    backend = "emulated" if dry else "cuda"
    module = (_PYTHON, "-m")

    def to(name: str) -> Words:
        return "--output", str(output / f"{name}.json")

    throughput: Words = (
        *module,
        "benchmarks.throughput",
        "--backend",
        backend,
        "--cores",
        str(cores),
        *to("throughput"),
    )
    throughput += ("--harness", str(harness)) if harness else ()
    throughput += ("--candidates", "3") if dry else ("--candidates", "32", "--harness-seconds", "250")
    spread = (*module, "benchmarks.timing_spread", "--backend", backend, *to("timing_spread"))
    agreement: Words = (*module, "benchmarks.agreement", "--workers", str(cores), *to("agreement"))
    agreement += ("--limit", "4", "--second", "emulated") if dry else ()
    corpus = (*module, "benchmarks.device_corpus", "--annotated", str(annotated), "--backend", backend, *to("corpus"))
    sizes = (*module, "benchmarks.measure_size", "--backend", backend, *to("measure_size"))
    problems: Words = (*module, "benchmarks.kernelbench", str(harness), "--backend", backend, "--cores", str(cores))
    problems += (*to("kernelbench"), "--minutes", "3", "--harness-minutes", "4.5")
    problems += ("--candidates", str(harness / "candidates.json")) if harness else ()
    problems += ("--per-level", "2") if dry else ("--per-level", "16", "--harness-candidates", "16")
    tests = (*module, "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests/verifier")
    return [
        Part(
            "libraries",
            (*module, "benchmarks.device", "--build", "--backend", backend, *to("libraries")),
            90,
            "libraries",
        ),
        Part("measure size", sizes, 240, "measure_size"),
        *([Part("kernelbench", problems, 520, "kernelbench")] if harness else []),
        Part(
            "cold start", (*module, "benchmarks.cold_start", "--backend", backend, *to("cold_start")), 60, "cold_start"
        ),
        Part("tests", tests, 100),
        Part("timing spread", spread if not dry else (*spread, "--runs", "2"), 150, "timing_spread"),
        Part("throughput", throughput, 420, "throughput"),
        Part("agreement", agreement, 150, "agreement"),
        *([Part("corpus", corpus, 420, "corpus")] if annotated else []),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all parts; 0 if every one of them ended well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--harness", type=Path, help="a checkout of ScalingIntelligence/KernelBench")
    parser.add_argument("--annotated", type=Path, help="a corpus of the quickstart, to judge its candidates here")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--minutes", type=float, default=9.0, help="for all parts together")
    parser.add_argument("--only", default="", help="names of parts, separated by commas")
    parser.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--backend", default="cuda", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.build:
        return build_libraries(arguments.backend, arguments.output)
    harness = arguments.harness.resolve() if arguments.harness else None
    output: Path = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * arguments.minutes
    annotated = arguments.annotated.resolve() if arguments.annotated else None
    parts = plan_parts(output, harness, arguments.dry_run, os.cpu_count() or 1, annotated)
    chosen = [name.strip() for name in arguments.only.split(",") if name.strip()]
    found: dict[str, Any] = {
        "machine": describe_machine(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "parts": {},
    }
    for part in parts:
        if chosen and part.name not in chosen:
            continue
        found["parts"][part.name] = run_part(part, output, min(part.seconds, end - time.monotonic()))
        (output / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"\n{'part':<16}{'seconds':>9}  outcome")
    for name, part_found in found["parts"].items():
        print(f"{name:<16}{part_found['seconds']:>9.1f}  {part_found['outcome']}")
    return 0 if all(item["outcome"] == "ok" for item in found["parts"].values()) else 1


def run_part(part: Part, output: Path, seconds: float) -> dict[str, Any]:
    """What became of one part; its whole process group ends with it."""
    print(f"\n=== {part.name} (up to {seconds:.0f} s)", flush=True)
    if seconds < 5:
        return {"outcome": "no time left", "seconds": 0.0}
    start = time.monotonic()
    log = output / f"{part.name.replace(' ', '_')}.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(part.command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, process_group=0)
        try:
            code: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
    text = log.read_text(errors="replace")
    print(text[-3500:], flush=True)
    log.unlink()  # its end goes into the summary: few files are easier to bring back
    outcome = "ok" if code == 0 else "takes too long" if code is None else f"exit code {code}"
    if part.results and not (output / f"{part.results}.json").exists():
        outcome += ", no results"
    return {"outcome": outcome, "seconds": time.monotonic() - start, "end_of_log": text[-6000:]}


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def compile_bytecode() -> None:
    """What an installation leaves behind and a copied environment may lack: else every process, ours and the
    harness's, compiles PyTorch's Python anew."""
    folders = [
        Path(str(spec.submodule_search_locations[0]))
        for name in ("torch", "numpy", "pyarrow", "musadata")
        if (spec := importlib.util.find_spec(name)) and spec.submodule_search_locations
    ]
    subprocess.run([_PYTHON, "-m", "compileall", "-q", "-j", "0", *map(str, folders)], check=False)


def build_libraries(backend: str, output: Path) -> int:
    """Build what is built once per machine, by first verdicts, and note how long that takes."""
    from musadata.config import BackendType, VerifierConfig
    from musadata.rows import plain
    from musadata.verifier import Verifier
    from tests.adversarial.programs import read_exercise, read_programs

    compile_bytecode()
    programs = [item for item in read_programs("honest") if item.name in _NEEDING_ALL]
    seconds = {}
    verdicts = {}
    for kind in dict.fromkeys([backend, "emulated"]):
        with Verifier(VerifierConfig(backend=BackendType(kind))) as verifier:
            for program in programs:
                start = time.monotonic()
                exercise = read_exercise(program.value("task"))
                verdict = verifier.verify(exercise.task, program.source, exercise.shape_sets)
                name = f"{kind} {program.name}"
                seconds[name], verdicts[name] = time.monotonic() - start, plain(verdict)
                print(f"{name}: first verdict after {seconds[name]:.1f} s: {verdict.stage} {verdict.findings}")
    output.write_text(json.dumps({"seconds": seconds, "verdicts": verdicts}, indent=1) + "\n")
    return 0 if all(verdict["accepted"] for verdict in verdicts.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
