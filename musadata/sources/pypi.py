"""A source distribution or wheel from a package index, unpacked in memory; its setup never runs."""

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.sources.archives import ArchiveTree
from musadata.sources.code import CodeFiles
from musadata.sources.releases import fetch_release, find_license, find_metadata, find_repository, usual_index


def open_pypi(config: SourceConfig, seed: int) -> CodeFiles:
    """One version of a project; the source distribution if there is one, for its tests and examples are evidence.

    Raises:
        MusadataError: the index cannot be reached, does not have that version, or sends another file than it promised.
    """
    where = f"pypi {config.name} {config.revision}".strip()
    if not config.revision:
        raise MusadataError(
            "names no version", where=where, remedy="set revision, so that a rerun reads the same files"
        )
    try:
        release, data = fetch_release(config.url or usual_index(), config.name, config.revision)
    except MusadataError as error:
        raise MusadataError(error.what, where=where, remedy="check name, revision and url") from error
    tree = ArchiveTree(data, release.filename)
    about = find_metadata(tree)
    return CodeFiles(
        f"pypi:{config.name}",
        tree,
        config,
        seed,
        repository=find_repository(about),
        revision=config.revision,
        license=config.license or find_license(about),
        kernels=config.kernels,
    )
