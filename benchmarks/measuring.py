"""What the benchmarks share: running a command while its memory is measured, and writing results."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
Row = tuple[str, str, str, bool]  # what, promise ("" if there is none), measured, whether the promise was kept


@dataclass(frozen=True)
class Run:
    """One finished command: wall seconds, peak memory (proportional set size of all its processes), exit code."""

    seconds: float
    peak_gb: float
    code: int
    output: str


def run_watched(command: Sequence[str], cwd: Path = ROOT, kill_after: float | None = None) -> Run:
    """Run a command; with `kill_after`, SIGKILL its whole tree after that many seconds."""
    start = time.monotonic()
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        peak = _Peak(process.pid)
        timer = threading.Timer(kill_after or 0, _kill_tree, (process.pid,))
        if kill_after:
            timer.start()
        output, _ = process.communicate()
        timer.cancel()
    return Run(time.monotonic() - start, peak.stop() / 2**30, process.returncode, output)


def _kill_tree(pid: int) -> None:
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


class _Peak:
    """Samples the proportional set size of a process tree every two seconds, since walking page tables takes time."""

    def __init__(self, pid: int):
        self._root, self._peak, self._over = psutil.Process(pid), 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(2.0):
            total = 0
            try:
                tree = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in tree:
                try:
                    total += process.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
                    continue
            self._peak = max(self._peak, total)

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        return self._peak


def describe_machine() -> dict[str, str]:
    """Cores, Python, system and torch; with a GPU, also its name, driver and clocks, and nvcc's version."""
    found = {
        "cores": str(psutil.cpu_count()),
        "python": platform.python_version(),
        "system": platform.platform(),
        "torch": importlib.metadata.version("torch"),
    }
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem", "--format=csv,noheader"]
    gpu = _lines(query)[0]
    if not gpu:
        return found | {"device": "none"}
    device, driver, *clocks = gpu.split(", ")
    return found | {
        "device": device,
        "driver": driver,
        "clocks": ", ".join(clocks),
        "nvcc": _lines(["nvcc", "--version"])[-1],
    }


def describe_revision() -> str:
    """The commit that is measured, with `-dirty` if files differ from it; MUSADATA_REVISION, if it is set, names the
    commit of files that were copied without it.

    The results themselves may differ: a benchmark writes them.
    """
    given, commit = os.environ.get("MUSADATA_REVISION", ""), _lines(["git", "-C", str(ROOT), "rev-parse", "HEAD"])[0]
    if given or not commit:
        return given or "unknown"
    changed = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no", "--", ":!benchmarks/results"]
    return f"{commit}-dirty" if _lines([*changed, ":!benchmarks/README.md"])[0] else commit


def _lines(command: Sequence[str]) -> list[str]:
    """What it prints; one empty line if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [""]
    return done.stdout.strip().splitlines() if done.returncode == 0 and done.stdout.strip() else [""]


def report(name: str, rows: Sequence[Row], details: dict[str, Any], output: Path | None) -> None:
    """Print the rows as a table. With `output`, write them and `details` as JSON, with the revision and the machine.

    Every file in `benchmarks/results` is written by this function; `benchmarks/claims.py` reads them.
    """
    table = Table(title=name)
    for column in ("what", "promise", "measured", "kept"):
        table.add_column(column)
    for what, promise, measured, kept in rows:
        table.add_row(what, promise, measured, ("yes" if kept else "NO") if promise else "")
    Console().print(table)
    if output:
        data = {
            "benchmark": name,
            "revision": describe_revision(),
            "machine": describe_machine(),
            "rows": [
                {"what": what, "promise": promise, "measured": measured, "kept": kept if promise else None}
                for what, promise, measured, kept in rows
            ],
            **details,
        }
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def end(rows: Sequence[Row]) -> int:
    """0 if every promise was kept, else 1. Ends the process with it where threads are left: a verdict that takes too
    long is not waited for."""
    code = 0 if all(kept for *_, kept in rows) else 1
    sys.stdout.flush()
    if threading.active_count() > 1:
        os._exit(code)
    return code


def python() -> str:
    return sys.executable
