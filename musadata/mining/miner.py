"""From the units of a source to drafts: files are mined for modules and kernels, ready drafts are passed on."""

from collections.abc import Iterator
from functools import partial

from musadata.mining.kernels.kernel_rows import STEP as PAIR_STEP
from musadata.mining.kernels.kernel_rows import KernelMiner
from musadata.mining.slicing.class_slicing import Slicer
from musadata.mining.slicing.definition_index import PackageIndex
from musadata.mining.slicing.drafting import draft_file
from musadata.mining.slicing.harvested import Harvest
from musadata.records import Draft, KernelDraft, Reject
from musadata.sandbox import Caller
from musadata.sources.protocol import STEP, CodeFile, CodeSource, Source, contained


class Miner:
    """Turns the units of one source into drafts.

    The index of a tree is kept until a file of another tree arrives: each repository is read once, and one is in
    memory at a time.
    """

    def __init__(self, source: Source):
        self._source = source
        self._tools: tuple[CodeSource, Slicer, Harvest, KernelMiner] | None = None

    def drafts(self, unit: str, sandbox: Caller) -> Iterator[Draft | KernelDraft | Reject]:
        """The drafts in a unit, in a fixed order, and a reject for everything that was left out."""
        for item in contained(lambda: self._source.read(unit, sandbox), STEP, f"{self._source.origin}/{unit}"):
            if isinstance(item, CodeFile):
                where = f"{item.source.origin}/{item.path}"
                yield from contained(partial(self._mine, item, sandbox), STEP, where)
            else:
                yield item

    def _mine(self, file: CodeFile, sandbox: Caller) -> Iterator[Draft | KernelDraft | Reject]:
        """The modules of one file, and the kernels that its wrappers call."""
        source, path = file.source, file.path
        where = f"{source.origin}/{path}"
        if self._tools is None or self._tools[0] is not source:
            index = PackageIndex(source.tree, source.importable, source.dependencies)
            slicer = Slicer(index)
            harvest = Harvest(index, slicer.callers, source.harvest_seconds)
            self._tools = source, slicer, harvest, KernelMiner(source)
        _, slicer, harvest, kernels = self._tools
        yield from contained(lambda: draft_file(source, slicer, harvest, path, sandbox), STEP, where)
        if source.kernels:
            yield from contained(lambda: kernels.rows(path, sandbox), PAIR_STEP, where)
