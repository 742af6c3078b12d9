"""croissant.json: the corpus described in Croissant 1.0, so that search engines and loaders know its columns.

Source: https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html
"""

import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from musadata.corpus.datasets import DATASETS, Dataset

NAME = "croissant.json"
_TYPES = {str: "sc:Text", int: "sc:Integer", float: "sc:Float", bool: "sc:Boolean"}
_TERMS = (
    "column data dataType dct:conformsTo examples extract field fileProperty fileObject fileSet format includes "
    "isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate "
    "separator source subField transform citeAs equivalentProperty"
)


def describe_croissant(manifest: dict[str, Any], licenses: Sequence[str]) -> dict[str, Any]:
    """The description of a corpus from its manifest; files by relative path and SHA-256, columns of every dataset."""
    datasets = {name: manifest["datasets"][name] for name in DATASETS if name in manifest["datasets"]}
    return {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "musadata-corpus",
        "description": "Verified training data for models that write GPU kernels.",
        "license": [_license(license) for license in licenses],
        "version": f"{manifest['schema_version']}.0.0",
        "distribution": [entry for name, dataset in datasets.items() for entry in _describe_files(name, dataset)],
        "recordSet": [_describe_records(DATASETS[name]) for name in datasets],
    }


def render_croissant(manifest: dict[str, Any], licenses: Sequence[str]) -> bytes:
    """As the file holds it."""
    return json.dumps(describe_croissant(manifest, licenses), indent=1, ensure_ascii=False).encode() + b"\n"


def _license(license: str) -> str:
    """A link where the licence is one identifier, the expression itself where it is not."""
    return f"https://spdx.org/licenses/{license}" if re.fullmatch(r"[A-Za-z0-9.+-]+", license) else license


def _context() -> dict[str, Any]:
    context: dict[str, Any] = {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
    }
    for term in _TERMS.split():
        prefix, _, name = term.rpartition(":")
        context[name] = f"{prefix or 'cr'}:{name}"
    context["data"] = {"@id": "cr:data", "@type": "@json"}
    context["examples"] = {"@id": "cr:examples", "@type": "@json"}
    context["dataType"] = {"@id": "cr:dataType", "@type": "@vocab"}
    return context


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
    hints = typing.get_type_hints(dataset.kind)
    return {
        "@type": "cr:RecordSet",
        "@id": dataset.name,
        "name": dataset.name,
        "description": dataset.purpose,
        "key": {"@id": f"{dataset.name}/{dataset.key}"},
        "field": [_describe_field(dataset.name, column, hint) for column, hint in hints.items()],
    }


def _describe_field(dataset: str, column: str, hint: Any) -> dict[str, Any]:
    """One column. The parts of a struct become sub-fields; structs inside structs are left to the JSON Schema."""
    identity = f"{dataset}/{column}"
    source = {"fileSet": {"@id": f"{dataset}-shards"}, "extract": {"column": column}}
    field: dict[str, Any] = {"@type": "cr:Field", "@id": identity, "name": identity}
    if typing.get_origin(hint) is tuple:
        field["repeated"] = True
    kind = _element(hint)
    if not dataclasses.is_dataclass(kind):
        return {**field, "dataType": _data_type(kind), "source": source}
    parts = []
    for name, inner in typing.get_type_hints(kind).items():
        if not dataclasses.is_dataclass(_element(inner)):
            part = {"@type": "cr:Field", "@id": f"{identity}/{name}", "name": f"{identity}/{name}"}
            repeated = {"repeated": True} if typing.get_origin(inner) is tuple else {}
            data_type = _data_type(_element(inner))
            parts.append(
                {**part, **repeated, "dataType": data_type, "source": {**source, "transform": {"jsonPath": name}}}
            )
    return {**field, "subField": parts}


def _element(hint: Any) -> Any:
    """The type inside `tuple[...]` and `... | None`."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return _element(arguments[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return _element(next(a for a in arguments if a is not type(None)))
    return hint


def _data_type(kind: type) -> str:
    return "sc:Text" if issubclass(kind, StrEnum) else _TYPES[kind]
