"""The files of an installed Python package."""

import re
from importlib import metadata
from pathlib import Path

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.sources.code import CodeFiles
from musadata.sources.licenses import UNKNOWN, identify_text, metadata_license
from musadata.sources.trees import FolderTree

REPOSITORY = re.compile(r"^https?://(github\.com|gitlab\.com|bitbucket\.org|codeberg\.org)/[\w.\-]+/[\w.\-]+/?$")
INSTALLED = frozenset({"torch", "numpy"})  # what every user of a reference has anyway


def open_package(config: SourceConfig, seed: int) -> CodeFiles:
    """An installed package by its import name.

    Raises:
        MusadataError: no such package is installed, or it holds no Python files.
    """
    distribution = _find_distribution(config.name)
    root = Path(str(distribution.locate_file("")))
    tree = FolderTree(root, config.name)
    source = CodeFiles(
        f"package:{config.name}",
        tree,
        seed=seed,
        repository=_repository(distribution),
        revision=distribution.version,
        prefix=f"{config.name}/",
        include=config.include,
        exclude=config.exclude,
        importable=frozenset({config.name}) & INSTALLED,
        license=config.license or _license(distribution),
    )
    if not source.units():
        raise MusadataError(
            "holds no Python files that match", where=f"package {config.name}", remedy="correct include and exclude"
        )
    return source


def _find_distribution(name: str) -> metadata.Distribution:
    names = [name, *metadata.packages_distributions().get(name, [])]
    for candidate in names:
        try:
            distribution = metadata.distribution(candidate)
        except (metadata.PackageNotFoundError, ValueError):
            continue
        if (Path(str(distribution.locate_file(""))) / name).is_dir():
            return distribution
    raise MusadataError("is not installed", where=f"package {name}", remedy=f"install it, or use kind: pypi for {name}")


def _repository(distribution: metadata.Distribution) -> str:
    """The public repository among the distribution's links, "" if it names none."""
    links = [entry.partition(",")[2].strip() for entry in distribution.metadata.get_all("Project-URL") or []]
    links += distribution.metadata.get_all("Home-page") or []
    return next((link.rstrip("/") for link in links if REPOSITORY.match(link)), "")


def _license(distribution: metadata.Distribution) -> str:
    """The licence of the package's own files: its main licence file, or what its metadata say.

    A wheel's licence expression also covers the native libraries inside; the licence file at the top is the package's.
    """
    text = next((text for text in map(distribution.read_text, ("licenses/LICENSE", "LICENSE")) if text), "")
    found = identify_text(text) if text else UNKNOWN
    if found != UNKNOWN:
        return found

    def field(name: str) -> list[str]:
        return distribution.metadata.get_all(name) or []

    return metadata_license("".join(field("License-Expression")), "".join(field("License")), field("Classifier"))
