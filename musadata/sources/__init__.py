"""Where code and graphs come from. `open_source` is the only way in."""

from importlib import import_module

from musadata.config import SourceConfig, SourceType
from musadata.errors import MusadataError
from musadata.sources.protocol import Source

# Kind -> where the function lies that opens it; imported only when used.
OPENERS = {
    SourceType.PACKAGE: "musadata.sources.package:open_package",
    SourceType.DIRECTORY: "musadata.sources.directory:open_directory",
    SourceType.GIT: "musadata.sources.git:open_git",
    SourceType.PYPI: "musadata.sources.pypi:open_pypi",
    SourceType.PARQUET: "musadata.sources.parquet:ParquetFiles",
    SourceType.GITHUB: "musadata.sources.github:open_github",
    SourceType.NNSMITH: "musadata.sources.nnsmith:NNSmithSource",
    SourceType.COMPOSITION: "musadata.sources.drawn:CompositionSource",
    SourceType.OPERATORS: "musadata.sources.drawn:OperatorSource",
}


def open_source(config: SourceConfig, seed: int) -> Source:
    """The source that a config names, ready in any worker.

    Raises:
        MusadataError: it is not there, or holds nothing.
    """
    module, _, name = OPENERS[config.kind].partition(":")
    try:
        source: Source = getattr(import_module(module), name)(config, seed)
    except OSError as error:
        place = config.name or config.path or config.url
        raise MusadataError(
            f"cannot be read ({error.strerror or error})", where=f"source {place}", remedy="check that you may read it"
        ) from error
    return source


__all__ = ["Source", "open_source"]
