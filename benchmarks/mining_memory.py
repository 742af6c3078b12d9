"""Memory of a worker of stage 1 over any number of files: a part of `benchmarks.mining`.

python -m benchmarks.mining_memory COUNT   # the worker whose memory is watched
"""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import Row, run_watched
from musadata.config import SourceConfig, SourceType
from musadata.mining.miner import Miner
from musadata.records import Draft, KernelDraft
from musadata.sandbox import Sandbox
from musadata.sources.code import CodeFiles


def measure_memory(counts: tuple[int, ...] = (10_000, 100_000)) -> tuple[list[Row], dict[str, Any]]:
    """Peak memory of a worker of stage 1, its sandbox included, over trees of copies of torch's own files."""
    peaks, seconds = {}, {}
    for count in counts:
        run = run_watched([sys.executable, "-m", "benchmarks.mining_memory", str(count)])
        if run.code:
            raise SystemExit(f"benchmark: the worker failed: {run.output[-2000:]}")
        peaks[count], seconds[count] = run.peak_gb * 1024, run.seconds
    growth = peaks[counts[-1]] / peaks[counts[0]] - 1
    shown = f"{peaks[counts[0]]:.0f} MB, {peaks[counts[-1]]:.0f} MB: {growth:+.1%}"
    what = f"peak memory from {counts[0]:,} to {counts[-1]:,} source files"
    return [(what, "within 15 %", shown, growth <= 0.15)], {"megabytes": peaks, "seconds": seconds}


def mine_copies(count: int) -> None:
    """What a worker of stage 1 does with a source of so many files."""
    source = CodeFiles("copies", Copies(count), SourceConfig(SourceType.DIRECTORY), seed=1)
    counts: Counter[str] = Counter()
    with Sandbox(preload=("torch",), setup="musadata.mining.search:warm_up") as sandbox:
        miner = Miner(source)
        for unit in source.units():
            for item in miner.drafts(unit, sandbox):
                if not isinstance(item, KernelDraft):
                    counts["draft" if isinstance(item, Draft) else item.reason] += 1
    print(dict(counts))


class Copies:
    """Copies of the installed torch's Python files below 6 kB, every class under a name of its own; none is held.

    Of the files with modules one in twenty: what is mined in them is executed, and memory is asked for, not time.
    """

    def __init__(self, count: int):
        self._count = count
        root = Path(torch.__file__).parent
        files = sorted(path for path in root.rglob("*.py") if 0 < path.stat().st_size < 6000)
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
        modules = [text for text in texts if "Module)" in text]
        self._texts = [*(text for text in texts if "Module)" not in text), *modules[::20]]
        self._names = [re.findall(r"(?m)^class (\w+)", text) for text in self._texts]

    def paths(self) -> list[str]:
        return [f"p{number // 100:04d}/m{number:06d}.py" for number in range(self._count)]

    def read(self, path: str) -> bytes:
        number = int(path[-9:-3])
        text = self._texts[number % len(self._texts)]
        for name in self._names[number % len(self._texts)]:
            text = re.sub(rf"\b{name}\b", f"{name}{number}", text)
        return text.encode()


if __name__ == "__main__":
    mine_copies(int(sys.argv[1]))
