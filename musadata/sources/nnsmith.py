"""Random graphs drawn through NNSmith (Apache-2.0), as a source of drafts.

A graph's seed is a hash of the run's seed and the graph's index, so graphs may be drawn in any order by any process.
"""

from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING

from musadata.config import SourceConfig
from musadata.records import Draft, Provenance, Reject, SourceKind
from musadata.sources.drawn import indices, ranges
from musadata.sources.protocol import reject_draft

if TYPE_CHECKING:
    from musadata.sandbox import Caller

REPOSITORY = "https://github.com/ise-uiuc/nnsmith"
UNIT_SECONDS = 120.0  # a unit takes half a second; this stops a solver that does not terminate
UNIT_MEMORY_MB = 2048


class NNSmithSource:
    """`config.count` graphs of at most `config.nodes` operators each. Units are ranges of graphs: "10-19"."""

    origin = "nnsmith"
    revision = ""

    def __init__(self, config: SourceConfig, seed: int):
        self._count, self._nodes, self._seed = config.count, config.nodes, seed

    def units(self) -> list[str]:
        return ranges(self._count)

    def read(self, unit: str, sandbox: "Caller") -> Iterator[Draft | Reject]:
        """The unit's graphs in order of their index; an unusable graph is a reject with the reason."""
        from musadata.sandbox import Limits

        first, last = indices(unit)[0], indices(unit)[-1]
        limits = Limits(seconds=UNIT_SECONDS, memory_mb=UNIT_MEMORY_MB)
        outcome = sandbox.call(
            "musadata.sources.nnsmith:print_graphs", self._seed, first, last, self._nodes, limits=limits
        )
        if outcome.status != "ok":
            where = f"nnsmith:seed/{self._seed}/graph/{unit}"
            yield reject_draft(f"generator {outcome.status}", outcome.error_type or "", where)
            return
        for index, (name, text) in enumerate(outcome.value, start=first):
            path = f"seed/{self._seed}/graph/{index}"
            if text:
                place = Provenance("nnsmith", REPOSITORY, version("nnsmith"), path, "", "Apache-2.0")
                yield Draft(SourceKind.NNSMITH, name, text, place)
            else:
                yield reject_draft(name, "", f"nnsmith:{path}")


def print_graphs(seed: int, first: int, last: int, max_nodes: int) -> list[list[str]]:
    """Name and source of each graph from `first` to `last`; an empty source where the name is why there is none."""
    from musadata.sources.generated.graph_drawing import NoGraph, draw_graph
    from musadata.sources.generated.printer import name_graph, print_graph

    printed = []
    for index in range(first, last + 1):
        try:
            graph = draw_graph(graph_seed(seed, index), max_nodes)
        except NoGraph as none:
            printed.append([str(none), ""])
        else:
            printed.append([name_graph(graph), print_graph(graph)])
    return printed


def graph_seed(seed: int, index: int) -> int:
    """31 bits, which is what NNSmith's solver takes."""
    return int.from_bytes(sha256(f"nnsmith/{seed}/{index}".encode()).digest()[:4], "big") >> 1
