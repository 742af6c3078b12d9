"""The interface of a source: it yields drafts, or files of a tree to mine."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from musadata.errors import Rejection, is_own_failure, short_trace
from musadata.records import Draft, Provenance, Reject

if TYPE_CHECKING:
    from musadata.sandbox import Caller

STEP = "draft"  # the funnel's name for this step
Item = TypeVar("Item")


def reject_draft(reason: str, detail: str, origin: str) -> Reject:
    """A reject of the draft step."""
    return Reject("tasks", STEP, reason, " ".join(detail.split()), origin)


def contained(work: Callable[[], Iterable[Item]], step: str, origin: str) -> Iterator[Item | Reject]:
    """The items that the work gives, up to an unexpected exception, which becomes a reject with a short trace.

    What the machine causes, or the user can mend, passes through.
    """
    try:
        yield from work()
    except Exception as error:
        if not is_own_failure(error):
            raise
        yield Reject("tasks", step, "internal_error", short_trace(error), origin)


class Source(Protocol):
    """A place that tasks come from; cheap to open in any worker, the same everywhere."""

    @property
    def origin(self) -> str:
        """What rows name it by: "package:torch"."""
        ...

    @property
    def revision(self) -> str:
        """The version of its content: a commit, a release or a hash; "" if musadata's own version determines it."""
        ...

    def units(self) -> list[str]:
        """Stable ids of independent pieces of work, sorted: a file's path, or a range of graphs."""
        ...

    def read(self, unit: str, sandbox: "Caller") -> "Iterator[Draft | CodeFile | Reject]":
        """The drafts or files of a unit in a fixed order, and a reject for everything that is left out.

        A unit that has vanished or broken since it was listed is a reject like any other.
        """
        ...


class UnreadableFile(Rejection):
    """A file that exists but cannot be used."""


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


class Packages(Protocol):
    """Other projects' releases whose code modules of a source may use.

    Attributes:
        names: what code imports them by.
    """

    names: set[str]

    def paths(self) -> Iterable[str]:
        """Their Python files."""
        ...

    def holds(self, path: str) -> bool:
        """Whether a path is one of these."""
        ...

    def read(self, path: str) -> bytes:
        """The file's bytes.

        Raises:
            UnreadableFile: it cannot be read.
        """
        ...

    def problem(self, module: str) -> str:
        """Why the package of a module is missing although the user named it, "" if they did not."""
        ...


class CodeSource(Protocol):
    """The files of one tree, and where they come from.

    Attributes:
        origin: what rows call it.
        seed: of whatever is drawn for its modules.
        importable: packages of the tree whose public names references import.
        kernels: whether native code is linked to the Python that calls it.
        dependencies: packages whose code its modules may use.
        harvest_seconds: CPU time in which one of its tests or examples may show how its modules are used; 0 runs none.
    """

    origin: str
    tree: Tree
    seed: int
    importable: frozenset[str]
    kernels: bool
    harvest_seconds: float

    @property
    def dependencies(self) -> Packages: ...

    def units(self) -> list[str]:
        """Paths of the files to read, sorted."""
        ...

    def provenance(self, path: str, lines: str, parts: Iterable[str] = ()) -> Provenance:
        """Where a piece of a file comes from; the licence holds for the files of all other parts as well."""
        ...


@dataclass(frozen=True)
class CodeFile:
    """One file to mine, among all files of its tree."""

    source: CodeSource
    path: str
