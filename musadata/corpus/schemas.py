"""The published contract: one JSON Schema per dataset, and one per form in which a teacher has to answer."""

import json
from pathlib import Path
from typing import Any

import musadata
from musadata.corpus.datasets import DATASETS
from musadata.records import SCHEMA_VERSION
from musadata.schema import json_schema
from musadata.teacher.claims.steps import CLAIMS, STEPS

FOLDER = Path(musadata.__file__).parent.parent / "schemas"


def make_schemas() -> dict[str, dict[str, Any]]:
    """File name -> schema, for every dataset and for the teacher's six steps."""
    schemas = {
        f"{name}.v{SCHEMA_VERSION}.json": json_schema(dataset.kind, f"musadata {name}, version {SCHEMA_VERSION}")
        for name, dataset in DATASETS.items()
    }
    schemas[f"answer.reasoning.v{SCHEMA_VERSION}.json"] = reasoning_schema()
    return schemas


def reasoning_schema() -> dict[str, Any]:
    """Six texts, one per step, and the claims of their sentences, for `response_format` of an OpenAI-compatible server.

    The texts have no bound on their length: under xgrammar a bounded string cannot hold a newline.
    """
    text = {"type": "string"}
    claim = {
        "type": "object",
        "properties": {"sentence": text, "claim": text},
        "required": ["sentence", "claim"],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"musadata six-step reasoning, version {SCHEMA_VERSION}",
        "description": "What a teacher answers when it is asked to reason about a task.",
        "type": "object",
        "properties": {**dict.fromkeys(STEPS, text), CLAIMS: {"type": "array", "items": claim}},
        "required": [*STEPS, CLAIMS],
        "additionalProperties": False,
    }


def render_schema(schema: dict[str, Any]) -> str:
    """As the file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def find_drift(folder: Path) -> list[str]:
    """Names of files that are missing, differ from the code, or stand for nothing any more."""
    schemas = make_schemas()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(
        name for name in schemas.keys() | there.keys() if there.get(name) != render_schema(schemas.get(name, {}))
    )
