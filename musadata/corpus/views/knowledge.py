"""Knowledge questions and unit tests as rows of `sft`, with what their answers were checked against."""

import dataclasses
import json

from musadata.corpus.views.supervised import make_sft
from musadata.records import Annotation, Question, Task, UnitTest
from musadata.rows import plain
from musadata.teacher.prompts import render_knowledge, render_unit_test
from musadata.training_rows import SftRow

QUESTION, UNIT_TEST = "question", "unit_test"


def question_row(task: Task, question: Question) -> SftRow:
    """The facts and the question; every figure of the answer follows from the facts."""
    prompt = render_knowledge(question.facts, question.question)
    evidence = json.dumps({"question_id": question.question_id, "topic": question.topic})
    row = make_sft(task, QUESTION, prompt, question.answer, question.teacher, evidence=evidence)
    return dataclasses.replace(row, candidate_id=question.candidate_id)


def unit_test_row(task: Task, annotation: Annotation, test: UnitTest) -> SftRow:
    """The request for a test, and one that passes the reference and right programs and fails wrong ones."""
    evidence = {
        "unit_test_id": test.unit_test_id,
        "passes": list(test.honest),
        "fails": [{**plain(mutant), "source": ""} for mutant in test.mutants],
        "caught_share": test.caught_share,
    }
    prompt, answer = render_unit_test(task, annotation.told), f"```python\n{test.source.rstrip()}\n```"
    return make_sft(task, UNIT_TEST, prompt, answer, test.teacher, evidence=json.dumps(evidence))
