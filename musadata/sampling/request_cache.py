"""What a stage has already asked and judged, so that nothing is paid for twice."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

from musadata.config import TeacherConfig, VerifierConfig
from musadata.errors import BudgetSpent
from musadata.records import Annotation, Task, Trace, Verdict
from musadata.rows import content_id, id_of_json, identity_json, plain, restore
from musadata.sampling.conversing import AskLater
from musadata.sampling.rollout import Ask, Judge, NotKnownYet
from musadata.sampling.unit_tests import RunTest
from musadata.storage.journal import Journal
from musadata.teacher.ledger import Budget, record, usage_json
from musadata.teacher.protocol import (
    Answer,
    CannotAnswer,
    Done,
    RemoteTeacher,
    Request,
    RequestFailed,
    RequestKind,
    SubmittingTeacher,
    Teacher,
    namer,
)
from musadata.verifier.policies import apply_policy, load_policy
from musadata.verifier.protocol.unit_tests import UnitTestRun

if TYPE_CHECKING:
    from musadata.verifier import Verifier


@dataclass(frozen=True)
class RequestCache:
    """The journals of a stage, and the ways to ask and judge through them.

    Attributes:
        answers: teacher's answers by the hash of the whole request.
        verdicts: verdicts by the hash of task, program, shapes and settings, so that a program that several
            answers hold, in whatever words, is judged once; and runs of unit tests.
        teacher_version: version of the teacher's code where it computes its answers; "" where a model gives them, since
            paid answers outlive our code.
        verifier_version: version of the code and toolchain behind a verdict.
        failures: requests to a server that failed in this run, by the same keys as answers.
        usage: what replies have used, see `musadata.teacher.ledger`.
        budget: what the run may use.
        prices: configs with prices, by the name of their teacher.
    """

    answers: Journal
    verdicts: Journal
    teacher_version: str
    verifier_version: str
    failures: Journal | None = None
    usage: Journal | None = None
    budget: Budget | None = None
    prices: Mapping[str, TeacherConfig] = field(default_factory=dict)

    def recall_answers(self, teacher: Teacher) -> Ask:
        """Only remembers; raises NotKnownYet for what was never asked."""
        named = namer(teacher)

        def ask(request: Request) -> Answer:
            known = self._known(self._answer_key(named(request), request))
            if known is None:
                raise NotKnownYet
            return _answer(known)

        return ask

    def ask_teacher(self, teacher: Teacher) -> Ask:
        """Remembers, or asks and remembers."""
        remote = teacher if isinstance(teacher, RemoteTeacher) else None  # a protocol is slow to check
        named = namer(teacher)

        def ask(request: Request) -> Answer:
            name = named(request)
            key = self._answer_key(name, request)
            known = self._known(key)
            if known is not None:
                return _answer(known)
            if remote:
                self._check_budget(remote)
                return remote.answer_and_keep(request, lambda result: self._keep(key, name, request, result))
            answered = _ask(teacher, request)
            self.answers.put(key, answered)
            return _answer(answered)

        return ask

    def ask_later(self, teacher: SubmittingTeacher) -> AskLater:
        """Remembers, or asks, remembers, and tells the result."""
        named = namer(teacher)

        def ask(request: Request, done: Done) -> Answer | None:
            name = named(request)
            key = self._answer_key(name, request)
            known = self._known(key)
            if known is not None:
                return _answer(known)
            self._check_budget(teacher)
            teacher.submit(request, lambda result: self._keep(key, name, request, result), done)
            return None

        return ask

    def _check_budget(self, teacher: RemoteTeacher) -> None:
        if self.budget:
            try:
                self.budget.check()
            except BudgetSpent as error:
                teacher.stop(error)  # what was submitted and not sent yet is not sent
                raise

    def _known(self, key: str) -> dict[str, Any] | None:
        known: dict[str, Any] | None = self.answers.get(key)
        return self.failures.get(key) if known is None and self.failures is not None else known

    def _keep(self, key: str, teacher: str, request: Request, result: Answer | RequestFailed) -> None:
        if self.usage is not None:
            record(self.usage, key, teacher, request, result.usage, self.prices.get(teacher, TeacherConfig()))
        if isinstance(result, Answer):
            self.answers.put_json(key, _answer_json(result))
        elif self.failures is not None:
            self.failures.put(key, {"failed": result.reason, "detail": result.detail})

    def recall_verdicts(self, config: VerifierConfig) -> Judge:
        """Only remembers; raises NotKnownYet for what was never judged."""

        def judge(task: Task, annotation: Annotation, answer: Answer) -> Verdict:
            known = self.verdicts.get(self._verdict_key(config, task, annotation, answer))
            if known is None:
                raise NotKnownYet
            return _under_policy(restore(Verdict, known), config.policy)

        return judge

    def compile_only(self, config: VerifierConfig, verifier: "Verifier") -> Judge:
        """Remembers, or compiles into the artifact cache and leaves the verdict to a step with a device."""
        recall = self.recall_verdicts(config)

        def judge(task: Task, annotation: Annotation, answer: Answer) -> Verdict:
            try:
                return recall(task, annotation, answer)
            except NotKnownYet:
                verifier.compile(answer.text)
                raise

        return judge

    def verify(self, config: VerifierConfig, verifier: "Verifier") -> Judge:
        """Remembers, or verifies and remembers. An outage gives no verdict, so there is none to remember."""

        def judge(task: Task, annotation: Annotation, answer: Answer) -> Verdict:
            key = self._verdict_key(config, task, annotation, answer)
            known = self.verdicts.get(key)
            if known is not None:
                return _under_policy(restore(Verdict, known), config.policy)
            verdict = verifier.verify(task, answer.text, [trace.inputs for trace in annotation.traces])
            self.verdicts.put(key, plain(verdict))
            return verdict

        return judge

    def run_test(self, config: VerifierConfig, verifier: "Verifier") -> RunTest:
        """Remembers what came of a unit test on some programs, or runs it and remembers."""

        def run(task: Task, test: str, programs: Sequence[str], right: int) -> tuple[UnitTestRun, ...]:
            about = task.task_id, task.reference, task.inputs, test, list(programs), right
            key = content_id("test", self.verifier_version, config, *about)
            known = self.verdicts.get(key)
            if known is None:
                known = plain(verifier.run_unit_test(task, test, programs, right))
                self.verdicts.put(key, known)
            return tuple(restore(UnitTestRun, one) for one in known)

        return run

    def _answer_key(self, teacher: str, request: Request) -> str:
        if self.teacher_version:
            about = _id_of_task(request.task), _id_of_traces(request.told)
            rest = request.kind, request.messages, request.reasoning, request.sample, request.turn, request.seed
            return content_id("answer", teacher, self.teacher_version, *about, *rest)
        # A model sees the messages alone, so no other column of a task or a trace makes it answer again.
        who, task = _who_is_asked(teacher, request.kind), identity_json(request.task.task_id)
        which = f"{task},{request.sample},{request.turn},{request.seed}"
        return id_of_json("answer", f"[{who},{request.messages_json},{which}]")

    def _verdict_key(self, config: VerifierConfig, task: Task, annotation: Annotation, answer: Answer) -> str:
        shape_sets = [trace.inputs for trace in annotation.traces]
        program = _program(answer)
        judged = replace(config, policy="")  # facts do not depend on it
        return content_id("verdict", self.verifier_version, judged, task.task_id, task.reference, shape_sets, program)


def _under_policy(verdict: Verdict, policy: str) -> Verdict:
    """A verdict that was kept, as this policy gives it."""
    wanted = load_policy(policy)
    return verdict if verdict.policy == wanted.name else apply_policy(verdict, wanted)


@lru_cache(maxsize=64)
def _who_is_asked(teacher: str, kind: RequestKind) -> str:
    return f"{identity_json(teacher)},{identity_json(kind)}"


@lru_cache(maxsize=1024)
def _id_of_task(task: Task) -> str:
    """Of all its columns. Every sample and turn of a task asks for it, in several steps, and rows are large."""
    return content_id("task", task)


@lru_cache(maxsize=1024)
def _id_of_traces(traces: tuple[Trace, ...]) -> str:
    return content_id("traces", traces)


def _program(answer: Answer) -> str:
    """What of an answer is judged; all of it where no program is found, since the verdict then tells why."""
    from musadata.verifier.extract import extract  # a worker that only asks carries no verifier

    extraction = extract(answer.text)
    return answer.text if extraction.finding else extraction.source


def _ask(teacher: Teacher, request: Request) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = plain(teacher.answer(request))
        return answer
    except CannotAnswer as refusal:  # remembered too: what computes its answers would say the same the next time
        return {"cannot_answer": str(refusal)}


def _answer_json(answer: Answer) -> str:
    """The fields of an answer; `json.dumps` takes twice as long, a hundredth of what a request costs."""
    logprobs = json.dumps(answer.logprobs) if answer.logprobs else "[]"
    reasoning = json.dumps(plain(answer.reasoning)) if answer.reasoning else "[]"
    return (
        f'{{"text":{_quoted(answer.text)},"schedule":{_quoted(answer.schedule)},"fault":{_quoted(answer.fault)},'
        f'"thoughts":{_quoted(answer.thoughts)},"finish_reason":{_quoted(answer.finish_reason)},'
        f'"logprobs":{logprobs},"usage":{usage_json(answer.usage)},"server":{_quoted(answer.server)},'
        f'"served_model":{_quoted(answer.served_model)},"teacher":{_quoted(answer.teacher)},"reasoning":{reasoning},'
        f'"expected_ms":{json.dumps(answer.expected_ms)},"bound_ms":{json.dumps(answer.bound_ms)},'
        f'"costs":{_quoted(answer.costs)}}}'
    )


def _answer(known: dict[str, Any]) -> Answer:
    if "cannot_answer" in known:
        raise CannotAnswer(known["cannot_answer"])
    if "failed" in known:
        raise RequestFailed(known["failed"], known["detail"])
    return restore(Answer, known)
