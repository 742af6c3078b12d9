"""The published contract and the code say the same."""

import json

import jsonschema
import pytest

from musadata.commands.cli import main
from musadata.corpus.datasets import DATASETS
from musadata.corpus.schemas import FOLDER, find_drift, make_schemas, reasoning_schema
from musadata.rows import plain
from musadata.teacher.prompts import STEPS


def test_schemas_and_code_have_not_drifted_apart():
    assert find_drift(FOLDER) == [], "run `python -m musadata schemas`; raise SCHEMA_VERSION if a name or type changed"


@pytest.mark.parametrize("name", make_schemas())
def test_every_schema_is_a_valid_one(name):
    jsonschema.Draft202012Validator.check_schema(make_schemas()[name])


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_rows_as_json_fit_their_schema(dataset, sample_rows):
    schema = json.loads((FOLDER / f"{dataset.name}.v1.json").read_text())
    rows = [json.loads(json.dumps(plain(row))) for row in sample_rows(dataset.kind, 5)]
    assert [list(jsonschema.Draft202012Validator(schema).iter_errors(row)) for row in rows] == [[]] * 5


def test_a_row_without_a_column_or_with_another_does_not_fit(sample_rows):
    schema = make_schemas()["rejects.v1.json"]
    row = plain(sample_rows(DATASETS["rejects"].kind, 1)[0])
    for wrong in ({**row, "extra": 1}, {k: v for k, v in row.items() if k != "reason"}, {**row, "detail": None}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_teachers_answer_with_all_six_steps_and_nothing_else():
    claims = [{"sentence": "with lines", "claim": 'numel("x") == 1'}]
    answer = {**dict.fromkeys(STEPS, "text\nwith lines"), "claims": claims}
    jsonschema.validate(answer, reasoning_schema())
    jsonschema.validate({**answer, "claims": []}, reasoning_schema())
    for step in answer:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: text for name, text in answer.items() if name != step}, reasoning_schema())


def test_drift_is_found_named_and_mended(tmp_path, capsys):
    folder = str(tmp_path)
    assert main(["schemas", "--output", folder]) == 0
    assert main(["schemas", "--output", folder, "--check"]) == 0
    (tmp_path / "tasks.v1.json").write_text("{}")
    (tmp_path / "rejects.v1.json").unlink()
    (tmp_path / "theirs.json").write_text("{}")
    assert main(["schemas", "--output", folder, "--check"]) == 2
    assert "rejects.v1.json, tasks.v1.json, theirs.json" in capsys.readouterr().err
    assert main(["schemas", "--output", folder]) == 0
    assert find_drift(tmp_path) == ["theirs.json"]
