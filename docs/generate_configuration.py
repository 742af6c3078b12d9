"""Writes docs/configuration.md from the dataclasses and docstrings of musadata/config.py.

python -m docs.generate_configuration [--check]
"""

import argparse
import inspect
import re
import sys
import typing
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

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
)

PAGE = Path(__file__).with_name("configuration.md")
CODE_KEYS = "include exclude license kernels"


@dataclass(frozen=True)
class Guide:
    """How one kind of source or teacher is used: a sentence, its keys (`!` marks required ones), and an example."""

    about: str
    keys: str
    example: str


SOURCES = {
    SourceType.PACKAGE: Guide(
        "`nn.Module`s of an installed Python package.",
        "name! include exclude license",
        'sources:\n  - kind: package\n    name: torch\n    include: ["nn/modules/*.py"]\n',
    ),
    SourceType.DIRECTORY: Guide(
        "Code below a folder.",
        f"path! {CODE_KEYS}",
        'sources:\n  - kind: directory\n    path: ~/models\n    license: MIT\n    exclude: ["tests/*"]\n',
    ),
    SourceType.GIT: Guide(
        "A repository by URL, or a local clone or bare mirror.",
        f"url! revision {CODE_KEYS}",
        "sources:\n  - kind: git\n    url: https://github.com/rosinality/stylegan2-pytorch\n"
        "    revision: bef283a1c24087da704d16c30abc8e36e63efa0e\n",
    ),
    SourceType.PYPI: Guide(
        "A source distribution or wheel of a Python package index.",
        f"name! revision url {CODE_KEYS}",
        'sources:\n  - kind: pypi\n    name: timm\n    revision: "1.0.19"\n',
    ),
    SourceType.PARQUET: Guide(
        "Dumps of files in Parquet, such as The Stack.",
        "path! name columns! include exclude license",
        "sources:\n  - kind: parquet\n    path: /data/the-stack/python/*.parquet\n"
        "    columns: {content: content, path: path, repository: repo_name, license: license}\n",
    ),
    SourceType.GITHUB: Guide(
        "Repositories found by a search on GitHub. A token is read from `GITHUB_TOKEN`.",
        f"name! path! count url {CODE_KEYS}",
        'sources:\n  - kind: github\n    name: "topic:cuda language:python"\n    path: build/repositories.jsonl\n'
        "    count: 100\n",
    ),
    SourceType.NNSMITH: Guide(
        "Random graphs, drawn with NNSmith and printed as modules.",
        "count! nodes",
        "sources:\n  - kind: nnsmith\n    count: 400\n    nodes: 6\n",
    ),
    SourceType.COMPOSITION: Guide(
        "Fused chains and small blocks, composed of operators; no structure twice.",
        "count!",
        "sources:\n  - kind: composition\n    count: 600\n",
    ),
    SourceType.OPERATORS: Guide(
        "PyTorch's operators, one task each.", "count!", "sources:\n  - kind: operators\n    count: 250\n"
    ),
}
TEACHERS = {
    TeacherType.COMPILER: Guide(
        "A compiler that lowers a task's aten graph to CUDA C++ in several schedules. Not a language model.",
        "samples faults",
        "teacher:\n  kind: compiler\n  samples: 6\n  faults: 2\n",
    ),
    TeacherType.OPENAI: Guide(
        "A model behind any server that speaks OpenAI's chat protocol.",
        "model! base_url! samples temperature top_p max_tokens concurrency timeout_seconds",
        'teacher:\n  kind: openai\n  base_url: "http://localhost:8000/v1"\n  model: my-model\n  samples: 8\n',
    ),
    TeacherType.REPLAY: Guide(
        "Answers that were given before: a corpus, a Parquet file, or a journal.",
        "path! samples",
        "teacher:\n  kind: replay\n  path: build/quickstart\n  samples: 3\n",
    ),
}
SECTIONS = {
    "tasks": (TasksConfig, 'tasks:\n  max_lines: 500\n  licenses: ["MIT", "Apache-2.0"]\n  families: {matmul: 0.3}\n'),
    "tracing": (TracingConfig, "tracing:\n  shape_sets: 3\n"),
    "verifier": (VerifierConfig, "verifier:\n  backend: cuda\n  timed_runs: 200\n"),
    "sampling": (SamplingConfig, "sampling:\n  turns: 2\n  keep: 8\n  early_bonus: [0.2, 0.1]\n"),
}
_HEAD = """# Configuration

Written by `python -m docs.generate_configuration` from `musadata/config.py`; a test compares the two.

A run is configured by one YAML file. An unknown key, a missing key or a value of the wrong type is an error that
names the key. `configs/` has complete examples.
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


def render_page() -> str:
    """The whole page."""
    config, source, teacher = Config(sources=()), SourceConfig(kind=SourceType.PACKAGE), TeacherConfig()
    parts = [_HEAD, "## The run", render_keys(config, ["seed", "shards"]), _example("seed: 20260601\nshards: 32\n")]
    parts += ["## sources", meanings(Config)["sources"].capitalize()]
    for kind, guide in SOURCES.items():
        parts += [f"### kind: {kind.value}", guide.about, render_keys(source, guide.keys.split(), kind.value)]
        parts += [_example(guide.example)]
    parts += ["## teacher", "Who reasons about tasks and writes kernels."]
    for kind, guide in TEACHERS.items():
        parts += [f"### kind: {kind.value}", guide.about, render_keys(teacher, guide.keys.split(), kind.value)]
        parts += [_example(guide.example)]
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
