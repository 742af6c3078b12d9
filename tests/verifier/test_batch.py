"""Batches: rows stay in order, bad ones do not stop the others, and nothing is judged twice."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from musadata.commands.cli import main
from musadata.config import BackendType, VerifierConfig
from musadata.errors import MusadataError
from musadata.records import ErrorClass, InputSpec
from musadata.rows import plain
from musadata.verifier.batch import Batch, judge_batch, parse_devices
from musadata.verifier.submission import Submission, _given

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


def test_an_empty_answer_is_rejected_and_not_taken_for_a_row_without_one(tmp_path, relu, relu_reference):
    rows = [
        {"reference": relu_reference, "source": "", "candidate": relu},
        {"reference": relu_reference, "source": None, "candidate": ""},
        {"reference": relu_reference, "source": None, "candidate": None},
    ]
    path = write(tmp_path / "in.parquet", rows)
    verdicts = judge_batch(Batch(path, tmp_path / "out.parquet", CONFIG, at_once=1), lambda text: None)
    assert [(verdict.error_class, verdict.reward) for verdict in verdicts] == [
        (ErrorClass.COMPILE, -1.0),
        (ErrorClass.COMPILE, -1.0),
        (ErrorClass.INFRA, 0.0),
    ]


def test_an_output_that_is_a_folder_is_refused_before_anything_is_judged(tmp_path, relu, relu_reference):
    path = write(tmp_path / "in.parquet", [{"reference": relu_reference, "source": relu}])
    with pytest.raises(MusadataError, match="is a folder"):
        judge_batch(Batch(path, tmp_path, CONFIG, at_once=1))
    assert not tmp_path.with_name(tmp_path.name + ".journal").exists()


@pytest.mark.parametrize(
    "options", [["--seconds", "0"], ["--input-sets", "0"], ["--timed-runs", "1"], ["--seed", "-1"]]
)
def test_a_number_out_of_bounds_is_refused_by_the_option_that_gave_it(options, tmp_path, relu, relu_reference, capsys):
    (tmp_path / "reference.py").write_text(relu_reference)
    (tmp_path / "candidate.py").write_text(relu)
    files = ["--reference", str(tmp_path / "reference.py"), "--candidate", str(tmp_path / "candidate.py")]
    assert main(["verify", *files, *options]) == 2
    assert f"musadata: {options[0]}: is " in capsys.readouterr().err


def test_a_candidate_in_the_place_of_the_reference_is_told_so(tmp_path, capsys):
    (tmp_path / "candidate.py").write_text("import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n")
    argv = ["verify", "--reference", str(tmp_path / "candidate.py"), "--candidate", str(tmp_path / "candidate.py")]
    assert main(argv) == 2
    assert "defines ModelNew and no Model" in capsys.readouterr().err


def test_a_row_that_says_its_measure_size_is_measured_there(relu_reference):
    small, large = (InputSpec("x", "normal", "float32", shape) for shape in ((7, 9), (700, 900)))
    task = _given(relu_reference, Submission(relu_reference, "", [plain(small)], [plain(large)]))
    assert (task.inputs, task.measure) == ((small,), (large,))
    assert _given(relu_reference, Submission(relu_reference, "", [plain(small)])).measure == ()
