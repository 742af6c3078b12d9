"""Answers of a served model to the problems of a benchmark; each is kept as it comes, and never asked for twice."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from musadata.config import RequestsConfig, TeacherConfig
from musadata.errors import BudgetSpent, Outage
from musadata.evaluation.problems import Problem
from musadata.rows import content_id, plain
from musadata.storage.journal import Journal
from musadata.teacher.openai import OpenAITeacher
from musadata.teacher.protocol import Answer, Request, RequestFailed, RequestKind
from musadata.training_rows import ChatMessage
from musadata.verifier.task_from_reference import given_task

_PROMPT = Template(Path(__file__).with_name("prompt.txt").read_text(encoding="utf-8"))
_PASSING = "no answer after"  # of failures that another day may not have, and that are therefore not kept


@dataclass(frozen=True)
class Sample:
    """One answer. `failed`: why there is none ("truncated at max_tokens"); it counts as a wrong one."""

    problem: Problem
    number: int
    text: str
    failed: str
    usage: dict[str, int]
    served_model: str


def ask_model(
    problems: Sequence[Problem],
    samples: int,
    teacher: TeacherConfig,
    requests: RequestsConfig,
    journal: Journal,
    say: Callable[[str], None],
) -> list[Sample]:
    """`samples` answers to each problem, those that were given before included.

    Raises:
        Outage: some requests got no answer; the others are kept.
        MusadataError: no server, no such model, a refused key.
    """
    wanted = [(problem, number) for problem in problems for number in range(samples)]
    keys = [_key(teacher, problem, number) for problem, number in wanted]
    missing = [(key, *pair) for key, pair in zip(keys, wanted, strict=True) if key not in journal]
    say(f"{len(wanted)} samples of {len(problems)} problems, {len(wanted) - len(missing)} of them answered before")
    if missing:
        trouble = _ask_all(missing, teacher, requests, journal, say)
        if trouble is not None and not isinstance(trouble, RequestFailed):
            raise trouble
        lost = sum(key not in journal for key, _, _ in missing)
        if lost:
            raise Outage(
                f"{lost} samples got no answer ({trouble})", where="evaluate", remedy="run the same command again"
            )
    return [Sample(*pair, **_kept(journal.get(key))) for key, pair in zip(keys, wanted, strict=True)]


def _key(teacher: TeacherConfig, problem: Problem, number: int) -> str:
    sampling = (teacher.model, teacher.temperature, teacher.top_p, teacher.max_tokens, teacher.extra_body)
    return content_id("sample", sampling, _PROMPT.template, problem.reference, number)


def _kept(value: Any) -> dict[str, Any]:
    return {"text": value["text"], "failed": value["failed"], "usage": value["usage"], "served_model": value["model"]}


def _ask_all(
    missing: Sequence[tuple[str, Problem, int]],
    teacher: TeacherConfig,
    requests: RequestsConfig,
    journal: Journal,
    say: Callable[[str], None],
) -> BaseException | None:
    """Send them all, each kept before the next is sent in its place; returns the last trouble."""
    troubles: list[BaseException] = []
    left = threading.Semaphore(0)

    spent = 0

    def end(result: Answer | BaseException) -> None:
        nonlocal spent
        if isinstance(result, BaseException):
            troubles.append(result)
        else:
            spent += result.usage.prompt_tokens + result.usage.completion_tokens
        if 0 < requests.budget_tokens < spent:
            told = f"{spent:,} tokens of this run are more than its {requests.budget_tokens:,}"
            model.stop(BudgetSpent(told, where="evaluate", remedy="raise --budget-tokens; answers are kept"))
        left.release()

    with OpenAITeacher(teacher, requests) as model:
        model.check_server()
        for key, problem, number in missing:
            request = _request(problem, number, teacher)
            model.submit(request, partial(_keep, journal, key), end)

        for count in range(1, len(missing) + 1):
            left.acquire()
            if count % 25 == 0 or count == len(missing):
                say(f"{count} of {len(missing)} answered")
    stops = [one for one in troubles if not isinstance(one, RequestFailed)]
    return next(iter([*stops, *troubles]), None)


def _request(problem: Problem, number: int, teacher: TeacherConfig) -> Request:
    question = ChatMessage("user", _PROMPT.substitute(reference=problem.reference.strip()))
    seed = int(content_id("seed", problem.reference, number).removeprefix("seed-"), 16) % 2**31
    task = given_task(problem.reference, [])
    return Request(RequestKind.GENERATE, task, (), (question,), sample=number, seed=seed)


def _keep(journal: Journal, key: str, result: Answer | RequestFailed) -> None:
    if isinstance(result, Answer):
        kept = {"text": result.text, "failed": "", "usage": plain(result.usage), "model": result.served_model}
    elif result.reason.startswith(_PASSING):
        return
    else:
        kept = {"text": "", "failed": result.reason, "usage": plain(result.usage), "model": ""}
    journal.put(key, kept)
