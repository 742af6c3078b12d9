"""The licence of each file of a tree."""

from contextlib import suppress
from functools import cached_property

from musadata.sources.licenses import UNKNOWN, folder_licenses, header_license, is_license_file, license_of
from musadata.sources.protocol import Tree, UnreadableFile


class FileLicenses:
    """Licences as SPDX expressions, read from headers and licence files.

    Args:
        fallback: the licence of files for which neither says one.
    """

    def __init__(self, tree: Tree, fallback: str):
        self._tree, self._fallback = tree, fallback
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        if path not in self._known:
            self._known[path] = self._find(path)
        return self._known[path]

    def _find(self, path: str) -> str:
        try:
            header = header_license(self._tree.read(path).decode("utf-8", "replace"))
        except UnreadableFile:
            header = ""
        by_folder, restricted = self._license_files
        if path in restricted or path.rpartition("/")[2] in restricted:
            return UNKNOWN
        return license_of(path, header, by_folder, self._fallback)

    @cached_property
    def _license_files(self) -> tuple[dict[str, str], dict[str, str]]:
        found = []
        for path in filter(is_license_file, self._tree.paths()):
            with suppress(UnreadableFile):
                found.append((path, self._tree.read(path).decode("utf-8", "replace")))
        return folder_licenses(found)
