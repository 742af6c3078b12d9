"""What differs between two corpora is found, and nothing else."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.compare_corpora import compare_corpora, compare_rows, main

TASKS = [
    {"task_id": "task-1", "schema_version": 1, "name": "Softmax", "provenance": {"revision": "2.11", "version": "a"}},
    {"task_id": "task-2", "schema_version": 1, "name": "Linear", "provenance": {"revision": "2.11", "version": "a"}},
]
REJECTS = [{"origin": "torch", "reason": "random"}] * 2 + [{"origin": "torch", "reason": "slow"}]


@pytest.fixture
def corpora(tmp_path):
    """Writes a corpus of these rows, each dataset in two shards."""

    def write(name, tasks, rejects=REJECTS):
        for dataset, rows in (("tasks", tasks), ("rejects", rejects)):
            folder = tmp_path / name / dataset
            folder.mkdir(parents=True)
            for index in range(2):
                pq.write_table(pa.Table.from_pylist(rows[index::2]), folder / f"{dataset}-{index}.parquet")
        return tmp_path / name

    return write


def changed(**columns):
    return [{**TASKS[0], **columns}, TASKS[1]]


def test_a_corpus_equals_itself_dealt_into_other_shards(corpora):
    before, after = corpora("before", TASKS), corpora("after", TASKS[::-1], REJECTS[::-1])
    assert all(difference.equal for difference in compare_corpora(before, after).values())


def test_version_fields_are_not_compared(corpora):
    after = changed(schema_version=2, provenance={"revision": "2.11", "version": "b"})
    assert main([str(corpora("before", TASKS)), str(corpora("after", after))]) == 0


def test_a_changed_column_is_named_with_its_row_and_values(corpora, capsys):
    assert main([str(corpora("before", TASKS)), str(corpora("after", changed(name="Softmin")))]) == 1
    output = capsys.readouterr().out
    assert "name differs in 1 rows, first in task-1" in output
    assert '- "Softmax"' in output and '+ "Softmin"' in output


@pytest.mark.parametrize("ignore", ["provenance.revision", "tasks.provenance.revision", "revision", "provenance"])
def test_named_columns_are_ignored(corpora, ignore):
    before, after = corpora("before", TASKS), corpora("after", changed(provenance={"revision": "3", "version": "a"}))
    assert main([str(before), str(after), "--ignore", ignore]) == 0
    assert main([str(before), str(after), "--ignore", f"rejects.{ignore}"]) == 1


def test_rows_that_share_a_key_are_counted(corpora):
    found = compare_corpora(corpora("before", TASKS), corpora("after", TASKS, REJECTS[1:]))
    assert found["tasks"].equal and len(found["rejects"].removed) == 1 and not found["rejects"].added


def test_added_and_removed_rows_are_listed_by_key():
    found = compare_rows(TASKS, [*TASKS[:1], {**TASKS[1], "task_id": "task-3"}], "task_id")
    assert (found.removed, found.added) == (["task-2"], ["task-3"])
