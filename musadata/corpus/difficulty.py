"""How often the samples of a corpus passed: by family, level and teacher, for manifest, report and card."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from musadata.sampling.pass_rate import PassRate, average_rates, is_sample
from musadata.storage.shards import read_file_columns

KS = (1, 2, 4, 8, 16)
HEADINGS = ("group", "name", "tasks", "samples", "avg@k", *(f"pass@{k}" for k in KS))


def describe_pass_rates(tasks: Sequence[str], candidates: Sequence[str]) -> dict[str, Any]:
    """{"all" | "family" | "level" | "teacher": {name: see `average_rates`}} of shards of tasks and candidates.

    A task of several teachers counts once for each of them, and once in the other groups.
    """
    about = {
        task: (family, str(level))
        for path in tasks
        for task, family, level in read_file_columns(path, ("task_id", "operator_family", "level"))
    }
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    columns = ("task_id", "turn", "fault", "teacher", "error_class", "accepted")
    for path in candidates:
        for task, turn, fault, teacher, error_class, accepted in read_file_columns(path, columns):
            if is_sample(turn, fault, teacher, error_class):
                counts[task, teacher][0] += 1
                counts[task, teacher][1] += accepted
    groups: dict[str, defaultdict[str, list[PassRate]]] = {
        name: defaultdict(list) for name in ("all", "family", "level", "teacher")
    }
    merged: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (task, teacher), (samples, passed) in sorted(counts.items()):
        groups["teacher"][teacher].append(PassRate(samples, passed))
        merged[task] = [merged[task][0] + samples, merged[task][1] + passed]
    for task, (samples, passed) in merged.items():
        family, level = about[task]
        for group, name in (("all", "all"), ("family", family), ("level", level)):
            groups[group][name].append(PassRate(samples, passed))
    return {
        group: {name: average_rates(rates, KS) for name, rates in sorted(named.items())}
        for group, named in groups.items()
    }


def list_pass_rates(manifest: dict[str, Any]) -> list[tuple[Any, ...]]:
    """A row for each group, as `HEADINGS` names its columns; "–" where too few samples were drawn."""
    rows: list[tuple[Any, ...]] = []
    for group, named in manifest["pass_rates"].items():
        for name, one in named.items():
            rates = [one["avg_at_k"], *(one["pass_at_k"].get(str(k)) for k in KS)]
            rows.append((group, name, one["tasks"], one["samples"], *map(_show, rates)))
    return rows


def _show(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.1%}"
