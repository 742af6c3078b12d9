"""What lies in a folder, as it was seen at one time; see `files.survey`."""


class Survey:
    """The files of a folder.

    Attributes:
        sizes: bytes of each file, by its full path.
        contents: what has been read of them so far.
    """

    def __init__(self, folder: str, sizes: dict[str, int]):
        self._root = folder.rstrip("/")
        self.sizes = {f"{self._root}/{path}": size for path, size in sizes.items()}
        self.contents: dict[str, bytes] = {}
        self._names: dict[str, dict[str, None]] = {}  # folder -> what lies right below it
        for path in self.sizes:
            self._note(path)

    def covers(self, path: str) -> bool:
        return path.startswith(self._root) and path[len(self._root) :][:1] in ("", "/")

    def names(self, folder: str) -> list[str]:
        """Names of the files and folders right below a folder, sorted."""
        return sorted(self._names.get(folder.rstrip("/"), ()))

    def has_folder(self, path: str) -> bool:
        return path.rstrip("/") in self._names

    def wrote(self, path: str, size: int) -> None:
        """A file has been written."""
        self.contents.pop(path, None)
        if path not in self.sizes:
            self._note(path)
        self.sizes[path] = size

    def removed(self, path: str) -> None:
        """A file has been removed."""
        self.contents.pop(path, None)
        if self.sizes.pop(path, None) is not None:
            folder, _, name = path.rpartition("/")
            self._names[folder].pop(name, None)

    def _note(self, path: str) -> None:
        while path != self._root:
            path, _, name = path.rpartition("/")
            known = path in self._names
            self._names.setdefault(path, {})[name] = None
            if known:
                return
