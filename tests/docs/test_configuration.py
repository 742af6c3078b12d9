"""docs/configuration.md says what musadata/config.py says, and its examples load."""

import re
import typing

import pytest
import yaml

from docs.generate_configuration import PAGE, SECTIONS, SOURCES, TEACHERS, meanings, render_page
from musadata.config import Config, SourceConfig, SourceType, TeacherConfig, TeacherType, load_config

EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_agrees_with_the_code():
    assert PAGE.read_text() == render_page(), "run `python -m docs.generate_configuration`"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: " ".join(example.split())[:40])
def test_every_example_loads(example, tmp_path):
    given = yaml.safe_load(example)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"sources": [{"kind": "package", "name": "torch"}], **given}))
    config = load_config(tmp_path / "config.yaml")
    for name in given:
        assert getattr(config, name) != getattr(Config(sources=()), name), f"the example changes nothing in {name}"


def test_every_kind_and_every_key_is_described():
    assert set(SOURCES) == set(SourceType) and set(TEACHERS) == set(TeacherType)
    for guides, kind in ((SOURCES, SourceConfig), (TEACHERS, TeacherConfig)):
        described = {name.rstrip("!") for guide in guides.values() for name in guide.keys.split()}
        assert described == set(typing.get_type_hints(kind)) - {"kind"}
    assert set(typing.get_type_hints(Config)) == {
        "sources",
        "seed",
        "shards",
        "limit",
        "published",
        "teacher",
        "teachers",
        *SECTIONS,
    }


@pytest.mark.parametrize(
    "kind",
    [Config, SourceConfig, TeacherConfig, *(kind for kind, _ in SECTIONS.values())],
    ids=lambda kind: kind.__name__,
)
def test_every_attribute_has_a_meaning(kind):
    sections = {"teacher", *SECTIONS} if kind is Config else set()
    assert set(meanings(kind)) >= set(typing.get_type_hints(kind)) - sections
