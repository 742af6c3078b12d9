"""Batches: rows stay in order, bad ones do not stop the others, and nothing is judged twice."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.verifier.batch import Batch, judge_batch, parse_devices

CONFIG = VerifierConfig(backend=BackendType.EMULATED, seconds=20.0)


def write(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("devices", [(), ("0", "1")])
def test_batch_is_resumable_and_keeps_rows_in_order(tmp_path, relu, relu_reference, devices):
    rows = [
        {"id": 1, "reference": relu_reference, "source": relu},
        {"id": 2, "reference": "raise ValueError", "source": relu},
        {"id": 3, "reference": relu_reference, "source": "nothing"},
        {"id": 4, "reference": None, "source": relu},
        {"id": 5, "reference": relu_reference, "source": relu},
    ]
    said = []
    batch = Batch(write(tmp_path / "in.parquet", rows), tmp_path / "out.parquet", CONFIG, at_once=2, devices=devices)
    judge_batch(batch, said.append)
    verdicts = pq.read_table(batch.output).to_pylist()
    assert [row["id"] for row in verdicts] == [1, 2, 3, 4, 5]
    assert [row["verdict"]["error_class"] for row in verdicts] == [None, "infra", "compile", "infra", None]
    assert said[0] == "5 candidates, 0 of them judged before"
    assert said[-1].startswith("4 of 4 judged")  # two rows are the same
    said.clear()
    first = batch.output.read_bytes()
    judge_batch(batch, said.append)
    assert said == ["5 candidates, 5 of them judged before"]
    assert batch.output.read_bytes() == first
    assert not list(tmp_path.glob("*.partial"))


def test_file_that_cannot_be_judged_is_refused_before_anything_starts(tmp_path):
    for content in (b"no parquet", None):
        path = tmp_path / "bad.parquet"
        if content is None:
            write(path, [{"text": "x"}])
        else:
            path.write_bytes(content)
        with pytest.raises(MusadataError):
            judge_batch(Batch(path, tmp_path / "out.parquet", CONFIG, at_once=1))
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(("text", "devices"), [("", ()), ("0", ("0",)), ("0, 2", ("0", "2"))])
def test_devices_are_a_list_of_numbers(text, devices):
    assert parse_devices(text) == devices


@pytest.mark.parametrize("text", ["a", "0,0", "0;1"])
def test_anything_else_is_no_list_of_devices(text):
    with pytest.raises(MusadataError):
        parse_devices(text)
