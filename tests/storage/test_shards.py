"""Shards: the same rows give the same bytes, and a broken shard says what to do."""

import dataclasses
import hashlib
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from musadata.corpus.datasets import DATASETS
from musadata.errors import MusadataError
from musadata.records import NO_USAGE, Candidate, Facts, Finding, Reject, Task, Trajectory
from musadata.storage import shards
from musadata.storage.shards import (
    Shard,
    ShardWriter,
    SplitWriter,
    deal,
    parse_shard_name,
    read_shard,
    shard_of,
)
from musadata.training_rows import SftRow
from tests.written_shards import write_shard

SHARD = Shard(3, 16)
KINDS = pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)


def reject(index: int, detail: str = "d") -> Reject:
    return Reject("tasks", "probe", "nondeterministic", detail, f"file.py:{index}")


@KINDS
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_row_survives_the_way_to_disk_and_back(dataset, data, tmp_path, rows_strategy):
    rows = data.draw(rows_strategy(dataset.kind))
    output = write_shard(str(tmp_path), dataset.name, SHARD, rows, dataset.kind)
    assert list(read_shard(str(tmp_path), dataset.name, SHARD, dataset.kind)) == rows
    assert output.rows == len(rows)


def test_a_shard_is_named_after_its_dataset_and_place(tmp_path):
    output = write_shard(str(tmp_path), "tasks", SHARD, [], Task)
    assert output.path == "tasks/train-00003-of-00016.parquet"
    assert write_shard(str(tmp_path), "rejects", SHARD, [], Reject, name="stage1").path.startswith("rejects/stage1-")
    assert write_shard(str(tmp_path), "_probed", SHARD, [], Task).path == "_probed/probed-00003-of-00016.parquet"
    assert parse_shard_name("tasks-00003-of-00016.parquet") == ("tasks", SHARD)
    assert parse_shard_name("notes.parquet") is None


def test_half_a_surrogate_pair_from_a_model_does_not_stop_a_shard(tmp_path):
    rows = [reject(0, "fine ü \x00"), reject(1, "half \ud800 a pair")]
    write_shard(str(tmp_path), "rejects", SHARD, rows, Reject)
    read = list(read_shard(str(tmp_path), "rejects", SHARD, Reject))
    assert [row.detail for row in read] == ["fine ü \x00", "half ? a pair"]


def test_the_output_describes_the_file(tmp_path):
    output = write_shard(str(tmp_path), "rejects", SHARD, [reject(1)], Reject)
    data = (tmp_path / output.path).read_bytes()
    assert (output.bytes, output.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_an_empty_shard_is_a_valid_file_with_all_columns(tmp_path):
    output = write_shard(str(tmp_path), "candidates", SHARD, [], Candidate)
    table = pq.read_table(tmp_path / output.path)
    assert table.num_rows == 0 and "candidate_id" in table.column_names
    assert list(read_shard(str(tmp_path), "candidates", SHARD, Candidate)) == []


@KINDS
def test_all_shards_of_a_dataset_have_one_schema_whatever_their_rows(dataset, tmp_path, sample_rows):
    few = write_shard(str(tmp_path), dataset.name, Shard(0, 2), sample_rows(dataset.kind, 1), dataset.kind)
    none = write_shard(str(tmp_path), dataset.name, Shard(1, 2), [], dataset.kind)
    assert pq.read_schema(tmp_path / few.path) == pq.read_schema(tmp_path / none.path)


def test_the_same_rows_give_the_same_bytes_in_another_process(tmp_path):
    program = (
        "import sys; from musadata.storage.shards import Shard; from musadata.records import Reject\n"
        "from tests.written_shards import write_shard\n"
        "rows = [Reject('t', 'p', 'r', 'x' * (i % 50), str(i)) for i in range(9000)]\n"
        "print(write_shard(sys.argv[1], 'rejects', Shard(0, 1), rows, Reject).sha256)"
    )
    run = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / seed)],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "TZ": zone},
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    ]
    assert run[0] == run[1]


def test_row_groups_are_bounded_in_rows_and_in_bytes(tmp_path, monkeypatch):
    output = write_shard(str(tmp_path), "rejects", SHARD, (reject(i) for i in range(10_000)), Reject)
    footer = pq.ParquetFile(tmp_path / output.path).metadata
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [4096, 4096, 1808]
    monkeypatch.setattr(shards, "GROUP_BYTES", 100_000)
    output = write_shard(str(tmp_path), "rejects", SHARD, (reject(i, "x" * 1000) for i in range(1000)), Reject)
    assert pq.ParquetFile(tmp_path / output.path).metadata.num_row_groups == 4


def test_memory_does_not_grow_with_the_shard(tmp_path):
    def peak(count: int) -> int:
        tracemalloc.start()
        before = pa.total_allocated_bytes()
        write_shard(str(tmp_path), "rejects", SHARD, (reject(i, f"{i:0500d}") for i in range(count)), Reject)
        for _ in read_shard(str(tmp_path), "rejects", SHARD, Reject):
            pass
        size = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
        tracemalloc.stop()
        return size

    peak(1000)
    assert peak(30_000) < 1.3 * peak(6_000) + 5_000_000


def test_columns_are_zstd(tmp_path):
    output = write_shard(str(tmp_path), "rejects", SHARD, [reject(1)], Reject)
    assert pq.ParquetFile(tmp_path / output.path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_writer_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError), ShardWriter(str(tmp_path), "rejects", SHARD, Reject) as writer:
        writer.write(reject(1))
        raise RuntimeError
    assert list((tmp_path / "rejects").iterdir()) == []


def test_a_row_of_the_wrong_type_is_a_bug_and_leaves_no_file(tmp_path):
    with pytest.raises((pa.ArrowException, TypeError)):
        write_shard(str(tmp_path), "rejects", SHARD, [Reject("t", "s", "r", 5, "o")], Reject)  # type: ignore[arg-type]
    with pytest.raises((pa.ArrowException, ValueError)):
        write_shard(str(tmp_path), "rejects", SHARD, [Reject("t", "s", "r", None, "o")], Reject)  # type: ignore[arg-type]
    assert list((tmp_path / "rejects").iterdir()) == []


def test_two_attempts_at_one_shard_do_not_disturb_each_other(tmp_path):
    """Beam may run a shard twice at the same time."""
    with ShardWriter(str(tmp_path), "rejects", SHARD, Reject) as one:
        one.write(reject(1))
        with ShardWriter(str(tmp_path), "rejects", SHARD, Reject) as two:
            two.write(reject(1))
    assert one.output == two.output
    assert [path.name for path in (tmp_path / "rejects").iterdir()] == ["rejects-00003-of-00016.parquet"]


def test_rows_of_different_splits_go_into_different_files(tmp_path, sample_rows):
    rows = sample_rows(SftRow, 4)
    splits = ["train", "test", "train", "test"]
    rows = [dataclasses.replace(row, split=split) for row, split in zip(rows, splits, strict=True)]
    with SplitWriter(str(tmp_path), "sft", SHARD, SftRow) as writer:
        for row in rows:
            writer.write(row)
    assert [(output.path, output.rows) for output in writer.outputs] == [
        ("sft/test-00003-of-00016.parquet", 2),
        ("sft/train-00003-of-00016.parquet", 2),
    ]
    assert list(read_shard(str(tmp_path), "sft", SHARD, SftRow, name="test")) == [rows[1], rows[3]]


def test_a_missing_shard_names_the_file(tmp_path):
    with pytest.raises(MusadataError, match=r"train-00003-of-00016\.parquet.*no such file"):
        list(read_shard(str(tmp_path), "tasks", SHARD, Task))


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99, -1])
def test_a_truncated_shard_names_the_file_and_the_command(tmp_path, keep):
    output = write_shard(str(tmp_path), "rejects", SHARD, [reject(i) for i in range(500)], Reject)
    path = tmp_path / output.path
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(MusadataError, match=r"rejects-00003-of-00016\.parquet: is truncated or corrupt.*delete it and"):
        list(read_shard(str(tmp_path), "rejects", SHARD, Reject))


def test_the_remedy_is_the_stage_that_makes_the_dataset(tmp_path):
    path = tmp_path / write_shard(str(tmp_path), "trajectories", SHARD, [], Trajectory).path
    path.write_bytes(b"PAR1")
    with pytest.raises(MusadataError, match=r"python -m pipelines\.stage3 --config CONFIG --corpus .* again"):
        list(read_shard(str(tmp_path), "trajectories", SHARD, Trajectory))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_a_flipped_byte_gives_rows_or_one_clear_error_but_never_a_crash(tmp_path, position, value):
    output = write_shard(str(tmp_path), "rejects", SHARD, [reject(i) for i in range(50)], Reject)
    path = tmp_path / output.path
    data = bytearray(path.read_bytes())
    data[int(len(data) * position)] = value
    path.write_bytes(data)
    try:
        list(read_shard(str(tmp_path), "rejects", SHARD, Reject))
    except MusadataError as error:
        assert "rejects-00003" in str(error)


def foreign(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def test_somebody_elses_parquet_is_refused_by_the_column_that_it_lacks(tmp_path):
    foreign(tmp_path / "tasks/train-00003-of-00016.parquet", pa.table({"task_id": ["a"], "price": [1.0]}))
    with pytest.raises(MusadataError, match="has no column 'source_kind'"):
        list(read_shard(str(tmp_path), "tasks", SHARD, Task))


def test_a_column_of_another_type_is_refused(tmp_path):
    columns = {name: ["x"] for name in ("dataset", "step", "reason", "detail", "origin")}
    foreign(tmp_path / "rejects/rejects-00003-of-00016.parquet", pa.table({"schema_version": ["1"], **columns}))
    with pytest.raises(MusadataError, match="column 'schema_version' is string, not int64"):
        list(read_shard(str(tmp_path), "rejects", SHARD, Reject))


def test_columns_that_came_later_are_ignored(tmp_path):
    path = tmp_path / write_shard(str(tmp_path), "rejects", SHARD, [reject(1)], Reject).path
    foreign(path, pq.read_table(path).append_column("new", pa.array(["x"])))
    assert list(read_shard(str(tmp_path), "rejects", SHARD, Reject)) == [reject(1)]


def test_a_value_outside_a_closed_set_is_corrupt(tmp_path, sample_rows):
    path = tmp_path / write_shard(str(tmp_path), "tasks", SHARD, sample_rows(Task, 1), Task).path
    table = pq.read_table(path)
    foreign(path, table.set_column(table.column_names.index("operator_family"), "operator_family", [["witchcraft"]]))
    with pytest.raises(MusadataError, match="witchcraft"):
        list(read_shard(str(tmp_path), "tasks", SHARD, Task))


def test_the_shard_of_a_name_is_within_the_count_and_names_spread_over_all():
    found = Counter(shard_of(f"git:me/net/file{number}.py", 8) for number in range(4000))
    assert set(found) == set(deal(8))
    assert max(found.values()) < 1.2 * min(found.values())


def test_a_name_that_is_no_utf8_has_a_shard():
    assert shard_of("na\udcffme.py", 3) in deal(3)


def test_an_older_shard_is_read_with_defaults(tmp_path, sample_rows):
    """Columns and parts of structs that came later are those with defaults."""
    one = Finding("rule", "message", 3)
    rows = [dataclasses.replace(row, findings=(one,)) for row in sample_rows(Candidate, 3)]
    path = tmp_path / write_shard(str(tmp_path), "candidates", SHARD, rows, Candidate).path
    older = [
        {
            **{name: value for name, value in row.items() if name not in ("facts", "license", "usage")},
            "findings": [{key: part for key, part in one.items() if key != "condition"} for one in row["findings"]],
        }
        for row in pq.read_table(path).to_pylist()
    ]
    schema = pq.read_schema(path)
    for name in ("facts", "license", "usage"):
        schema = schema.remove(schema.get_field_index(name))
    finding = schema.field("findings").type.value_type
    parts = pa.list_(pa.struct([part for part in finding.fields if part.name != "condition"]))
    at = schema.get_field_index("findings")
    foreign(path, pa.Table.from_pylist(older, schema.set(at, pa.field("findings", parts))))
    kept = [dataclasses.replace(row, facts=Facts(), license="", usage=NO_USAGE) for row in rows]
    assert list(read_shard(str(tmp_path), "candidates", SHARD, Candidate)) == kept


def test_a_split_that_a_later_attempt_has_not_goes(tmp_path, sample_rows):
    rows = [
        dataclasses.replace(row, split=split)
        for row, split in zip(sample_rows(Task, 2), ("train", "test"), strict=True)
    ]
    for some in (rows, rows[:1]):
        with SplitWriter(str(tmp_path), "tasks", SHARD, Task) as writer:
            for row in some:
                writer.write(row)
        assert list(read_shard(str(tmp_path), "tasks", SHARD, Task)) == some
