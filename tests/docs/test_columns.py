"""Every column is described once, and the text reaches whatever a reader may look into."""

import pytest

from docs.generate_columns import PAGE, list_columns, render_page
from musadata.corpus.datasets import DATASETS
from musadata.corpus.schemas import make_schemas
from musadata.schema import arrow_schema


def test_the_page_agrees_with_the_code():
    assert PAGE.read_text() == render_page(), "run `python -m docs.generate_columns`"


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_every_column_is_described_in_arrow_and_json_too(dataset):
    assert [name for name, _, text in list_columns(dataset.kind) if not text.endswith((".", "`"))] == []
    schema = make_schemas()[f"{dataset.name}.v1.json"]["properties"]
    for field in arrow_schema(dataset.kind):
        assert field.metadata[b"description"].decode() == schema[field.name]["description"] != ""
