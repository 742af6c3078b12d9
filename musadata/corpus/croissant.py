"""croissant.json: the corpus described in Croissant 1.0, so that search engines and loaders know its columns.

Written by hand, because mlcroissant brings along rdflib, pandas and scipy; a test validates the file with it.
Source: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from musadata.corpus.datasets import DATASETS, Dataset
from musadata.schema import arrow_schema

NAME = "croissant.json"
_TYPES = {pa.string(): "sc:Text", pa.int64(): "sc:Integer", pa.float64(): "sc:Float", pa.bool_(): "sc:Boolean"}
CITATION = (
    "@article{musacoder2026, title={MusaCoder}, author={The MusaCoder authors}, year={2026}, "
    "url={https://arxiv.org/abs/2606.04847}}"
)
_CONTEXT = Path(__file__).with_name("croissant_context.json")  # of every file in this format


def describe_croissant(manifest: dict[str, Any], licenses: Sequence[str], published: str = "") -> dict[str, Any]:
    """The description of a corpus from its manifest; files by relative path and SHA-256, columns of every dataset."""
    datasets = {name: manifest["datasets"][name] for name in DATASETS if name in manifest["datasets"]}
    return {
        "@context": json.loads(_CONTEXT.read_text(encoding="utf-8")),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "musadata-corpus",
        "description": "Verified training data for models that write GPU kernels.",
        "license": [_license(license) for license in licenses],
        "citeAs": CITATION,
        **({"datePublished": published} if published else {}),
        "version": f"{manifest['schema_version']}.0.0",
        "distribution": [entry for name, dataset in datasets.items() for entry in _describe_files(name, dataset)],
        "recordSet": [_describe_records(DATASETS[name]) for name in datasets],
    }


def render_croissant(manifest: dict[str, Any], licenses: Sequence[str], published: str = "") -> bytes:
    """As the file holds it."""
    return json.dumps(describe_croissant(manifest, licenses, published), indent=1, ensure_ascii=False).encode() + b"\n"


def _license(license: str) -> str:
    """A link where the licence is one identifier, the expression itself where it is not."""
    return f"https://spdx.org/licenses/{license}" if re.fullmatch(r"[A-Za-z0-9.+-]+", license) else license


def _describe_files(name: str, dataset: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for shard in dataset["shards"]:
        yield {
            "@type": "cr:FileObject",
            "@id": shard["path"],
            "name": shard["path"],
            "contentUrl": shard["path"],
            "contentSize": f"{shard['bytes']} B",
            "encodingFormat": "application/x-parquet",
            "sha256": shard["sha256"],
        }
    yield {
        "@type": "cr:FileSet",
        "@id": f"{name}-shards",
        "name": f"{name}-shards",
        "encodingFormat": "application/x-parquet",
        "includes": f"{name}/*.parquet",
    }


def _describe_records(dataset: Dataset) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": dataset.name,
        "name": dataset.name,
        "description": dataset.purpose,
        "key": {"@id": f"{dataset.name}/{dataset.key}"},
        "field": [_describe_column(dataset.name, column) for column in arrow_schema(dataset.kind)],
    }


def _describe_column(dataset: str, column: pa.Field) -> dict[str, Any]:
    source = {"fileSet": {"@id": f"{dataset}-shards"}, "extract": {"column": column.name}}
    return _describe_field(f"{dataset}/{column.name}", column, source)


def _describe_field(identity: str, column: pa.Field, source: dict[str, Any]) -> dict[str, Any]:
    """A column or a part of one. Parts of a struct become sub-fields; structs in structs are left to JSON Schema."""
    kind, text = column.type, column.metadata[b"description"].decode()
    field: dict[str, Any] = {"@type": "cr:Field", "@id": identity, "name": identity, "description": text}
    if pa.types.is_list(kind):
        field["repeated"] = True
    if not pa.types.is_struct(_element(kind)):
        return field | {"dataType": _TYPES[_element(kind)], "source": source}
    parts = [
        _describe_field(f"{identity}/{part.name}", part, {**source, "transform": {"jsonPath": part.name}})
        for part in _element(kind).fields
        if not pa.types.is_struct(_element(part.type))
    ]
    return field | {"subField": parts}


def _element(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind
