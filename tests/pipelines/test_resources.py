"""What a worker opens, and for how long."""

from musadata.config import TeacherConfig, TeacherType
from musadata.storage.journal import Journal
from musadata.storage.shards import Shard
from pipelines import resources


def test_a_step_sees_what_another_worker_has_put_into_a_journal_since(tmp_path):
    def open_memory():
        return resources.memory(TeacherConfig(kind=TeacherType.COMPILER), str(tmp_path), "stage3", Shard(0, 2))

    with open_memory() as memory:
        memory.answers.put("question", "answer")
        assert memory.verdicts.get("program") is None
    with Journal(resources.journal_folder(str(tmp_path), "stage3", Shard(0, 2)), "verdicts") as other:
        other.put("program", "verdict")
    with open_memory() as memory:
        assert memory.answers.get("question") == "answer"
        assert memory.verdicts.get("program") == "verdict"
