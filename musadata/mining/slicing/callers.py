"""Examples of a repository's own classes, from main blocks, tests, and code in Markdown files."""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from musadata.mining.reading.parsing import Definition, ParsedModule
from musadata.mining.slicing.definition_index import UNPARSABLE, PackageIndex
from musadata.mining.slicing.evidence import Example, called_name, read_examples

MAX_TEST_FILES = 2000  # read in search of examples, in one tree
MAX_FILES = 3  # looked at for one class
TEST_FILE = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$)")
MAX_HOPS = 3  # from a class to a function that builds a whole network
MAX_PAGES = 60  # of documentation
DOCUMENTATION = re.compile(r"(^|/)[^/]*\.(md|markdown)$", re.IGNORECASE)
CODE_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = ("", "python", "py", "python3")
CALLED = re.compile(r"\b([^\W\d]\w*)\(")


class Callers:
    """Finds examples. Keeps the called names of every test file, and the parsed tests of the last few files."""

    def __init__(self, index: PackageIndex):
        self._index = index
        self._files: dict[str, list[str]] | None = None
        self._callers: dict[str, list[str]] | None = None
        self._pages: dict[str, list[str]] | None = None
        self._tests = lru_cache(maxsize=2 * MAX_FILES)(self._read_tests)

    def examples(self, definition: Definition, module: ParsedModule) -> list[Example]:
        """Constructions and calls of the class in tests and in the `if __name__ == "__main__"` block of its file."""
        name = definition.names[0]
        found = read_examples(module.main, name, "main") if module.main else []
        for path in self._test_files().get(name, [])[:MAX_FILES]:
            for body, called in self._tests(path):
                if name in called:
                    found += read_examples(body, name, "test")
        for body in self._documented(name):
            found += read_examples(body, name, "documentation")
        return [item for item in found if item.inputs or item.input_keywords] or found

    def tests_of(self, name: str) -> list[str]:
        """The test files that call something of this name."""
        return self._test_files().get(name, [])

    def tests_of_tree(self) -> list[str]:
        """The test files that call a class of the tree by its name, sorted."""
        files = self._test_files()
        return sorted({path for name in self._index.class_names & files.keys() for path in files[name]})

    def constructing(self, definition: Definition, module: ParsedModule) -> list[str]:
        """Names of what calls a class of this name in its own file and a few others; then of what calls these, and of
        all else in its own file, since classes are handed on as arguments and in tables."""
        found: dict[str, None] = {}
        names, modules = [definition.names[0]], [module, *self.users(definition)]
        for _ in range(MAX_HOPS):
            names = [item for one in modules for item in _calling(one, names) if item not in found]
            found |= dict.fromkeys(names)
        return list(found | {item.names[0]: None for item in module.classes()})

    def users(self, definition: Definition) -> Iterator[ParsedModule]:
        """Other modules of the tree in whose code a class of this name is called, a few of them."""
        if self._callers is None:
            self._callers = {}
            paths = [path for path in self._index.tree.paths() if path.endswith(".py") and not TEST_FILE.search(path)]
            for path in paths[:MAX_TEST_FILES]:
                for name in {*CALLED.findall(self._index.text(path))}:
                    self._callers.setdefault(name, []).append(path)
        own = self._index.module(definition.module)
        paths = [path for path in self._callers.get(definition.names[0], ()) if own is None or path != own.path]
        for path in paths[:MAX_FILES]:
            with suppress(*UNPARSABLE):
                yield self._index.parse(path)

    def _documented(self, name: str) -> list[list[ast.stmt]]:
        """The code in documentation that calls a class."""
        if self._pages is None:
            self._pages = {}
            for path in [path for path in self._index.tree.paths() if DOCUMENTATION.search(path)][:MAX_PAGES]:
                blocks = CODE_BLOCK.findall(self._index.text(path))
                for code in [code for language, code in blocks if language.strip().lower() in LANGUAGES]:
                    for called in {*CALLED.findall(code)}:
                        self._pages.setdefault(called, []).append(code)
        return [body for code in self._pages.get(name, [])[: 2 * MAX_FILES] if (body := _parse(code))]

    def _test_files(self) -> dict[str, list[str]]:
        if self._files is None:
            self._files = {}
            paths = [path for path in self._index.tree.paths() if path.endswith(".py") and TEST_FILE.search(path)]
            for path in paths[:MAX_TEST_FILES]:
                for name in {*CALLED.findall(self._index.text(path))}:
                    self._files.setdefault(name, []).append(path)
        return self._files

    def _read_tests(self, path: str) -> list[tuple[list[ast.stmt], set[str]]]:
        """The statements of each test function, and the names that they call."""
        nodes = (node for item in _parse(self._index.text(path)) for node in ast.walk(item))
        tests = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test")]
        called = [{called_name(node) for node in ast.walk(test) if isinstance(node, ast.Call)} for test in tests]
        return [(test.body, names) for test, names in zip(tests, called, strict=True)]


def _calling(module: ParsedModule, names: list[str]) -> Iterator[str]:
    """The top-level definitions of a file that call one of these names."""
    for binding in dict.fromkeys(item for item in module.bindings.values() if isinstance(item, Definition)):
        text = "".join(module.lines[binding.first - 1 : binding.last])
        if any(f"{name}(" in text for name in names if name not in binding.names):
            yield binding.names[0]


def _parse(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
