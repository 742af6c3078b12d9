"""A progress bar for a job that may run anywhere: it watches the corpus, not the workers."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LOG_SECONDS = 20.0
Count = Callable[[], tuple[int, str]]


class JournalCounter:
    """Counts the records of a stage's journals as they grow, every byte read once; none on a remote corpus."""

    def __init__(self, corpus: str, stage: str):
        self._folder = Path(corpus, "_journal", stage)
        self._read: dict[Path, int] = {}
        self._records: Counter[str] = Counter()

    def __call__(self) -> str:
        """What the journals hold: "412 answers, 377 verdicts"."""
        for path in sorted(self._folder.glob("*/*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                new = file.read()
            self._read[path] = self._read.get(path, 0) + len(new)
            self._records[path.name.split(".", 1)[0]] += new.count(b"\n")
        return ", ".join(f"{count} {name}" for name, count in sorted(self._records.items()))


class Watch:
    """Shows how many of `total` are done, with time left, while its block runs.

    `count` returns how many are done and a short text; it is asked every `seconds`. Without a terminal, a line is
    printed when more is done, and once every `LOG_SECONDS`, so that a log stays readable.
    """

    def __init__(self, title: str, total: int, count: Count, seconds: float = 0.5):
        self._title, self._total, self._count, self._seconds = title, total, count, seconds
        self._over = threading.Event()
        self._console = Console(file=sys.stderr)
        self._printed = (-1, 0.0)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._bar if self._console.is_terminal else self._lines, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _bar(self) -> None:
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self._console) as progress:
            bar = progress.add_task(self._title, total=self._total, note="")
            over = False
            while not over:
                over = self._over.wait(self._seconds)
                done, note = self._count()
                progress.update(bar, completed=done, note=note)

    def _lines(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._seconds)
            done, note = self._count()
            if done > self._printed[0] or time.monotonic() - self._printed[1] > LOG_SECONDS or over:
                self._printed = (done, time.monotonic())
                self._console.print(f"{self._title}: {done}/{self._total} shards {note}".rstrip(), highlight=False)
