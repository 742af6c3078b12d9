"""What becomes of the probed tasks: which of them are dropped, and which shard keeps each of the others."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from musadata.config import TasksConfig
from musadata.records import SCHEMA_VERSION, Reject, SourceKind, Task
from musadata.tasks.rebalance import Move, rebalance
from musadata.tasks.selection import TaskSignature, select


@dataclass(frozen=True)
class Assignment:
    """What becomes of each task, by id.

    Attributes:
        dropped: id -> why.
        homes: id -> index of the shard that keeps it, of tasks that were probed more than once: two wrappers may have
            the same equivalent, and two sources the same file.
        moved: id -> from where to where, of tasks that go to another shard.
    """

    dropped: dict[str, str] = field(default_factory=dict)
    homes: dict[str, int] = field(default_factory=dict)
    moved: dict[str, Move] = field(default_factory=dict)

    def donors(self, shard: int) -> list[int]:
        """The shards from which tasks come to this one."""
        return sorted({move.source for move in self.moved.values() if move.target == shard})

    def judge(self, probed: Iterable[Task], shard: int) -> Iterator[tuple[Task, str]]:
        """Every task that was probed in a shard, and why it is dropped there: "" if it is not."""
        seen: set[str] = set()
        for task in probed:
            repeated = task.task_id in seen or not self._stays(task.task_id, shard)
            seen.add(task.task_id)
            yield task, self.dropped.get(task.task_id, "repeated" if repeated else "")

    def arriving(self, probed: Iterable[Task], source: int, target: int) -> Iterator[Task]:
        """The tasks that go from one shard, in which `probed` are, to another."""
        for task, reason in self.judge(probed, source):
            if not reason and self.moved.get(task.task_id) == Move(source, target):
                yield task

    def _stays(self, task_id: str, shard: int) -> bool:
        return task_id not in self.dropped and self.homes.get(task_id, shard) == shard


def assign(shards: Sequence[Sequence[TaskSignature]], config: TasksConfig) -> Assignment:
    """Select among the tasks of all shards and spread those that are kept evenly over the shards."""
    signatures = [signature for some in shards for signature in some]
    chosen = Assignment(select(signatures, config), _homes([[one.task_id for one in some] for some in shards]))
    kept = [
        list(dict.fromkeys(one.task_id for one in some if chosen._stays(one.task_id, shard)))
        for shard, some in enumerate(shards)
    ]
    paired = {one.task_id for one in signatures if one.source_kind == SourceKind.PAIRED.value}
    return Assignment(chosen.dropped, chosen.homes, rebalance(kept, paired))


def _homes(probed: Sequence[Sequence[str]]) -> dict[str, int]:
    """The first shard of every id that stands there more than once."""
    counts = Counter(task_id for some in probed for task_id in some)
    homes: dict[str, int] = {}
    for shard, some in enumerate(probed):
        for task_id in some:
            if counts[task_id] > 1:
                homes.setdefault(task_id, shard)
    return homes


def reject_dropped(task: Task, reason: str) -> Reject:
    """The reject of a task that was dropped; a detail follows the reason after a colon."""
    reason, _, detail = reason.partition(": ")
    origin = f"{task.provenance.origin}/{task.provenance.path}:{task.provenance.lines}"
    return Reject(SCHEMA_VERSION, "tasks", "select", reason, detail, origin)
