"""The funnel: at every step how many rows came in, went on and were dropped, by reason."""

from collections.abc import Iterable
from typing import Any


class Funnel:
    """Counts of one shard. Steps are declared in their order, so that every shard lists the same ones."""

    def __init__(self, *steps: str):
        self._steps: dict[str, dict[str, Any]] = {}
        for step in steps:
            self._step(step)

    def _step(self, step: str) -> dict[str, Any]:
        return self._steps.setdefault(step, {"in": 0, "out": 0, "dropped": {}})

    def came_in(self, step: str, count: int = 1) -> None:
        self._step(step)["in"] += count

    def went_on(self, step: str, count: int = 1) -> None:
        self._step(step)["out"] += count

    def dropped(self, step: str, reason: str, count: int = 1) -> None:
        reasons = self._step(step)["dropped"]
        reasons[reason] = reasons.get(reason, 0) + count

    def counts(self) -> dict[str, Any]:
        """As a commit keeps it: {step: {"in", "out", "dropped": {reason: count}}}, reasons sorted."""
        return {
            step: {"in": counts["in"], "out": counts["out"], "dropped": dict(sorted(counts["dropped"].items()))}
            for step, counts in self._steps.items()
        }


def add_counts(shards: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The counts of a stage from those of its shards."""
    total = Funnel()
    for counts in shards:
        for step, numbers in counts.items():
            total.came_in(step, numbers["in"])
            total.went_on(step, numbers["out"])
            for reason, count in numbers["dropped"].items():
                total.dropped(step, reason, count)
    return total.counts()
