"""A source of code files: any tree of files at one revision, with its licences."""

from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.records import Provenance
from musadata.sources.archives import is_kept
from musadata.sources.licenses import LICENSE_FILE, header_license, identify_text, license_of
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
        self.importable, self.kernels, self._license = importable, kernels, license or config.license

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
        """The revision, or a hash of all that mining may read where there is none."""
        if self._revision:
            return self._revision
        digest = sha256()
        for path in filter(is_kept, self.tree.paths()):
            try:
                content = sha256(self.tree.read(path)).hexdigest()
            except UnreadableFile as error:
                content = error.reason
            digest.update(f"{path}\0{content}\0".encode(errors="surrogatepass"))
        return digest.hexdigest()[:16]

    def provenance(self, path: str, lines: str) -> Provenance:
        return Provenance(self.origin, self._repository, self._revision, path, lines, self._license_of(path))

    def _license_of(self, path: str) -> str:
        try:
            header = header_license(self.tree.read(path)[:8000].decode("utf-8", "replace"))
        except UnreadableFile:
            header = ""
        return license_of(path, header, self._license_files, self._license)

    @cached_property
    def _license_files(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in self.tree.paths():
            folder, _, name = path.rpartition("/")
            if LICENSE_FILE.match(name) and folder not in found:
                try:
                    found[folder] = identify_text(self.tree.read(path).decode("utf-8", "replace"))
                except UnreadableFile:
                    continue
        return found
