"""The Python files below a folder."""

from pathlib import Path

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.sources.code import CodeFiles
from musadata.sources.trees import FolderTree


def open_directory(config: SourceConfig, seed: int) -> CodeFiles:
    """A folder on disk; rows name it by its last component, so that they do not depend on where it lies.

    Raises:
        MusadataError: there is no such folder, or no Python file in it.
    """
    root = Path(config.path).expanduser()
    if not root.is_dir():
        raise MusadataError("is not a folder", where=f"source {config.path}", remedy="name an existing folder")
    source = CodeFiles(f"directory:{root.resolve().name}", FolderTree(root), config, seed, kernels=config.kernels)
    return source.require_units(f"source {config.path}")
