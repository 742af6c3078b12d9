"""A progress bar for a job that may run anywhere: it watches the corpus, not the workers."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LOG_SECONDS = 20.0


class JournalCounter:
    """Counts the records of a stage's journals as they grow, every byte read once; none on a remote corpus."""

    def __init__(self, corpus: str, stage: str):
        self._folder = Path(corpus, "_journal", stage)
        self._read: dict[Path, int] = {}
        self._records: Counter[str] = Counter()

    def __call__(self) -> str:
        """What the journals hold: "412 answers, 377 verdicts"."""
        for path in sorted(self._folder.rglob("*.jsonl")):
            try:
                with path.open("rb") as file:
                    file.seek(self._read.get(path, 0))
                    new = file.read()
            except FileNotFoundError:  # what older code left has just been deleted
                continue
            self._read[path] = self._read.get(path, 0) + len(new)
            self._records[path.name.partition(".")[0].partition("-")[0]] += new.count(b"\n")
        return ", ".join(f"{count} {name}" for name, count in sorted(self._records.items()))


@dataclass
class Watched:
    """What is counted: `count` returns how many of `total` are done and a short text."""

    title: str
    total: int
    count: Callable[[], tuple[int, str]]
    printed: int = -1


class Watch:
    """Shows how far things are, with time left, while its block runs; they are counted every `seconds`.

    Without a terminal, a line is printed when more is done, and once every `LOG_SECONDS` for what is under way, so that
    a log stays readable.
    """

    def __init__(self, watched: Sequence[Watched], seconds: float = 0.5):
        self._watched, self._seconds = watched, seconds
        self._over = threading.Event()
        self._console = Console(file=sys.stderr)
        self._printed = 0.0

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._bars if self._console.is_terminal else self._lines, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _bars(self) -> None:
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self._console) as progress:
            bars = [progress.add_task(one.title, total=one.total, note="") for one in self._watched]
            over = False
            while not over:
                over = self._over.wait(self._seconds)
                for bar, one in zip(bars, self._watched, strict=True):
                    done, note = one.count()
                    progress.update(bar, completed=done, note=note)

    def _lines(self) -> None:
        over = False
        while not over:
            over = self._over.wait(self._seconds)
            late = time.monotonic() - self._printed > LOG_SECONDS
            for one in self._watched:
                done, note = one.count()
                under_way = (late or over) and (note or done) and done < one.total
                if done > max(one.printed, 0) or under_way:
                    one.printed, self._printed = done, time.monotonic()
                    self._console.print(f"{one.title}: {done}/{one.total} shards {note}".rstrip(), highlight=False)
