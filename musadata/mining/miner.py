"""From what a source holds to drafts: files are cut into their modules and kernels, drafts pass as they are."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from musadata.mining.kernels.kernel_rows import KernelMiner
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import draft_file
from musadata.records import Draft, KernelDraft, Reject
from musadata.sandbox import Caller
from musadata.sources.protocol import CodeFile, CodeSource, Source


class Miner:
    """Turns the units of one source into drafts.

    What it has learnt of a tree is kept until a file of another tree comes: a repository is read once, and of a dump of
    many repositories one is held at a time.
    """

    def __init__(self, source: Source):
        self._source = source
        self._known: _Tools | None = None

    def drafts(self, unit: str, sandbox: Caller) -> Iterator[Draft | KernelDraft | Reject]:
        """The tasks that a unit may hold, in a fixed order, and what was left out of it and why."""
        for item in self._source.read(unit, sandbox):
            if isinstance(item, CodeFile):
                yield from self._mine(item, sandbox)
            else:
                yield item

    def _mine(self, file: CodeFile, sandbox: Caller) -> Iterator[Draft | KernelDraft | Reject]:
        """The modules of one file, and the kernels that its wrappers call."""
        tools = self._tools(file.source)
        yield from draft_file(file.source, tools.slicer, file.path, sandbox)
        if file.source.kernels:
            yield from tools.kernels.rows(file.path, sandbox)

    def _tools(self, source: CodeSource) -> "_Tools":
        known = self._known
        if known is None or known.source is not source:
            known = self._known = _Tools(source)
        return known


@dataclass
class _Tools:
    """What cuts the files of one tree, each made when the first file needs it."""

    source: CodeSource

    @cached_property
    def slicer(self) -> Slicer:
        return Slicer(PackageIndex(self.source.tree, self.source.importable))

    @cached_property
    def kernels(self) -> KernelMiner:
        return KernelMiner(self.source)
