"""Writes the files beside the shards: manifest, dataset card, descriptions for loaders, report."""

import json
from typing import Any

from musadata.config import Config
from musadata.corpus.card import CARD, DATASET_INFO, list_licenses, render_card, render_dataset_info
from musadata.corpus.croissant import NAME as CROISSANT
from musadata.corpus.croissant import render_croissant
from musadata.corpus.difficulty import describe_pass_rates
from musadata.corpus.lengths import describe_lengths
from musadata.corpus.manifest import (
    MANIFEST,
    Corpus,
    clean_corpus,
    describe_balance,
    describe_corpus,
    describe_splits,
    write_manifest,
)
from musadata.corpus.mixture import MIXTURE, describe_mixture
from musadata.corpus.report import REPORT, render_report
from musadata.corpus.spending import describe_spending
from musadata.storage import files

PAGES = (CARD, DATASET_INFO, CROISSANT, REPORT, MIXTURE)
COUNTED = ("balance", "splits", "pass_rates", "lengths", "mixing")  # what of a manifest is counted over rows


def publish(corpus: str, config: Any, *, shards: int | None = None) -> dict[str, Any]:
    """Write the manifest and all that is derived from it, at the end of a stage; returns the manifest.

    The same shards give the same files. Where the manifest already says all that the commits say, nothing is read of
    the shards, and pages that are there stay as they are.

    Raises:
        MusadataError: not a corpus, or the file system refuses.
    """
    opened = clean_corpus(corpus, shards=shards)
    manifest = describe_corpus(opened, config)
    if spending := describe_spending(corpus, manifest["funnel"]):
        manifest["spending"] = spending
    published = _published(corpus)
    if {name: one for name, one in published.items() if name not in COUNTED} == manifest:
        return published
    manifest["balance"] = describe_balance(opened.paths("tasks"), config)
    manifest["splits"] = describe_splits(opened.paths("tasks"))
    manifest["pass_rates"] = describe_pass_rates(opened.paths("tasks"), opened.paths("candidates"))
    for name, data in _render_pages(opened, manifest, config).items():
        files.write_if_changed(files.join(corpus, name), data)
    write_manifest(corpus, manifest)  # last, so that it never speaks for older pages
    return manifest


def _published(corpus: str) -> dict[str, Any]:
    """The manifest of an earlier run, if all pages are there; empty if not."""
    if not all(files.exists(files.join(corpus, name)) for name in (*PAGES, MANIFEST)):
        return {}
    try:
        manifest = json.loads(files.read_bytes(files.join(corpus, MANIFEST)))
    except ValueError:
        return {}
    return manifest if isinstance(manifest, dict) and set(COUNTED) <= set(manifest) else {}


def _render_pages(corpus: Corpus, manifest: dict[str, Any], config: Any) -> dict[str, bytes]:
    """All pages; what they say of the mixture goes into the manifest too."""
    from musadata.corpus.query import connect  # its import takes long, and where nothing has changed it is not needed

    connection = connect(corpus.path)
    published = config.published if isinstance(config, Config) else ""
    mixture = describe_mixture(connection, config)
    manifest["lengths"] = describe_lengths(connection)
    manifest["mixing"] = {name: mixture[name] for name in ("measured", "achieved")}
    return {
        MIXTURE: json.dumps(mixture, indent=1).encode() + b"\n",
        CARD: render_card(manifest, connection).encode(),
        DATASET_INFO: render_dataset_info(manifest).encode(),
        CROISSANT: render_croissant(manifest, list_licenses(connection), published),
        REPORT: render_report(manifest, connection).encode(),
    }
