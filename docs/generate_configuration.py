"""Writes docs/configuration.md from the dataclasses and docstrings of musadata/config.py.

python -m docs.generate_configuration [--check]
"""

import argparse
import inspect
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import yaml

from musadata.config import (
    KEYS,
    ClusterConfig,
    Config,
    GroundingConfig,
    MixingConfig,
    PortsConfig,
    ProfilingConfig,
    QuestionsConfig,
    RequestsConfig,
    RewardsConfig,
    SamplingConfig,
    SourceConfig,
    SourceType,
    TasksConfig,
    TeacherConfig,
    TeacherType,
    TracingConfig,
    UnitTestsConfig,
    VerifierConfig,
)

PAGE = Path(__file__).with_name("configuration.md")


@dataclass(frozen=True)
class Guide:
    """How one kind of source or teacher is used: a sentence, its keys (`!` marks required ones), and an example."""

    about: str
    keys: str
    example: str


_GUIDES = yaml.safe_load(Path(__file__).with_name("configuration_guides.yaml").read_text(encoding="utf-8"))
SOURCES = {SourceType(kind): Guide(keys=KEYS[kind], **guide) for kind, guide in _GUIDES["sources"].items()}
TEACHERS = {TeacherType(kind): Guide(keys=KEYS[kind], **guide) for kind, guide in _GUIDES["teachers"].items()}
_SECTION_KINDS = {
    "tasks": TasksConfig,
    "tracing": TracingConfig,
    "requests": RequestsConfig,
    "grounding": GroundingConfig,
    "verifier": VerifierConfig,
    "sampling": SamplingConfig,
    "unit_tests": UnitTestsConfig,
    "questions": QuestionsConfig,
    "rewards": RewardsConfig,
    "mixing": MixingConfig,
    "profiling": ProfilingConfig,
    "ports": PortsConfig,
    "cluster": ClusterConfig,
}
SECTIONS: dict[str, tuple[Any, str]] = {
    name: (kind, _GUIDES["sections"][name]) for name, kind in _SECTION_KINDS.items()
}
_HEAD = """# Configuration

Written by `python -m docs.generate_configuration` from `musadata/config.py`; a test compares the two.

A run is configured by one YAML file. An unknown key, a missing key, a key of another kind or a value of the wrong type
is an error that names the key. Relative paths are meant from the folder of the file. `configs/` has complete examples.
"""


def meanings(kind: type) -> dict[str, str]:
    """Each attribute's line of the `Attributes:` block of a class's docstring."""
    found: dict[str, str] = {}
    name = ""
    for line in (inspect.getdoc(kind) or "").partition("Attributes:\n")[2].splitlines():
        start = re.match(r"(?: {4})?(\w+): (.*)", line)
        if start:
            name = start[1]
            found[name] = start[2]
        elif name:
            found[name] += f" {line.strip()}"
    return {name: text.strip() for name, text in found.items()}


def meaning_for(text: str, kind: str) -> str:
    """The clauses of an attribute's meaning that hold for one kind: "the folder, for `directory`; the glob, for …"."""
    clauses = text.split("; ")
    mentioned = [clause for clause in clauses if f"`{kind}`" in clause]
    chosen = "; ".join(mentioned if mentioned and len(clauses) > 1 else clauses)
    return re.sub(r",? for `\w+`(?:(?:, | and )`\w+`)*", "", chosen).rstrip(".") + "."


def render_type(kind: Any) -> str:
    """As a reader of YAML would name it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return f"list of {render_type(arguments[0])}s"
    if origin is dict:
        return f"mapping of text to {render_type(arguments[1])}"
    if kind is Any:
        return "anything"
    if kind is TeacherConfig:
        return "`teacher`"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return {int: "whole number", float: "number", str: "text", bool: "true or false"}[kind]


def render_default(value: Any) -> str:
    if isinstance(value, (tuple, dict)):
        return ", ".join(f"`{item}`" for item in value) or "none"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value != "" else "none"


def render_keys(instance: Any, names: list[str], variant: str = "") -> str:
    """A table of keys with type, default and meaning; with `variant`, their meaning for this kind."""
    kind = type(instance)
    types, texts = typing.get_type_hints(kind), meanings(kind)
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in names:
        name = key.rstrip("!")
        text = meaning_for(texts[name], variant) if variant else texts[name]
        text = text[:1].upper() + text[1:]
        default = "required" if key.endswith("!") else render_default(getattr(instance, name))
        lines.append(f"| `{name}` | {render_type(types[name])} | {default} | {text} |")
    return "\n".join(lines)


def _example(text: str) -> str:
    return f"```yaml\n{text}```"


def _render_kinds(instance: Any, guides: Mapping[Any, Guide]) -> Iterator[str]:
    for kind, guide in guides.items():
        yield from (f"### kind: {kind.value}", guide.about, render_keys(instance, guide.keys.split(), kind.value))
        yield _example(guide.example)


def render_page() -> str:
    """The whole page."""
    config, source, teacher = Config(sources=()), SourceConfig(kind=SourceType.PACKAGE), TeacherConfig()
    parts = [
        _HEAD,
        "## The run",
        render_keys(config, ["seed", "shards", "limit", "published", "teachers"]),
        _example("seed: 20260601\nshards: 32\n"),
    ]
    parts += ["## sources", meanings(Config)["sources"].capitalize(), *_render_kinds(source, SOURCES)]
    parts += ["## teacher", "Who reasons about tasks and writes kernels.", *_render_kinds(teacher, TEACHERS)]
    for name, (kind, example) in SECTIONS.items():
        parts += [f"## {name}", render_keys(kind(), list(typing.get_type_hints(kind))), _example(example)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is out of date")
    if parser.parse_args().check:
        return int(PAGE.read_text(encoding="utf-8") != render_page())
    PAGE.write_text(render_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
