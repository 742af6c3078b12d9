"""One mapping between dataclasses, Arrow, JSON and back."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum

import jsonschema
import pyarrow as pa
import pytest

from musadata.corpus.datasets import DATASETS
from musadata.records import ErrorClass, Finding, Reject
from musadata.rows import content_id, plain, restore
from musadata.schema import arrow_schema, json_schema
from musadata.training_rows import ChatMessage


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    size: int
    note: str = "none"


@dataclass(frozen=True)
class Outer:
    """An outer row.

    More text.
    """

    name: str
    inner: Inner
    many: tuple[Inner, ...]
    colour: Colour
    maybe: float | None


ROW = Outer("a", Inner(1), (Inner(2, "x"), Inner(3)), Colour.RED, None)


def test_plain_holds_only_what_json_and_arrow_know():
    assert plain(ROW) == {
        "name": "a",
        "inner": {"size": 1, "note": "none"},
        "many": [{"size": 2, "note": "x"}, {"size": 3, "note": "none"}],
        "colour": "red",
        "maybe": None,
    }
    assert type(plain(ROW)["colour"]) is str


def test_restore_undoes_plain():
    assert restore(Outer, plain(ROW)) == ROW


def test_restore_ignores_columns_that_came_later_and_fills_defaults():
    assert restore(Inner, {"size": 1, "invented": 2}) == Inner(1)


def test_restore_refuses_a_row_without_a_required_column():
    with pytest.raises(TypeError):
        restore(Inner, {"note": "x"})


@pytest.mark.parametrize("wrong", [{"name": None}, {"inner": {"size": None}}, {"colour": None}, {"colour": "blue"}])
def test_restore_refuses_null_and_what_a_closed_set_lacks(wrong):
    with pytest.raises(ValueError, match=r"null where|blue"):
        restore(Outer, {**plain(ROW), **wrong})


def test_arrow_schema_is_explicit_about_what_may_be_null():
    schema = arrow_schema(Outer)
    assert [field.name for field in schema if field.nullable] == ["maybe"]
    assert schema.field("many").type.value_type == pa.struct(
        [pa.field("size", pa.int64(), nullable=False), pa.field("note", pa.string(), nullable=False)]
    )


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda dataset: dataset.name)
def test_every_dataset_has_an_arrow_schema_with_its_key_and_a_version(dataset):
    names = arrow_schema(dataset.kind).names
    assert dataset.key in names
    assert "schema_version" in names
    assert dataset.split == ("split" in names)


def test_json_schema_accepts_the_row_and_refuses_what_is_not_one():
    schema = json_schema(Outer, "outer")
    assert schema["description"] == "An outer row."
    jsonschema.validate(plain(ROW), schema)
    for wrong in ({"maybe": "text"}, {"colour": "blue"}, {"extra": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**plain(ROW), **wrong}, schema)


def test_content_id_depends_on_content_and_on_nothing_else():
    first = content_id("task", Inner(1), "text")
    assert first == content_id("task", Inner(1, note="none"), "text")
    assert first != content_id("task", Inner(2), "text")
    assert first.startswith("task-") and len(first) == len("task-") + 16
    assert content_id("x", {"a": 1, "b": 2}) == content_id("x", {"b": 2, "a": 1})


def test_content_id_is_the_same_in_every_release():
    assert content_id("task", "ü", 1, None, (True, 0.5)) == "task-601dcd1e3478bcff"


@pytest.mark.parametrize("row", [ROW, (ROW, {"b": ROW, "a": (1, None)}), [Colour.RED, 1e-7, 1e16, float("inf"), "ü"]])
def test_content_id_is_the_hash_of_the_plain_values_as_json(row):
    text = json.dumps([plain(row)], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert content_id("x", row) == f"x-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    with pytest.raises(TypeError, match="object has no place in a row"):
        content_id("x", row, object())


def test_an_id_is_given_to_text_that_is_no_unicode():
    assert content_id("x", "\ud800") != content_id("x", "\ud801")


def test_parts_do_not_run_into_each_other():
    assert content_id("x", "ab", "c") != content_id("x", "a", "bc")


def test_optional_enum_survives():
    row = plain(Finding("rule", "message"))
    assert restore(Finding, row) == Finding("rule", "message")
    assert ErrorClass("compile") is ErrorClass.COMPILE


def test_rows_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        ChatMessage("user", "x").role = "system"  # type: ignore[misc]
    assert Reject.__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.parametrize("length", [0, 1, 1990, 1999, 2000, 2001, 4000, 16_383, 16_384, 50_000])
def test_an_id_is_the_hash_of_the_whole_json_whatever_its_length(length):
    text = ("é" + "x" * length)[: length + 1]
    expected = hashlib.sha256(json.dumps([text], ensure_ascii=False).encode()).hexdigest()[:16]
    assert content_id("row", text) == f"row-{expected}"
