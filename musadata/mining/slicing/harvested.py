"""Which tests and examples of a repository run for a class, and what they show of it."""

from functools import cached_property
from typing import Any

from musadata.mining.reading.parsing import Definition, ParsedModule
from musadata.mining.slicing.callers import Callers
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.evidence import Example
from musadata.sandbox import Caller, Limits
from musadata.sources.protocol import UnreadableFile

EVIDENCE = "harvest"
RECORD = "musadata.mining.harvest.recording:record"
MAX_FILES = 2  # whose records are asked for one class
GROUP = 8  # tests that run in one process
LOST: dict[str, Any] = {"calls": [], "problems": {}}
UNKNOWN = "they do not end, or end their process"
MOST_CALLS = 4  # of one class that are kept of a file
MAX_BYTES = 64 << 20  # of a repository
MAX_FILE = 1 << 20
TEXTS = (".py", ".json", ".yaml", ".yml", ".toml", ".txt", ".cfg", ".ini", ".in")
TEST_SHARE = 1 / 2  # of a file's time, for one test
OTHER_SECONDS = 20.0  # for imports, and until a call can be interrupted
MAX_ROOTS = 6


class Harvest:
    """Runs files of one tree, each once, and keeps what they show.

    Args:
        seconds: CPU time of one file; none runs if it is 0.
    """

    def __init__(self, index: PackageIndex, callers: Callers, seconds: float):
        self._index, self._callers, self._seconds = index, callers, seconds
        self._runs: dict[str, dict[str, Any]] = {}

    def examples(self, definition: Definition, module: ParsedModule, sandbox: Caller) -> list[Example]:
        """The recorded calls of a class, the best first: those with the most arguments given, then the widest."""
        name, found = definition.names[0], dict[Example, None]()
        for path in self._files(definition, module) if self._seconds else ():
            calls = self._run(path, sandbox)["calls"]
            found |= {_example(call): None for call in calls if (call["file"], call["name"]) == (module.path, name)}
        return sorted(found, key=lambda item: not (item.inputs or item.input_keywords))

    def problems(self, definition: Definition, module: ParsedModule) -> str:
        """Why the files that ran for a class show nothing, "" if none ran."""
        ran = [(path, self._runs[path]) for path in self._files(definition, module) if path in self._runs]
        told = dict.fromkeys(problem for path, run in ran for problem in run["problems"].get(path, (UNKNOWN,)))
        return "; ".join(told)[:160]

    def _files(self, definition: Definition, module: ParsedModule) -> list[str]:
        """The tests that name a class, or else what constructs it, and the script that its own file is."""
        name = definition.names[0]
        tests = self._callers.tests_of(name)
        if not tests:
            users = self._callers.constructing(definition, module)
            tests = list(dict.fromkeys(path for user in users for path in self._callers.tests_of(user)))
        return [*tests[:MAX_FILES], *([module.path] if module.main else [])]

    def _run(self, path: str, sandbox: Caller) -> dict[str, Any]:
        if path not in self._runs:
            group = next((group for group in self._groups if path in group), [path])
            found = self._record(group, sandbox)
            if found is None and len(group) > 1:  # one of them ends the process
                self._runs |= {one: self._record([one], sandbox) or LOST for one in group}
            else:
                self._runs |= dict.fromkeys(group, found or LOST)
        return self._runs[path]

    def _record(self, paths: list[str], sandbox: Caller) -> dict[str, Any] | None:
        seconds = self._seconds
        limits = Limits(seconds=seconds * len(paths) + OTHER_SECONDS, memory_mb=8192, output_kb=1024)
        arguments = (paths, self._roots, seconds, seconds * TEST_SHARE, MOST_CALLS)
        outcome = sandbox.call(RECORD, *arguments, limits=limits, files=self._texts)
        return outcome.value if outcome.ok else None

    @cached_property
    def _groups(self) -> list[list[str]]:
        """The tests that call a class or function of the tree, a few at a time: most time goes into imports."""
        wanted = self._callers.tests_of_tree()
        return [wanted[start : start + GROUP] for start in range(0, len(wanted), GROUP)]

    @cached_property
    def _texts(self) -> dict[str, bytes]:
        """The files of the tree that are no large data."""
        found, room = dict[str, bytes](), MAX_BYTES
        for path in self._index.tree.paths():
            try:
                data = self._index.tree.read(path) if path.endswith(TEXTS) else b""
            except UnreadableFile:
                continue
            if data and len(data) <= min(MAX_FILE, room):
                found[path] = data
                room -= len(data)
        return found

    @cached_property
    def _roots(self) -> list[str]:
        """The folders that packages lie in, and the tree itself."""
        packages = {path.removesuffix("__init__.py") for path in self._texts if path.endswith("__init__.py")}
        outer = {folder for folder in packages if f"{folder.rstrip('/').rpartition('/')[0]}/" not in packages}
        roots = {folder.rstrip("/").rpartition("/")[0] for folder in outer}
        return ["", *sorted(roots - {""}, key=lambda root: (root.count("/"), root))[:MAX_ROOTS]]


def _example(call: dict[str, Any]) -> Example:
    def pairs(name: str) -> tuple[tuple[str, str], ...]:
        return tuple((key, value) for key, value in call.get(name, ()))

    init, inputs = tuple(call["init"]), tuple(call.get("input", ()))
    return Example(init, pairs("init_keywords"), inputs, pairs("input_keywords"), EVIDENCE, names=pairs("names"))
