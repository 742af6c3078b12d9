"""The teacher that needs no language model: a compiler that lowers the reference's aten graph to CUDA C++."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from difflib import unified_diff
from functools import lru_cache
from typing import Any

from musadata.compiler.candidate_set import Attempt, CandidateSet, read_graph
from musadata.compiler.capturing import CAPTURE, PRELOAD
from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.config import TeacherConfig
from musadata.records import InputSpec, Task, Trace
from musadata.rows import plain
from musadata.sandbox import Caller, Limits, Sandbox
from musadata.teacher.claims.steps import render_analysis
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestKind
from musadata.teacher.reasoning import write_analysis, write_plan, write_reasoning
from musadata.teacher.reasoning.kernel_facts import sizes_in
from musadata.teacher.reasoning.schedule_choice import bound_seconds, describe_cost, expected_seconds
from musadata.teacher.unit_tests import write_unit_test

VERSION = "1"
CAPTURE_LIMITS = Limits(seconds=30, memory_mb=4096)
REMEMBERED_TASKS = 32
_CONTEXT = 2  # lines around a change that a repair shows


class CompilerTeacher:
    """Answers with kernels that it generates, some with a seeded fault, which the answer's `fault` names.

    The last `config.faults` of every `config.samples` answers to the same question hold a fault. The same request gives
    the same answer, in any process. References are captured in `sandbox`. Without one the teacher opens a sandbox of
    its own, and closes it when it is left as a context manager.
    """

    name = f"compiler-{VERSION}"

    def __init__(self, config: TeacherConfig, seed: int, sandbox: Caller | None = None):
        self._config, self._seed = config, seed
        self._sandbox, self._own_sandbox = sandbox, ExitStack()
        self._opened = lru_cache(REMEMBERED_TASKS)(self._open)
        self._ordered = lru_cache(REMEMBERED_TASKS)(self._order)

    def __enter__(self) -> "CompilerTeacher":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._own_sandbox.close()

    def answer(self, request: Request) -> Answer:
        """The six steps, a unit test, a candidate, or a repaired candidate.

        Raises:
            CannotAnswer: the reference cannot be traced, or holds an operator that has no lowering.
        """
        if request.kind is RequestKind.REASON:
            planned = self._planned(request)
            steps, claims = write_analysis(request.task, request.told, planned)
            return Answer(render_analysis(steps, claims.items()), schedule=planned.schedule if planned else "")
        if request.kind is RequestKind.TEST:
            return Answer(f"```python\n{write_unit_test(request.task, request.traces)}```\n")
        try:
            if request.kind is RequestKind.GENERATE:
                return self._generate(request)
            return self._repair(request)
        except Unsupported as reason:
            raise CannotAnswer(str(reason)) from reason

    def mutants(self, task: Task, traces: Sequence[Trace]) -> Iterator[tuple[str, str]]:
        """Programs for a task that compile, and the name of the one fault that is in each; none without a lowering."""
        with suppress(Unsupported):
            candidate_set = self._candidate_set(Request(RequestKind.GENERATE, task, tuple(traces), ()))
            yield from ((source, kind.name) for source, kind in candidate_set.mutants())

    def _planned(self, request: Request) -> Candidate | None:
        """The candidate of the request's sample, without a fault; none without a lowering."""
        with suppress(Unsupported):
            return self._honest(request, request.sample)
        return None

    def _honest(self, request: Request, number: int) -> Candidate:
        """The honest candidate of this number. That of 0, which analyses plan, is expected to be the fastest."""
        candidates = self._ordered(self._candidate_set(request), request.told[:1])
        return candidates[number % len(candidates)]

    def _order(self, candidate_set: CandidateSet, declared: tuple[Trace, ...]) -> list[Candidate]:
        known = [candidate_set.candidate(number) for number in range(len(PLANS))]
        candidates = list({id(candidate): candidate for candidate in known}.values())
        seconds = {id(one): expected_seconds(one, sizes_in(one, trace)) for trace in declared for one in candidates}
        best = min(candidates, key=lambda one: seconds.get(id(one), 0.0))
        return [best, *(one for one in candidates if one is not best)]

    def _generate(self, request: Request) -> Answer:
        """A candidate. Where an analysis was given, that of another sample, the one that the conversation's last answer
        follows comes with it."""
        conversation = self._conversation(request)
        attempt = conversation[0]
        if not request.reasoning:
            return _answer(write_plan(request.task, request.told, attempt.candidate), attempt, request)
        reasoning = write_reasoning(request.task, request.told, conversation[-1].candidate)
        return replace(_answer("", attempt, request), reasoning=reasoning)

    def _repair(self, request: Request) -> Answer:
        conversation, turn = self._conversation(request), request.turn - 1
        if turn < len(conversation):
            attempt, before = conversation[turn], conversation[turn - 1]
            lines = unified_diff(before.source.splitlines(), attempt.source.splitlines(), n=_CONTEXT, lineterm="")
            text = "\n".join(["```diff", *list(lines)[2:], "```"])
        else:  # the honest answer was not accepted either: another schedule may be
            attempt = Attempt(self._honest(request, request.sample + turn))
            text = f"The kernels are written in another way: {attempt.candidate.schedule}."
        return _answer(text, attempt, request)

    def _conversation(self, request: Request) -> list[Attempt]:
        """The answers of a sample, turn by turn, up to the honest one."""
        candidate_set = self._candidate_set(request)
        honest = self._config.samples - self._config.faults
        if request.sample % self._config.samples >= honest:
            with suppress(Unsupported):
                return candidate_set.faulty(request.sample, self._ordered(candidate_set, request.told[:1]))
        candidate = self._honest(request, request.sample)
        return [Attempt(candidate)]

    def _candidate_set(self, request: Request) -> CandidateSet:
        sets = tuple(trace.inputs for trace in request.traces) or (request.task.inputs,)
        key = f"{self._seed}:{request.task.task_id}"
        found = self._opened(request.task.reference, sets, request.task.measure, key)
        if isinstance(found, str):
            raise Unsupported(found)
        traced = [[fact.shape for fact in trace.tensors if fact.role == "output"] for trace in request.traces]
        if not found.holds_for(traced):
            raise Unsupported("the graph holds for some sets of shapes only")
        return found

    def _open(
        self, reference: str, sets: tuple[tuple[InputSpec, ...], ...], measure: tuple[InputSpec, ...], key: str
    ) -> CandidateSet | str:
        """The task's candidates, or the reason why there are none."""
        if self._sandbox is None:
            self._sandbox = self._own_sandbox.enter_context(Sandbox(PRELOAD))
        outcome = self._sandbox.call(
            CAPTURE,
            reference,
            plain(list(sets)),
            self._seed,
            limits=CAPTURE_LIMITS,
        )
        if not outcome.ok:
            return f"tracing failed: {outcome.error_type or outcome.status}"
        if "unsupported" in outcome.value:
            return str(outcome.value["unsupported"])
        try:
            measured = {spec.name: spec.shape for spec in measure}
            candidate_set = CandidateSet(read_graph(outcome.value), key, measured)
            candidate_set.candidate(0)
        except Unsupported as reason:
            return str(reason)
        return candidate_set


def _answer(text: str, attempt: Attempt, request: Request) -> Answer:
    program = f"```python\n{attempt.source}```\n"
    fault = attempt.fault.name if attempt.fault else ""
    answer = Answer(f"{text}\n\n{program}" if text else program, attempt.candidate.schedule, fault)
    for trace in request.told[:1]:
        sizes = sizes_in(attempt.candidate, trace)
        expected, bound = expected_seconds(attempt.candidate, sizes), bound_seconds(attempt.candidate, trace, sizes)
        costs = json.dumps([describe_cost(one, sizes) for one in attempt.candidate.kernels])
        return replace(answer, expected_ms=round(1000 * expected, 6), bound_ms=round(1000 * bound, 6), costs=costs)
    return answer
