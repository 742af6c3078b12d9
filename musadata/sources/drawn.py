"""Sources that generate drafts from a seed: reproducible in any order and in any process."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, ClassVar

from musadata.config import SourceConfig
from musadata.errors import MusadataError
from musadata.records import Draft, Provenance, Reject, SourceKind
from musadata.sources.protocol import reject_draft

if TYPE_CHECKING:
    from musadata.sandbox import Caller

PER_UNIT = 10
LICENSE = "Apache-2.0"


class NothingDrawn(Exception):
    """An index has no draft; the message is a countable reason."""


def ranges(count: int) -> list[str]:
    """The units of `count` drafts: ranges of indices, "0000010-0000019"."""
    return [f"{start:07d}-{min(start + PER_UNIT, count) - 1:07d}" for start in range(0, count, PER_UNIT)]


def indices(unit: str) -> range:
    """The indices in a unit."""
    first, last = map(int, unit.split("-"))
    return range(first, last + 1)


class DrawnSource(ABC):
    """`count` drafts by number. Units are ranges of numbers: "0000010-0000019"."""

    origin: ClassVar[str]
    kind: ClassVar[SourceKind]
    revision: ClassVar[str] = ""

    def __init__(self, count: int, seed: int):
        self._count, self._seed = count, seed

    @abstractmethod
    def draw(self, index: int) -> tuple[str, str]:
        """Name and reference of one number.

        Raises:
            NothingDrawn: it stands for nothing.
        """

    def units(self) -> list[str]:
        return ranges(self._count)

    def read(self, unit: str, sandbox: "Caller") -> Iterator[Draft | Reject]:
        """The drafts of a range, in order. They are made of our own text, so that no sandbox is needed."""
        for index in indices(unit):
            path = f"seed/{self._seed}/{self.origin}/{index}"
            try:
                name, reference = self.draw(index)
            except NothingDrawn as none:
                yield reject_draft(str(none), "", f"{self.origin}:{path}")
            else:
                yield Draft(self.kind, name, reference, Provenance(self.origin, "", _version(), path, "", LICENSE))


def _version() -> str:
    try:
        return metadata.version("musadata")
    except metadata.PackageNotFoundError:
        return "source"  # run from a checkout that is not installed


class CompositionSource(DrawnSource):
    """Fused chains and small blocks; no structure twice."""

    origin = "composition"
    kind = SourceKind.COMPOSED

    def __init__(self, config: SourceConfig, seed: int):
        from musadata.sources.composed.recipe import Structures

        super().__init__(config.count, seed)
        self._structures = Structures(seed)

    def draw(self, index: int) -> tuple[str, str]:
        from musadata.sources.composed.recipe import NoComposition

        try:
            composed = self._structures.compose(index)
        except NoComposition:
            raise NothingDrawn("no new structure") from None
        return composed.name, composed.text


class OperatorSource(DrawnSource):
    """PyTorch's operators, one task each, in an order in which every beginning is spread over the families."""

    origin = "operators"
    kind = SourceKind.OPERATOR

    def __init__(self, config: SourceConfig, seed: int):
        from musadata.sources.operators.inventory import inventory

        self._operators = inventory()
        if config.count > len(self._operators):
            what = f"is {config.count}, but the inventory holds {len(self._operators)} operators"
            raise MusadataError(what, where="source operators: count", remedy="lower it")
        super().__init__(config.count, seed)

    def draw(self, index: int) -> tuple[str, str]:
        from musadata.sources.operators.writing import write_operator

        operator = self._operators[index]
        return operator.name, write_operator(operator, self._seed)
