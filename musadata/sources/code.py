"""A source of code files: any tree of files at one revision, with its licences."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

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
        prefix: leading folders that patterns and rows do not show ("src/" or "").
        include, exclude: glob patterns, matched against paths below `prefix`.
        importable: packages of the tree whose public names references import.
        license: SPDX identifier of whatever says nothing itself.
        kernels: whether native code is linked to the Python that calls it.
    """

    def __init__(
        self,
        origin: str,
        tree: Tree,
        *,
        seed: int,
        repository: str = "",
        revision: str = "",
        prefix: str = "",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        importable: frozenset[str] = frozenset(),
        license: str = "",
        kernels: bool = False,
    ):
        self.origin, self.tree, self.seed = origin, tree, seed
        self._repository, self._revision, self._prefix = repository, revision, prefix
        self._include, self._exclude = tuple(include), tuple(exclude)
        self.importable, self.kernels, self._license = importable, kernels, license

    def units(self) -> list[str]:
        """Paths of the files to read, sorted."""
        found = []
        for path in self.tree.paths():
            inner = path.removeprefix(self._prefix)
            wanted = not self._include or any(fnmatch(inner, pattern) for pattern in self._include)
            if path.endswith(".py") and wanted and not any(fnmatch(inner, pattern) for pattern in self._exclude):
                found.append(path)
        return sorted({*found, *getattr(self.tree, "faults", ())})  # what cannot be read is reported, not passed over

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
