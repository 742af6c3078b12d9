"""Where a repository shows its own classes in use: main blocks and tests."""

import ast
import re
from collections.abc import Iterator

from musadata.mining.evidence import Example, read_examples
from musadata.mining.index import PackageIndex
from musadata.mining.parsing import Definition, ParsedModule
from musadata.sources.protocol import UnreadableFile
from musadata.sources.trees import decode_source

MAX_TEST_FILES = 500  # read in search of examples, in one tree
MAX_FILES = 3  # looked at for one class
TEST_FILE = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$)")
CALLED = re.compile(r"\b([A-Z]\w*)\(")


class Callers:
    """Finds examples; remembers of each test file only the names that it calls."""

    def __init__(self, index: PackageIndex):
        self._index = index
        self._files: dict[str, list[str]] | None = None

    def examples(self, definition: Definition, module: ParsedModule) -> list[Example]:
        """How the class is constructed and called below `if __name__ == "__main__"` of its file, and in tests."""
        name = definition.names[0]
        found = read_examples(module.main, name, "main") if module.main else []
        for path in self._test_files().get(name, [])[:MAX_FILES]:
            for body in self._tests(path):
                found += read_examples(body, name, "test")
        return [item for item in found if item.inputs or item.input_keywords] or found

    def _test_files(self) -> dict[str, list[str]]:
        if self._files is None:
            self._files = {}
            paths = [path for path in self._index.tree.paths() if path.endswith(".py") and TEST_FILE.search(path)]
            for path in paths[:MAX_TEST_FILES]:
                for name in {*CALLED.findall(self._text(path))}:
                    self._files.setdefault(name, []).append(path)
        return self._files

    def _text(self, path: str) -> str:
        try:
            return decode_source(self._index.tree.read(path))
        except UnreadableFile:
            return ""

    def _tests(self, path: str) -> Iterator[list[ast.stmt]]:
        try:
            tree = ast.parse(self._text(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                yield node.body
