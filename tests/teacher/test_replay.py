import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.config import TeacherConfig, TeacherType
from musadata.errors import MusadataError
from musadata.records import ReasoningStep
from musadata.storage.journal import Journal
from musadata.teacher import open_teacher
from musadata.teacher.claims.steps import parse_steps
from musadata.teacher.prompts import STEPS
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestKind
from musadata.teacher.replay import ReplayTeacher, remember
from tests.tracing.examples import example


def request(kind: RequestKind = RequestKind.GENERATE, sample: int = 0, turn: int = 1) -> Request:
    return Request(kind, example("relu"), (), (), sample=sample, turn=turn)


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def test_answers_come_from_a_parquet_file(tmp_path):
    row = {"task_id": "task-relu", "kind": "generate", "sample": 1, "turn": 1, "text": "kernel", "schedule": "naive"}
    path = write(tmp_path / "answers.parquet", [row])
    teacher = open_teacher(TeacherConfig(TeacherType.REPLAY, path=path), 0)
    assert teacher.answer(request(sample=1)) == Answer("kernel", "naive", "")
    assert teacher.name == "replay:answers.parquet"


def test_a_request_that_was_never_answered_is_named(tmp_path):
    row = {"task_id": "task-relu", "kind": "generate", "sample": 1, "turn": 1, "text": "kernel"}
    teacher = ReplayTeacher(write(tmp_path / "answers.parquet", [row]))
    with pytest.raises(CannotAnswer, match="no recorded answer: repair, sample 1, turn 2"):
        teacher.answer(request(RequestKind.REPAIR, 1, 2))


def test_answers_come_from_a_journal_that_another_run_wrote(tmp_path):
    with Journal(tmp_path, "replay") as journal:
        remember(journal, request(), Answer("first", "tiled", "race"))
    assert ReplayTeacher(str(tmp_path)).answer(request()) == Answer("first", "tiled", "race")


def test_a_corpus_can_be_asked_again(tmp_path):
    steps = [{"step": step, "text": f"about {step}"} for step in STEPS]
    candidates = [
        {"task_id": "task-relu", "sample": 0, "turn": turn, "source": f"x = {turn}\n", "schedule": "s", "fault": "f"}
        for turn in (1, 2)
    ]
    write(tmp_path / "annotations" / "a.parquet", [{"task_id": "task-relu", "reasoning": steps}])
    write(tmp_path / "candidates" / "a.parquet", candidates)
    teacher = ReplayTeacher(str(tmp_path))
    assert parse_steps(teacher.answer(request(RequestKind.REASON)).text) == tuple(
        ReasoningStep(**step) for step in steps
    )
    assert teacher.answer(request()) == Answer("```python\nx = 1\n```", "s", "f")
    assert teacher.answer(request(RequestKind.REPAIR, 0, 2)).text == "```python\nx = 2\n```"


def test_what_cannot_be_replayed_is_said_with_its_path(tmp_path):
    (tmp_path / "text.parquet").write_text("not Parquet")
    for path, what in [
        (tmp_path / "absent", "does not exist"),
        (tmp_path / "text.parquet", "cannot be read as Parquet"),
        (write(tmp_path / "other.parquet", [{"a": 1}]), "lacks task_id, kind, sample, turn, text"),
    ]:
        with pytest.raises(MusadataError, match=what) as error:
            ReplayTeacher(str(path))
        assert str(path) in str(error.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(MusadataError, match="holds no answers"):
        ReplayTeacher(str(tmp_path / "empty"))
