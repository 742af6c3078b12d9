"""Writes the files beside the shards: manifest, dataset card, descriptions for loaders, report."""

from typing import Any

from musadata.corpus.card import CARD, DATASET_INFO, collect_facts, render_card, render_dataset_info
from musadata.corpus.croissant import NAME as CROISSANT
from musadata.corpus.croissant import render_croissant
from musadata.corpus.manifest import write_manifest
from musadata.corpus.query import connect
from musadata.corpus.report import REPORT, render_report
from musadata.storage import files


def publish(corpus: str, config: Any, *, shards: int | None = None) -> dict[str, Any]:
    """Write the manifest and all that is derived from it, at the end of a stage; returns the manifest.

    The same shards give the same files.

    Raises:
        MusadataError: not a corpus, or the file system refuses.
    """
    manifest = write_manifest(corpus, config, shards=shards)
    connection = connect(corpus)
    facts = collect_facts(connection)
    pages = {
        CARD: render_card(manifest, facts).encode(),
        DATASET_INFO: render_dataset_info(manifest).encode(),
        CROISSANT: render_croissant(manifest, [license for license, _ in facts.licenses]),
        REPORT: render_report(manifest, connection).encode(),
    }
    for name, data in pages.items():
        files.write_if_changed(files.join(corpus, name), data)
    return manifest
