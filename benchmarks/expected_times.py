"""How long programs take on a device against what the compiler teacher's cost model expects, by what they are made of.

    make gpu-corpus
    python -m benchmarks.expected_times build/gpu-corpus [--output benchmarks/results/expected_times_h200.json]

Of each task the accepted programs that a device has timed and for which there is an expected time. The model is of an
H100: on another device times that are bound by memory differ by the ratio of bandwidths. `order` is the share of pairs
of a task's programs, expected to differ by more than 5 %, of which the one that is expected to be faster is faster.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from benchmarks.measuring import Row, report
from musadata.corpus.query import connect

_QUERY = """
SELECT task_id, algorithm, expected_ms, bound_ms, list_filter(timings, lambda one: one.name = 'candidate')[1].median_ms
FROM candidates WHERE accepted AND expected_ms > 0 AND len(timings) > 0 ORDER BY ALL
"""
_SPEEDUPS = """
SELECT max(speedup) FROM candidates
WHERE accepted AND expected_ms > 0 AND len(timings) > 0 GROUP BY task_id ORDER BY ALL
"""
_EQUAL = 1.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    corpus = connect(options.corpus)
    found, speedups = corpus.sql(_QUERY).fetchall(), [speedup for (speedup,) in corpus.sql(_SPEEDUPS).fetchall()]
    best = f"{statistics.median(speedups or [0.0]):.2f} (median of {len(speedups)} tasks)"
    table = [*compare(found), ("best of a task, times eager PyTorch", "", best, True)]
    report("expected times", table, {"programs": len(found)}, options.output)


def compare(programs: Sequence[tuple[str, str, float, float, float]]) -> list[Row]:
    """The table for (task, techniques, expected, bound, measured), in milliseconds."""
    ratios, tasks = defaultdict(list), defaultdict(list)
    for task, algorithm, expected, _, measured in programs:
        ratios[algorithm].append(measured / expected)
        tasks[task].append((expected, measured))
    table: list[Row] = [(f"measured / expected, {name}", "", _spread(some), True) for name, some in ratios.items()]
    pairs = [pair for some in tasks.values() for pair in combinations(sorted(some), 2)]
    pairs = [(one, other) for one, other in pairs if other[0] > one[0] * _EQUAL]
    right = sum(one[1] < other[1] for one, other in pairs)
    below = sum(measured < bound for *_, bound, measured in programs)
    return [
        *table,
        ("order", "", f"{right} of {len(pairs)} pairs", True),
        ("faster than an H100's bound", "", f"{below} of {len(programs)}", True),
    ]


def _spread(ratios: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} programs)"


if __name__ == "__main__":
    main()
