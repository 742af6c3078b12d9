"""What the time of one cold verdict goes into, stage by stage, on this machine's device.

    python -m benchmarks.cold_start --output build/cold_start.json

A fresh process imports, opens a verifier and judges one candidate that no cache knows; what the trusted side does is
noted as it happens, in seconds since the process began. Beside it: the compiler alone on the same sources.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT, report

_INCLUDE = "#include <torch/extension.h>"


def main(argv: Sequence[str] | None = None) -> int:
    """Start the process that is watched, and print what it notes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--kernel", default="softmax_block_shuffle")
    parser.add_argument("--inside", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.inside is not None:
        print(json.dumps(_judge_watched(arguments.kernel, arguments.backend, arguments.inside)))
        return 0
    command = [
        sys.executable,
        "-m",
        "benchmarks.cold_start",
        "--backend",
        arguments.backend,
        "--kernel",
        arguments.kernel,
    ]
    runs = []
    for _ in range(2):
        start = time.time()
        done = subprocess.run([*command, "--inside", str(start)], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-1000:])
        runs.append([*json.loads(done.stdout.splitlines()[-1]), ["process ends", time.time() - start]])
    lines = [(what, "", f"{seconds:.2f} s", True) for what, seconds in runs[-1]]
    report("cold start", lines, {"runs": runs}, arguments.output)
    return 0


def _judge_watched(kernel: str, backend: str, start: float) -> list[tuple[str, float]]:
    notes: list[tuple[str, float]] = [("benchmark's own imports", time.time() - start)]

    def note(what: str) -> None:
        notes.append((what, time.time() - start))

    from musadata.config import BackendType, VerifierConfig
    from musadata.sandbox import start_ahead

    start_ahead()  # as the command does
    from musadata.verifier import Verifier
    from musadata.verifier.trusted.candidate_session import CandidateSession

    note("verifier imported")
    folder = ROOT / "tests" / "adversarial"  # read as files: their module imports torch
    source = (folder / "honest" / f"{kernel}.py").read_text().replace(_INCLUDE, f"// {time.time_ns()}\n{_INCLUDE}")
    task_name = source.partition("# task: ")[2].splitlines()[0]
    reference = (folder / "references" / f"{task_name}.py").read_text()
    served = CandidateSession.serve
    asked: set[str] = set()

    def serve(self: CandidateSession, question: object) -> object:
        kind = type(question).__name__
        if kind not in asked:
            note(f"asks: {kind}")
        answer = served(self, question)
        if kind not in asked:
            note(f"answered: {kind}")
        asked.add(kind)
        return answer

    CandidateSession.serve = serve  # type: ignore[method-assign]
    with Verifier(VerifierConfig(backend=BackendType(backend))) as verifier:
        note("verifier opened")
        opened = verifier._opened
        opened.backend = replace(opened.backend, compile=_noted(opened.backend.compile, "compiler ends", note))
        reading = _noted(verifier.read_reference, "reference read", note)
        object.__setattr__(verifier, "read_reference", reading)
        if opened.crosscheck is not None:
            object.__setattr__(opened.crosscheck, "_run", _noted(opened.crosscheck._run, "cross-check", note))
        object.__setattr__(opened.references, "_run", _noted(opened.references._run, "reference run", note))
        verdict = verifier.verify_text(reference, source)
        note(f"verdict: {verdict.stage} {'accepted' if verdict.accepted else verdict.findings}")
    note("verifier closed")
    return notes


def _noted(function: Callable[..., Any], what: str, note: Callable[[str], None]) -> Callable[..., Any]:
    def watched(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        note(what)
        return result

    return watched


if __name__ == "__main__":
    raise SystemExit(main())
