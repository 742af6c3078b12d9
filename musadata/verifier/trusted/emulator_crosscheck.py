"""What the emulator sees of a candidate while a device, which cannot see it, runs the same one.

On a device memory goes on behind an allocation, so that nothing shows who reads or writes past its end; threads and
streams that do not wait for each other may happen to come in the right order every time; and nobody looks through all
memory for what a program keeps from call to call.
"""

import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.records import Finding, InputSpec
from musadata.sandbox import Limits, Sandbox
from musadata.verifier.backends.emulated.emulated_backend import open_emulated
from musadata.verifier.compilation.built import Built, Compile
from musadata.verifier.compilation.shared_compile import SharedCompile
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol.messages import Call, Plan
from musadata.verifier.protocol.variants import PLAIN
from musadata.verifier.rules.catalogue import RULES
from musadata.verifier.rules.native.called_functions import named_in
from musadata.verifier.trusted.candidate_report import read_facts, read_report
from musadata.verifier.trusted.candidate_session import Compilations, describe_plan, run_untimed
from musadata.verifier.trusted.expectation import BadReference, Expectation
from musadata.verifier.trusted.judge import judge
from musadata.verifier.trusted.plan import plan_once

Shapes = Callable[[], Sequence[Sequence[InputSpec]]]  # gives the sets of shapes; may be slow
_LIMITS = Limits(seconds=5.0, memory_mb=2048)
_MOST_ELEMENTS = 1 << 20  # of a set of inputs: kernels over more would take the emulator seconds
_OWN_LIMIT = "stack overflow"  # a device's threads have more room for local variables


class EmulatorCrosscheck:
    """Runs candidates in the emulator, from the threads of `pool`; its warm process starts in the background.

    Attributes:
        compile: makes what its candidates need, ahead of them.

    Raises:
        MusadataError: this machine has no C++ compiler.
    """

    def __init__(self, config: VerifierConfig, pool: ThreadPoolExecutor):
        opened = open_emulated(config)
        backend = replace(opened, compile=SharedCompile(_in_turns(opened.compile)))
        self.compile = backend.compile
        self._backend = backend
        self._pool = pool
        self._closed = False
        self._sandbox = Sandbox(
            backend.preload, setup=backend.setup, readable=backend.readable, environment=dict(backend.environment)
        )
        self._sandbox.launch()

    @contextmanager
    def start(
        self, source: str, shapes: Shapes, expected: "Future[Expectation]", seed: int
    ) -> Iterator["Future[tuple[Finding, ...]]"]:
        """Begin to run a candidate on the plain inputs of each set of shapes that is small enough. It is cancelled if
        it has not begun when the block is left.

        The result is what the candidate does that a device lets pass; nothing if the emulator cannot say. `expected`
        must have been given to the pool before: what runs there waits for it.
        """
        found = self._pool.submit(self._examine, source, shapes, expected, seed)
        try:
            yield found
        finally:
            found.cancel()

    def close(self) -> None:
        """End its processes; cross-checks that are under way find nothing."""
        self._closed = True
        self._sandbox.close()

    def _examine(self, source: str, shapes: Shapes, expected: "Future[Expectation]", seed: int) -> tuple[Finding, ...]:
        try:
            small = {index for index, specs in enumerate(shapes()) if is_small(specs)}
            return self._run(source, small, expected, seed) if small and not self._closed else ()
        except BadReference:
            return ()
        except MusadataError:
            if self._closed:
                return ()
            raise  # without the cross-check nothing is accepted
        finally:
            if self._closed:  # a call that came late has started the sandbox anew
                self._sandbox.close()

    def _run(self, source: str, small: "set[int]", expected: "Future[Expectation]", seed: int) -> tuple[Finding, ...]:
        compilations = Compilations(self._backend, named_in(source))

        def plan() -> Plan:
            excerpt = _excerpt(expected.result(), small)
            return describe_plan(excerpt, self._plan(excerpt), seed)

        outcome = run_untimed(self._sandbox, compilations, source, plan, _LIMITS)
        facts = read_facts(outcome)
        if compilations.judge(not outcome.ok or facts.error is not None):
            return ()
        excerpt = _excerpt(expected.result(), small)
        calls = self._plan(excerpt)
        judgement = judge(outcome, read_report(facts, outcome.files, calls), calls, excerpt)
        return tuple(filter(_is_unnoticed, judgement.findings))

    def _plan(self, excerpt: Expectation) -> list[Call]:
        """Every set once, and the first twice more: the second time nothing that is kept has a reason to change."""
        calls = plan_once([item.plan.shape for item in excerpt.sets], self._backend.checks)
        return [*calls, replace(calls[0], name="again"), replace(calls[0], name="settled", settled=True)]


def _in_turns(compile_sources: Compile) -> Compile:
    """Only the end of a verdict waits for it; the device waits for other compilers."""
    turns = threading.Semaphore(max(1, len(os.sched_getaffinity(0)) // 4))

    def compile_in_turn(sources: CandidateSources) -> Built:
        with turns:
            return compile_sources(sources)

    return compile_in_turn


def is_small(specs: Sequence[InputSpec]) -> bool:
    """Whether inputs of these shapes are few enough for the emulator."""
    return sum(math.prod(spec.shape) for spec in specs) <= _MOST_ELEMENTS


def _excerpt(expectation: Expectation, small: "set[int]") -> Expectation:
    """Only the plain inputs of these sets of shapes, the quickest first: what was found before time is up, counts."""
    chosen = [item for item in expectation.sets if item.plan.variant == PLAIN and item.plan.shape in small]
    return replace(expectation, sets=tuple(sorted(chosen, key=lambda item: len(item.inputs))))


def _is_unnoticed(finding: Finding) -> bool:
    """Whether only the emulator can find this. The device decides about everything else: wrong values, crashes, and
    what the emulator cannot run or refuses because of its own limits."""
    return RULES[finding.rule].missed_by_devices and _OWN_LIMIT not in finding.message
