"""A config is right, or one line says which key is wrong and what to do."""

import ast
import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata import config as module
from musadata.bounds import find_out_of_bounds
from musadata.config import (
    Config,
    SamplingConfig,
    SourceConfig,
    SourceType,
    TasksConfig,
    TeacherConfig,
    TeacherType,
    TracingConfig,
    VerifierConfig,
    load_config,
)
from musadata.errors import MusadataError

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / "configs"
SMALL = "sources: [{kind: package, name: torch}]\n"


@pytest.fixture
def load(tmp_path):
    def load_text(text: str | bytes) -> Config:
        path = tmp_path / "config.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path)

    return load_text


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_config_that_we_ship_is_right(path):
    assert load_config(path).sources


def test_a_small_config_has_all_defaults(load):
    config = load(SMALL)
    assert config == Config(sources=config.sources)
    assert config.sources[0].kind is SourceType.PACKAGE and config.teacher.kind is TeacherType.COMPILER


def test_whole_numbers_may_stand_for_numbers_and_lists_become_tuples(load):
    config = load(SMALL + "tasks: {seconds: 3, licenses: [MIT]}\n")
    assert config.tasks.seconds == 3.0 and isinstance(config.tasks.seconds, float)
    assert config.tasks.licenses == ("MIT",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file: must be a mapping of keys"),
        ("- a\n", "the file: must be a mapping of keys"),
        ("seed: 1\n", "sources: missing key"),
        ("sources: []\n", "sources: is empty"),
        ("sources: {}\n", "sources: must be a list"),
        ("sources: [torch]\n", r"sources\[0\]: must be a mapping of keys, not 'torch'"),
        ("sources: [{name: torch}]\n", r"sources\[0\]\.kind: missing key"),
        ("sources: [{kind: package}]\n", r"sources\[0\]\.name: is missing, but kind package needs it"),
        ("sources: [{kind: directory}]\n", r"sources\[0\]\.path: is missing, but kind directory needs it"),
        ("sources: [{kind: nnsmith}]\n", r"sources\[0\]\.count: is missing, but kind nnsmith needs it"),
        ("sources: [{kind: magic}]\n", r"sources\[0\]\.kind: must be one of package, directory.*'magic'"),
        ("sources: [{kind: [package]}]\n", r"sources\[0\]\.kind: must be one of"),
        ("sources: [{kind: package, name: 5}]\n", r"sources\[0\]\.name: must be a text, not 5"),
        ("sources: [{kind: package, name: torch, include: [1]}]\n", r"sources\[0\]\.include\[0\]: must be a text"),
        (SMALL + "sede: 1\n", "sede: unknown key; known here: .*seed"),
        (SMALL + "tasks: {second: 1}\n", r"tasks\.second: unknown key; known here: .*seconds"),
        (SMALL + "tasks: 5\n", "tasks: must be a mapping"),
        (SMALL + "seed: yes\n", "seed: must be a whole number, not True"),
        (SMALL + "seed: 1.5\n", "seed: must be a whole number, not 1.5"),
        (SMALL + "seed: '1'\n", "seed: must be a whole number, not '1'"),
        (SMALL + "seed: null\n", "seed: must be a whole number, not None"),
        (SMALL + "seed: -1\n", "seed: is -1, but must be from 0 to"),
        (SMALL + "shards: 0\n", "shards: is 0, but must be from 1 to 99999"),
        (SMALL + "tasks: {seconds: .nan}\n", r"tasks\.seconds: is nan, but must be 0.1 or more"),
        (SMALL + "tasks: {seconds: -.inf}\n", r"tasks\.seconds: is -inf"),
        (SMALL + "tasks: {duplicate_similarity: 1.5}\n", "duplicate_similarity: is 1.5, but must be from 0 to 1"),
        (SMALL + "tasks: {families: {matmul: much}}\n", r"tasks\.families\.matmul: must be a number"),
        (SMALL + "tracing: {shape_sets: 1}\n", r"tracing\.shape_sets: is 1, but must be from 2"),
        (SMALL + "sampling: {turns: 4}\n", r"sampling\.turns: is 4, but must be from 1 to 3"),
        (SMALL + "sampling: {early_bonus: [0.1]}\n", r"early_bonus: has 1 numbers, but there are 3 turns"),
        (SMALL + "sampling: {early_bonus: [0.1, 0.2, 0.0]}\n", r"early_bonus: rises, but a later success"),
        (SMALL + "verifier: {sanitize: 1}\n", r"verifier\.sanitize: must be true or false, not 1"),
        (
            SMALL + "teacher: {kind: openai, model: m, base_url: 'localhost:8000/v1'}\n",
            r"teacher\.base_url: is 'localhost:8000/v1', but must start with http:// or https://",
        ),
        (SMALL + "teacher: {kind: openai}\n", r"teacher\.model: is missing, but kind openai needs it"),
        (SMALL + "seed: 1\nseed: 2\n", "is not YAML .*the key 'seed' stands there twice"),
        (SMALL + "tasks: {seconds: 1, seconds: 2}\n", "the key 'seconds' stands there twice"),
        ("a: [\n", "is not YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "is not YAML"),
        ("? [a, b]\n: 1\n", "unknown key|is not YAML"),
        (b"\xff\xfe\x00", "is not YAML"),
        (b"\x00\x01", "is not YAML"),
    ],
)
def test_a_wrong_config_is_one_line_that_names_the_key(load, text, message):
    with pytest.raises(MusadataError, match=message) as caught:
        load(text)
    assert "config.yaml" in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(("make", "message"), [(lambda path: None, "No such file"), (Path.mkdir, "Is a directory")])
def test_a_config_that_is_not_a_file_is_named(tmp_path, make, message):
    make(tmp_path / "absent.yaml")
    with pytest.raises(MusadataError, match=rf"absent\.yaml: cannot be read \({message}"):
        load_config(tmp_path / "absent.yaml")


def test_a_bomb_of_aliases_is_refused_at_once(load):
    text = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    with pytest.raises(MusadataError, match="unknown key"):
        load(text)
    with pytest.raises(MusadataError):
        load(text + "sources: *a59\n")


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    return tmp_path_factory.mktemp("any")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([field.name for field in dataclasses.fields(Config)]), VALUES, max_size=4))
def test_any_yaml_is_a_config_or_one_clear_error(shared_path, data):
    path = shared_path / "config.yaml"
    path.write_text(yaml.safe_dump(data))
    try:
        assert isinstance(load_config(path), Config)
    except MusadataError as error:
        assert "\n" not in str(error)


def test_every_bound_holds_for_the_default():
    assert not list(find_out_of_bounds(Config(sources=())))


def test_a_number_out_of_bounds_is_found_in_each_of_several_teachers():
    teachers = (TeacherConfig(), TeacherConfig(temperature=11.0))
    [(key, wrong)] = find_out_of_bounds(Config(sources=(), teachers=teachers))
    assert (key, wrong) == ("teachers[1].temperature", "is 11.0, but must be from 0 to 10")


def test_every_key_is_described():
    for name in dir(module):
        kind = getattr(module, name)
        if dataclasses.is_dataclass(kind):
            for field in dataclasses.fields(kind):
                if not dataclasses.is_dataclass(field.type):
                    assert f"{field.name}: " in (kind.__doc__ or ""), field.name


def test_every_part_of_a_config_can_be_a_key_of_a_cache(load):
    config = load(SMALL + "tasks: {families: {matmul: 0.2}}\n")
    assert hash(config) == hash(load(SMALL + "tasks: {families: {matmul: 0.2}}\n"))
    assert config != load(SMALL + "tasks: {families: {matmul: 0.3}}\n")


def test_a_config_can_be_written_and_read_again(tmp_path):
    from musadata.rows import plain

    config = load_config(CONFIGS / "quickstart.yaml")
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(plain(config)))
    assert load_config(path) == config


def read_attributes(root: Path) -> set[tuple[str, str]]:
    """(what it is read from, attribute) of all code but config.py: ("sampling", "keep") for `self.sampling.keep`."""
    found = set()
    for path in [*(root / "musadata").rglob("*.py"), *(root / "pipelines").rglob("*.py")]:
        if path.name == "config.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.add((getattr(node.value, "attr", getattr(node.value, "id", "")), node.attr))
    return found


def test_every_key_is_read_by_the_code_that_it_is_for():
    owners = {
        Config: ("config",),
        SourceConfig: ("source", "config"),
        TasksConfig: ("tasks", "config"),
        TracingConfig: ("tracing", "config"),
        TeacherConfig: ("teacher", "config"),
        VerifierConfig: ("verifier", "config"),
        SamplingConfig: ("sampling", "config"),
    }
    read = read_attributes(ROOT)
    unread = [
        f"{kind.__name__}.{key.name}"
        for kind, names in owners.items()
        for key in dataclasses.fields(kind)
        if not any((name, key.name) in read or (f"_{name}", key.name) in read for name in names)
    ]
    assert not unread
