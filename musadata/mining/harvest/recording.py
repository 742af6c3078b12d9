"""Running a repository's tests and examples while constructions and calls of its modules are recorded.

Runs inside the sandbox, in a folder that holds the repository. The process ends with the call, so hooks stay.
"""

import contextlib
import functools
import inspect
import io
import os
import runpy
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from musadata.mining.harvest.expressions import GIVEN, Inexpressible, Writer

MAX_CASES = 4  # of a parametrized test
NEWS_SECONDS = 1.0  # of tests that show nothing new, after which a file's others do not run
MAX_PROBLEMS = 4  # of a file that are told
MAX_LOOKS = 64  # at calls of one class or function, most of which repeat what is known


class OutOfTime(Exception):
    """A test has used up its time."""


def record(paths: list[str], roots: list[str], seconds: float, test_seconds: float, most: int) -> dict[str, Any]:
    """What the files show of the classes and functions of the repository in the working directory.

    Args:
        paths: tests, and scripts for those that are none, in this order.
        roots: folders from which the repository's modules are imported.
        seconds, test_seconds: CPU time of a file, and of a test.
        most: different calls that are kept of a class or function.

    Returns:
        `calls`: see `Recorder`; `problems`: path -> why tests failed.
    """
    base = Path.cwd()
    sys.path[:0] = [str(base / root) for root in roots]
    time.sleep = lambda seconds: None  # there is nothing to wait for
    recorder, problems = Recorder(base, most), dict[str, list[str]]()
    try:
        with recorder.hooks(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for path in paths:
                found = _run(base, path, seconds, test_seconds, recorder.calls)
                problems[path] = [problem for problem, _ in found.most_common(MAX_PROBLEMS)]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.chdir(base)
        for item in base.iterdir():  # nothing of it comes back
            shutil.rmtree(item, ignore_errors=True) if item.is_dir() and not item.is_symlink() else item.unlink()
    return {"calls": recorder.calls, "problems": problems}


def _run(base: Path, path: str, seconds: float, test_seconds: float, calls: list[Any]) -> Counter[str]:
    if is_test(path):
        return _run_tests(path, _Plugin(seconds, test_seconds, calls))
    try:
        with _limited(seconds):
            sys.argv = [path]
            sys.path.insert(0, str((base / path).parent))
            runpy.run_path(str(base / path), run_name="__main__")
    except BaseException as error:  # whatever the script raises, `SystemExit` included
        return Counter([_problem(error)])
    return Counter()


def is_test(path: str) -> bool:
    """Whether pytest runs a file."""
    name = path.rpartition("/")[2]
    return name.startswith("test") or name.endswith("_test.py")


def _run_tests(path: str, plugin: "_Plugin") -> Counter[str]:
    options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", "--import-mode=importlib"]
    options += ["-c", os.devnull, "--rootdir", "."]
    with contextlib.suppress(BaseException):  # what a test does to pytest is its own affair
        pytest.main([*options, path], [plugin])
    return plugin.problems


class _Plugin:
    """Bounds the time of tests and the cases of each, and keeps why they failed."""

    def __init__(self, seconds: float, test_seconds: float, calls: list[Any]):
        """`calls`: grows while tests show something new."""
        self._end, self._test_seconds = time.process_time() + seconds, test_seconds
        self._calls, self._known, self._news = calls, 0, self._end
        self.problems = Counter[str]()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        seen = Counter[str]()
        kept = []
        for item in items:
            name = f"{item.nodeid.partition('[')[0].rstrip('0123456789')}"  # `parameterized` numbers its cases
            seen[name] += 1
            kept += [item] if seen[name] <= MAX_CASES else []
        items[:] = kept

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> None:
        now = time.process_time()
        if len(self._calls) > self._known:
            self._known, self._news = len(self._calls), now
        left = min(self._end - now, self._news + NEWS_SECONDS - now)
        if left <= 0:
            item.session.shouldstop = "out of time, or nothing new"

    def pytest_runtest_call(self, item: Any) -> None:
        _start_clock(min(max(self._end - time.process_time(), 0.01), self._test_seconds))

    def pytest_runtest_logreport(self, report: Any) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._note(report)

    def pytest_collectreport(self, report: Any) -> None:
        self._note(report)

    def _note(self, report: Any) -> None:
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = str(crash.message if crash else report.longrepr).strip().splitlines()
            self.problems[" ".join((lines[0 if crash else -1] if lines else "").removeprefix("E ").split())[:160]] += 1


def _problem(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    _start_clock(seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _start_clock(seconds: float) -> None:
    """Raise `OutOfTime` in this process once it has used this CPU time, and again every second."""

    def end(number: int, frame: FrameType | None) -> None:
        raise OutOfTime(f"more than {seconds:.0f} s")

    signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)


class Recorder:
    """Records constructions and calls of what the repository defines.

    Attributes:
        calls: for each a dict with `file`, `name`, `init`, `init_keywords`, `names` (what these expressions read of the
            repository: [name, file]), `place` (file and line of the caller), and `input`, `input_keywords` where
            expressions can tell them.
    """

    def __init__(self, base: Path, most: int):
        self._base, self._most = str(base) + "/", most
        self._files: dict[str, str | None] = {}
        self._kept, self._looks = Counter[Any](), Counter[Any]()
        self._seen: set[str] = set()
        self._inside = False
        self.calls: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Inside, what is constructed and called is recorded."""
        recorder, call, new = self, nn.Module.__call__, nn.Module.__new__

        def constructed(kind: type, *positional: Any, **keywords: Any) -> Any:
            made: Any = object.__new__(kind)
            object.__setattr__(made, GIVEN, (positional, keywords))
            return made

        def called(module: nn.Module, *positional: Any, **keywords: Any) -> Any:
            recorder.look(type(module), vars(module).get(GIVEN), positional, keywords)
            return call(module, *positional, **keywords)

        def executed(loader: SourceFileLoader, module: ModuleType) -> None:
            execute(loader, module)
            recorder.watch_functions(module)

        execute = SourceFileLoader.exec_module
        nn.Module.__new__ = constructed  # type: ignore[assignment, method-assign]
        nn.Module.__call__ = called  # type: ignore[method-assign]
        SourceFileLoader.exec_module = executed  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            nn.Module.__new__, nn.Module.__call__ = new, call  # type: ignore[method-assign]
            SourceFileLoader.exec_module = execute  # type: ignore[method-assign]

    def watch_functions(self, module: ModuleType) -> None:
        """Record the calls of a module's own functions, if it is the repository's and no test."""
        file = self.file_of(module.__name__)
        for name, value in list(vars(module).items()) if file and not is_test(file) else ():
            if type(value) is FunctionType and value.__module__ == module.__name__ and name == value.__qualname__:
                setattr(module, name, self._watched(value))

    def _watched(self, function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*positional: Any, **keywords: Any) -> Any:
            if any(isinstance(item, torch.Tensor) for item in positional):
                self.look(function, ((), {}), positional, keywords)
            return function(*positional, **keywords)

        return called

    def look(self, kind: Any, given: Any, positional: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Record a call, if the class or function is the repository's and this shows something new.

        `given`: what the constructor was given.
        """
        if self._inside or self._looks[kind] >= MAX_LOOKS or self._kept[kind] >= self._most:
            return
        file = self.file_of(kind.__module__)
        self._looks[kind] += 1
        if file is None or "<locals>" in kind.__qualname__ or given is None:
            self._looks[kind] = MAX_LOOKS
            return
        self._inside = True
        try:
            self._keep(kind, file, given, (positional, keywords))
        except (Inexpressible, KeyError):  # it, or a module inside it, was made by other ways than its constructor
            return
        except Exception:  # an object of the repository does what it likes when it is looked at
            return
        finally:
            self._inside = False

    def _keep(self, kind: Any, file: str, given: Any, handed: Any) -> None:
        writer = Writer(self.file_of)
        shown: dict[str, Any] = {"file": file, "name": kind.__qualname__, **writer.arguments("init", *given)}
        shown["names"] = sorted([name, place] for name, place in writer.names.items())
        with contextlib.suppress(Inexpressible):  # the construction alone tells much
            shown |= Writer(lambda module: None).arguments("input", *handed)
        key = repr(shown)
        if key not in self._seen:
            self._seen.add(key)
            self._kept[kind] += 1
            self.calls.append(shown | {"place": self._caller()})

    def file_of(self, module: str) -> str | None:
        """The file of the repository that a module was imported from; None for any other module."""
        if module not in self._files:
            file = getattr(sys.modules.get(module), "__file__", None) or ""
            is_own = file.startswith(self._base) and file.endswith(".py")
            self._files[module] = file.removeprefix(self._base) if is_own else None
        return self._files[module]

    def _caller(self) -> str:
        """The place in the repository that made the call."""
        frame = inspect.currentframe()
        while frame is not None and not frame.f_code.co_filename.startswith(self._base):
            frame = frame.f_back
        return f"{frame.f_code.co_filename.removeprefix(self._base)}:{frame.f_lineno}" if frame is not None else ""
