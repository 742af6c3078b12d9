"""A stage: some steps that every shard goes through, and what belongs before and after them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from musadata.config import Config
from musadata.storage.commits import Commit
from musadata.storage.shards import Shard
from pipelines.steps import Undone

if TYPE_CHECKING:
    import apache_beam as beam


@dataclass
class Stage(ABC):
    """Shards in, the commits of the stage's last step out.

    Attributes:
        name: of the stage, its commits and its journals.
        needs: the stage whose commits it reads; "" for none.
        makes: the dataset without which its run is a failure.
        asks: the teacher is asked in it.
    """

    config: Config
    corpus: str

    name: ClassVar[str]
    needs: ClassVar[str] = ""
    makes: ClassVar[str] = "tasks"
    asks: ClassVar[bool] = False

    @abstractmethod
    def expand(self, shards: "beam.PCollection[Shard | Undone]") -> "beam.PCollection[Commit | Undone]":
        """The stage's steps. Beam is imported here, since a run that finds all done does without it."""

    def check(self) -> None:  # noqa: B027 (most stages have nothing to check)
        """Find now what would only be found at the end.

        Raises:
            MusadataError: the config asks for something that is not there.
        """

    def prepare(self) -> None:  # noqa: B027
        """Write into the corpus what all workers have to agree on.

        Raises:
            MusadataError: the file system refuses.
        """

    def remarks(self) -> Iterable[str]:
        """What the user should know of a run that has ended well."""
        return ()

    @abstractmethod
    def is_done(self) -> bool:
        """Whether every shard is committed and nothing that it depends on has changed; what it needs is done."""
