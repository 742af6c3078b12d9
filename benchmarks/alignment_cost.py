"""What looking for misaligned accesses costs a verdict: CPU time with the check and without it, by turns in one run.

    python -m benchmarks.alignment_cost --output build/alignment_cost.json

A sample of the honest kernels of `tests/adversarial` is judged, each time with a comment of its own, so that it is
compiled anew, and then again with what was compiled. CPU time is that of all processes of the verifier.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import psutil

from benchmarks.measuring import report
from musadata.config import BackendType, VerifierConfig
from musadata.verifier import Verifier
from musadata.verifier.backends.emulated import emulated_toolchain
from tests.adversarial.programs import Program, read_exercise, read_programs

_CHECK = "-fsanitize=alignment"
_MOST = 1.05
_INCLUDE = "#include <torch/extension.h>"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if the check costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=4, help="of the programs, take one in so many")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args(argv)
    programs = [one for one in read_programs("honest") if _INCLUDE in one.source][:: arguments.every]
    seconds: dict[tuple[bool, bool], list[float]] = {}  # by: with the check, compiled before
    config = VerifierConfig(backend=BackendType.EMULATED)
    with Verifier(config) as verifier, ThreadPoolExecutor(arguments.workers) as pool:
        for number in range(-1, arguments.rounds):  # the first one builds what all of them share
            for checked in (number % 2 == 0, number % 2 != 0):
                with _compile_with(checked):
                    named = [_rename(one, f"{number} {checked}") for one in (programs if number >= 0 else programs[:2])]
                    for compiled in (False, True):
                        start = _cpu_seconds()
                        accepted = list(pool.map(lambda one: _judge(verifier, one), named))
                        if not all(accepted):
                            raise SystemExit("an honest kernel was not accepted")
                        if number >= 0:
                            seconds.setdefault((checked, compiled), []).append(_cpu_seconds() - start)
    lines = [("programs, rounds", "", f"{len(programs)}, {arguments.rounds}", True)]
    for what, compiled in (("verdict, compilation included", False), ("verdict of a compiled candidate", True)):
        with_check, without = (statistics.median(seconds[checked, compiled]) for checked in (True, False))
        ratio = with_check / without
        lines.append((f"{what}, CPU s", "", f"{with_check / len(programs):.3f}", True))
        lines.append((f"{what}, with / without the check", f"<= {_MOST}", f"{ratio:.3f}", ratio <= _MOST))
    rounds = [{"checked": checked, "compiled": compiled, "seconds": s} for (checked, compiled), s in seconds.items()]
    report("alignment cost", lines, {"rounds": rounds}, arguments.output)
    return 0 if all(kept for *_, kept in lines) else 1


@contextmanager
def _compile_with(checked: bool) -> Iterator[None]:
    flags = tuple(flag for flag in emulated_toolchain.CANDIDATE_FLAGS if checked or flag != _CHECK)
    with mock.patch.object(emulated_toolchain, "CANDIDATE_FLAGS", flags):
        emulated_toolchain.build_headers.cache_clear()
        yield
    emulated_toolchain.build_headers.cache_clear()


def _rename(program: Program, name: str) -> Program:
    """The same program with other C++ text, as far as the hash of an artifact is concerned."""
    return Program(program.name, program.header, program.source.replace(_INCLUDE, f"// {name}\n{_INCLUDE}"))


def _judge(verifier: Verifier, program: Program) -> bool:
    exercise = read_exercise(program.value("task"))
    return verifier.verify(exercise.task, program.source, exercise.shape_sets).accepted


def _cpu_seconds() -> float:
    """Of this process and all that it has started; those that have ended count for their parents."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


if __name__ == "__main__":
    raise SystemExit(main())
