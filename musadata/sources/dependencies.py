"""Packages whose Python code modules of a source may use. They are read in memory; nothing is installed or executed.

Code that a module needs of such a package is copied into its reference like the module's own, under its own licence.
"""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

from musadata.errors import MusadataError
from musadata.sources.archives import ArchiveTree
from musadata.sources.file_licenses import FileLicenses
from musadata.sources.licenses import UNKNOWN, identify_text
from musadata.sources.protocol import UnreadableFile
from musadata.sources.releases import fetch_release, find_license, find_metadata, usual_index

PLACE = "site-packages"  # the folder that dependencies seem to lie in, beside the files of a source
PIN = re.compile(r"([A-Za-z0-9][\w.\-]*)==([\w.!+\-]+)")
NOT_IMPORTED = frozenset({"tests", "test", "docs", "doc", "examples", "benchmarks", "scripts", "setup", "conftest"})
LICENSE_TEXT = re.compile(r"[^/]+\.dist-info/(licenses/)?(LICEN[CS]E|COPYING)(\.\w+)?$", re.IGNORECASE)


class Dependency:
    """One release: its Python files by path below `PLACE`."""

    def __init__(self, pin: str, filename: str, data: bytes):
        self.pin = pin
        self._tree = ArchiveTree(data, filename)
        if self._tree.faults:
            fault = self._tree.files[self._tree.faults[0]]
            if isinstance(fault, UnreadableFile) and fault.reason in ("bad_archive", "archive_bomb"):
                raise MusadataError(f"{filename} cannot be read: {fault.reason}")
        roots = [""] if filename.endswith(".whl") else ["", "src/"]
        tops = [(root, top) for root in roots for top in _tops(self._tree.paths(), root)]
        self.names = frozenset(top.removesuffix(".py") for _, top in tops)
        self._inner = {
            f"{PLACE}/{path.removeprefix(root)}": path
            for root, top in tops
            for path in self._tree.paths()
            if path.endswith(".py") and path.startswith(f"{root}{top}" if top.endswith(".py") else f"{root}{top}/")
        }

    def paths(self) -> Iterable[str]:
        return self._inner

    def read(self, path: str) -> bytes:
        return self._tree.read(self._inner[path])

    def license_of(self, path: str) -> str:
        return self._licenses.of(self._inner[path])

    @cached_property
    def _licenses(self) -> FileLicenses:
        """A wheel's metadata also cover the native libraries inside; its main licence file is the package's own."""
        texts = [
            self._tree.read(path).decode("utf-8", "replace") for path in filter(LICENSE_TEXT.match, self._tree.paths())
        ]
        found = identify_text(texts[0]) if len(texts) == 1 else UNKNOWN
        return FileLicenses(self._tree, found if found != UNKNOWN else find_license(find_metadata(self._tree)))


class Dependencies:
    """The packages of a source by the names that code imports them by, and why others cannot be had."""

    def __init__(self, pins: tuple[str, ...]):
        self._problems: dict[str, str] = {}
        self._by_path: dict[str, Dependency] = {}
        self.names: set[str] = set()
        for pin in pins:
            try:
                found = _fetch(pin, usual_index())
            except MusadataError as error:
                self._problems[pin] = error.what
                continue
            self.names |= found.names
            self._by_path |= {path: found for path in found.paths() if path not in self._by_path}

    def paths(self) -> Iterable[str]:
        """Their Python files, below `PLACE`."""
        return self._by_path

    def holds(self, path: str) -> bool:
        return path in self._by_path

    def read(self, path: str) -> bytes:
        """The file's bytes.

        Raises:
            UnreadableFile: it cannot be read.
        """
        return self._by_path[path].read(path)

    def license_of(self, path: str) -> str:
        """The SPDX expression of a file's licence."""
        return self._by_path[path].license_of(path)

    def pin_of(self, path: str) -> str:
        """The release that a file belongs to: "timm==1.0.9"."""
        return self._by_path[path].pin

    def problem(self, module: str) -> str:
        """Why the package of a module is missing although the configuration names it, "" if it does not."""
        top = _normal(module.split(".")[0])
        return next((f"{pin}: {why}" for pin, why in self._problems.items() if _normal(pin.split("==")[0]) == top), "")

    @property
    def revision(self) -> str:
        """What could not be had: once it can, files are read again."""
        return " ".join(f"without {pin}" for pin in sorted(self._problems))


@lru_cache(maxsize=64)
def open_dependencies(pins: tuple[str, ...]) -> Dependencies:
    """The packages that a source names; all sources of a worker share one copy."""
    return Dependencies(pins)


@lru_cache(maxsize=64)
def _fetch(pin: str, index: str) -> Dependency:
    """A release from the cache or the index.

    Raises:
        MusadataError: it cannot be had or read.
    """
    found = PIN.fullmatch(pin)
    if found is None:
        raise MusadataError("names no version; write it as name==version")
    release, data = fetch_release(index, found[1], found[2], wheel=True)
    return Dependency(pin, release.filename, data)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _tops(paths: list[str], root: str) -> list[str]:
    """The packages and modules right below a folder of an archive."""
    inside = [path.removeprefix(root) for path in paths if path.startswith(root)]
    packages = {path.split("/")[0] for path in inside if path.count("/") == 1 and path.endswith("/__init__.py")}
    modules = {path for path in inside if "/" not in path and path.endswith(".py")}
    return sorted(item for item in packages | modules if item.removesuffix(".py") not in NOT_IMPORTED)
