"""A source of code files: any tree of files at one revision, with its licences."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.records import Provenance
from musadata.sources.archives import is_kept
from musadata.sources.dependencies import open_dependencies
from musadata.sources.file_licenses import FileLicenses
from musadata.sources.licenses import all_of
from musadata.sources.protocol import CodeFile, Tree, UnreadableFile

if TYPE_CHECKING:
    from musadata.sandbox import Caller


class CodeFiles:
    """The Python files of a tree, one unit each.

    Args:
        origin: what rows call the source.
        config: `include` and `exclude` are matched against paths below `prefix`; `license` is the default of the next.
        license: SPDX identifier of files that do not state one.
        prefix: leading folders that patterns do not show ("torch/" or "").
        importable: packages of the tree whose public names references import.
        kernels: whether native code is linked to the Python that calls it.
    """

    def __init__(
        self,
        origin: str,
        tree: Tree,
        config: SourceConfig,
        seed: int,
        *,
        repository: str = "",
        revision: str = "",
        license: str = "",
        prefix: str = "",
        importable: frozenset[str] = frozenset(),
        kernels: bool = False,
    ):
        self.origin, self.tree, self.seed, self._config = origin, tree, seed, config
        self._repository, self._revision, self._prefix = repository, revision, prefix
        self.importable, self.kernels = importable, kernels
        self.harvest_seconds = 0.0 if importable else config.harvest_seconds  # what is installed shadows its copy
        self.dependencies = open_dependencies(config.dependencies)
        self._licenses = FileLicenses(tree, license or config.license)

    def units(self) -> list[str]:
        """Paths of the files to read, sorted."""
        found = []
        for path in self.tree.paths():
            inner = path.removeprefix(self._prefix)
            wanted = not self._config.include or any(fnmatch(inner, pattern) for pattern in self._config.include)
            if path.endswith(".py") and wanted and not any(fnmatch(inner, pattern) for pattern in self._config.exclude):
                found.append(path)
        return sorted({*found, *getattr(self.tree, "faults", ())})  # what cannot be read is reported

    def require_units(self, where: str) -> "CodeFiles":
        """Itself.

        Raises:
            MusadataError: no file matches.
        """
        if not self.units():
            remedy = "name a place with Python code, or correct include and exclude"
            raise MusadataError("holds no Python files that match", where=where, remedy=remedy)
        return self

    def read(self, unit: str, sandbox: "Caller") -> Iterator[CodeFile]:
        """The one file that a unit is."""
        yield CodeFile(self, unit)

    @cached_property
    def revision(self) -> str:
        """The revision, or a hash of all that mining may read where there is none; and what packages were to be had."""
        return " ".join(filter(None, (self._revision or self._hash(), self.dependencies.revision)))

    def _hash(self) -> str:
        digest = sha256()
        for path in filter(is_kept, self.tree.paths()):
            try:
                content = sha256(self.tree.read(path)).hexdigest()
            except UnreadableFile as error:
                content = error.reason
            digest.update(f"{path}\0{content}\0".encode(errors="surrogatepass"))
        return digest.hexdigest()[:16]

    def provenance(self, path: str, lines: str, parts: Iterable[str] = ()) -> Provenance:
        files = dict.fromkeys((path, *sorted(parts)))
        copied = [item for item in files if self.dependencies.holds(item)]
        own = [self._licenses.of(item) for item in files if item not in copied]
        license = all_of([*own, *map(self.dependencies.license_of, copied)])
        packages = tuple(sorted({self.dependencies.pin_of(item) for item in copied}))
        return Provenance(self.origin, self._repository, self._revision, path, lines, license, packages)
