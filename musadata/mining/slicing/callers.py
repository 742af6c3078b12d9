"""Examples of a repository's own classes, from main blocks and tests."""

import ast
import re
from functools import lru_cache

from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.evidence import Example, called_name, read_examples
from musadata.mining.slicing.parsing import Definition, ParsedModule
from musadata.sources.protocol import UnreadableFile
from musadata.sources.trees import decode_source

MAX_TEST_FILES = 500  # read in search of examples, in one tree
MAX_FILES = 3  # looked at for one class
TEST_FILE = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$)")
CALLED = re.compile(r"\b([A-Z]\w*)\(")


class Callers:
    """Finds examples. Keeps the called names of every test file, and the parsed tests of the last few files."""

    def __init__(self, index: PackageIndex):
        self._index = index
        self._files: dict[str, list[str]] | None = None
        self._tests = lru_cache(maxsize=2 * MAX_FILES)(self._read_tests)

    def examples(self, definition: Definition, module: ParsedModule) -> list[Example]:
        """Constructions and calls of the class in tests and in the `if __name__ == "__main__"` block of its file."""
        name = definition.names[0]
        found = read_examples(module.main, name, "main") if module.main else []
        for path in self._test_files().get(name, [])[:MAX_FILES]:
            for body, called in self._tests(path):
                if name in called:
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

    def _read_tests(self, path: str) -> list[tuple[list[ast.stmt], set[str]]]:
        """The statements of each test function, and the names that they call."""
        try:
            tree = ast.parse(self._text(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        tests = [node for node in functions if node.name.startswith("test")]
        called = [{called_name(node) for node in ast.walk(test) if isinstance(node, ast.Call)} for test in tests]
        return [(test.body, names) for test, names in zip(tests, called, strict=True)]
