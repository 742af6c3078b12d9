"""What every source offers to the pipeline, and what every tree of files offers to the miner."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from musadata.records import Draft, KernelDraft, Provenance, Reject

if TYPE_CHECKING:
    from musadata.sandbox import Caller

STEP = "draft"  # under which the funnel counts what sources offer


class Source(Protocol):
    """A place that tasks come from; cheap to open in any worker, the same everywhere."""

    @property
    def origin(self) -> str:
        """What rows name it by: "package:torch"."""
        ...

    @property
    def revision(self) -> str:
        """What is there of all that may be there another time: a commit, a release, a hash; "" where it is all ours."""
        ...

    def units(self) -> list[str]:
        """Stable ids of independent pieces of work, sorted: a file's path, or a range of graphs."""
        ...

    def drafts(self, unit: str, sandbox: "Caller") -> Iterator[Draft | KernelDraft | Reject]:
        """The tasks that a unit may hold, in a fixed order, and what was left out of it and why.

        A unit that has vanished or broken since it was listed is a reject like any other.
        """
        ...


class UnreadableFile(Exception):
    """A file that is there but cannot be used; `reason` is short and countable."""

    def __init__(self, reason: str, detail: str = ""):
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


class Tree(Protocol):
    """Files by path ("pkg/layers/conv.py"), at one revision."""

    def paths(self) -> list[str]:
        """Every file, sorted; neither links nor folders."""
        ...

    def read(self, path: str) -> bytes:
        """The file's bytes.

        Raises:
            UnreadableFile: it is too large, vanished, or cannot be read.
        """
        ...


class CodeSource(Source, Protocol):
    """A source of files that the miner cuts."""

    @property
    def tree(self) -> Tree: ...

    @property
    def seed(self) -> int: ...

    def provenance(self, path: str, lines: str) -> Provenance:
        """Where a piece of a file comes from, its licence included."""
        ...
