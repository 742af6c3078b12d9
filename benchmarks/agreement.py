"""Whether the emulated and the cuda backend say the same of the same candidates, on a machine with a GPU.

    python -m benchmarks.agreement --workers 8 --output build/agreement.json

All honest kernels and all cheats of `tests/adversarial` are judged by both backends; a verdict agrees if both accept or
both reject. Every difference is printed with both reasons.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import report
from musadata.config import BackendType, VerifierConfig
from musadata.records import Verdict
from musadata.verifier import Verifier
from tests.adversarial.programs import Program, read_exercise, read_programs

GOAL = 0.97


@dataclass(frozen=True)
class Pair:
    """One candidate's two verdicts, in short."""

    name: str
    agree: bool
    emulated: str
    cuda: str
    speedup: float | None
    device: str


def _judge(program: Program, first: Verifier, second: Verifier) -> Pair:
    exercise = read_exercise(program.value("task"))
    emulated, cuda = (v.verify(exercise.task, program.source, exercise.shape_sets) for v in (first, second))
    agree = emulated.accepted == cuda.accepted
    return Pair(program.name, agree, _short(emulated), _short(cuda), cuda.speedup, cuda.device)


def _short(verdict: Verdict) -> str:
    if verdict.accepted:
        return "accepted"
    return f"{verdict.error_class}: " + "; ".join(f"{f.rule} {f.message[:160]}" for f in verdict.findings[:2])


def main(argv: Sequence[str] | None = None) -> int:
    """Judge, compare, print; 1 if the goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--limit", type=int, default=10_000)
    parser.add_argument("--second", default="cuda", help="the backend to compare with")
    arguments = parser.parse_args(argv)
    programs = [*read_programs("honest"), *read_programs("cheats")][: arguments.limit]
    configs = [VerifierConfig(backend=BackendType(kind), timed_runs=20) for kind in ("emulated", arguments.second)]
    with (
        Verifier(configs[0]) as first,
        Verifier(configs[1]) as second,
        ThreadPoolExecutor(arguments.workers) as pool,
    ):
        pairs = list(pool.map(partial(_judge, first=first, second=second), programs))
    for pair in pairs:
        if not pair.agree:
            print(f"{pair.name}\n  emulated: {pair.emulated}\n  cuda:     {pair.cuda}")
    share = sum(pair.agree for pair in pairs) / len(pairs)
    lines = [
        ("candidates judged by both", ">= 150", str(len(pairs)), len(pairs) >= 150),
        ("verdicts agree", f">= {GOAL:.0%}", f"{share:.1%}", share >= GOAL),
    ]
    details: dict[str, Any] = {"device": pairs[0].device, "pairs": [asdict(pair) for pair in pairs]}
    report("emulated against cuda", lines, details, arguments.output)
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
