"""From the units of a source to drafts: files are mined for modules and kernels, ready drafts are passed on."""

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

    The index of a tree is kept until a file of another tree arrives: each repository is read once, and one is in
    memory at a time.
    """

    def __init__(self, source: Source):
        self._source = source
        self._known: _Tools | None = None

    def drafts(self, unit: str, sandbox: Caller) -> Iterator[Draft | KernelDraft | Reject]:
        """The drafts in a unit, in a fixed order, and a reject for everything that was left out."""
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
    """The slicer and the kernel miner of one tree, each created on first use."""

    source: CodeSource

    @cached_property
    def slicer(self) -> Slicer:
        return Slicer(PackageIndex(self.source.tree, self.source.importable))

    @cached_property
    def kernels(self) -> KernelMiner:
        return KernelMiner(self.source)
