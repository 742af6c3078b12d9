"""The files of an installed Python package."""

from importlib import metadata
from pathlib import Path

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.sources.code import CodeFiles
from musadata.sources.licenses import UNKNOWN, identify_text
from musadata.sources.releases import find_license, find_repository
from musadata.sources.trees import FolderTree

INSTALLED = frozenset({"torch", "numpy"})  # what every reference may import


def open_package(config: SourceConfig, seed: int) -> CodeFiles:
    """An installed package by its import name.

    Raises:
        MusadataError: no such package is installed, or it holds no Python files.
    """
    distribution = _find_distribution(config.name)
    root = Path(str(distribution.locate_file("")))
    source = CodeFiles(
        f"package:{config.name}",
        FolderTree(root, config.name),
        config,
        seed,
        repository=find_repository(distribution.metadata),
        revision=distribution.version,
        license=config.license or _license(distribution),
        prefix=f"{config.name}/",
        importable=frozenset({config.name}) & INSTALLED,
    )
    return source.require_units(f"package {config.name}")


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


def _license(distribution: metadata.Distribution) -> str:
    """The licence of the package's own files: its main licence file, or what its metadata say.

    A wheel's licence expression also covers the native libraries inside; the licence file at the top is the package's.
    """
    text = next((text for text in map(distribution.read_text, ("licenses/LICENSE", "LICENSE")) if text), "")
    found = identify_text(text) if text else UNKNOWN
    return found if found != UNKNOWN else find_license(distribution.metadata)
