"""How the answer launches a kernel: its schedule and its grid at two sets of sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.held_rows import held_row
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.ir.code import Name
from musadata.compiler.ir.schedule import Schedule, Stage, Vectorise

Grid = tuple[int, ...]


@dataclass(frozen=True)
class Way:
    """The schedule of a kernel, with its grids at the first and at the second set of shapes. None are known where the
    device decides the number of blocks, or where kernels share code, whose names mean something else in each."""

    emitted: EmittedKernel
    grids: tuple[Grid, Grid] | None

    @property
    def schedule(self) -> Schedule:
        return self.emitted.schedule

    @property
    def threads(self) -> tuple[int, ...]:
        """The sizes of a block along x, y and z."""
        return self.emitted.threads

    @property
    def block(self) -> int:
        return prod(self.threads)

    @property
    def held(self) -> int:
        """How many elements of a row a thread has in registers at a time; 0 if it holds none."""
        row = self.schedule.find(Stage, "inner")
        return row.amount if row else 0

    @property
    def team(self) -> int:
        """How many threads share the steps of a point; 1 where each point has a thread of its own, or a column."""
        return {"warp": 32, "block": self.block}.get(self.schedule.team, 1)

    @property
    def vector(self) -> int:
        """How many neighbours a thread moves at once."""
        vectors = self.schedule.find(Vectorise)
        row = held_row(self.emitted.kernel, Name("lane"), 32, self.held) if self.held else None
        return vectors.amount if vectors else row.group if row else 1

    @property
    def text(self) -> str:
        """`<<<4096, 1024>>>` with that of set 2 where it is another, or the block alone."""
        if self.grids is None:
            return f"blocks of {_sides(self.threads)}"
        first, other = (f"`<<<{_sides(grid)}, {_sides(self.threads)}>>>`" for grid in self.grids)
        return first if first == other else f"{first}, in set 2 {other}"


def _sides(sizes: tuple[int, ...]) -> str:
    """The sizes of a grid or a block as a launch has them."""
    return str(sizes[0]) if len(sizes) == 1 else f"dim3({', '.join(map(str, sizes))})"


def ways_of(candidate: Candidate, *sets: Mapping[str, int]) -> list[Way]:
    """The schedule of each kernel of an answer, with the values of the named sizes in two sets of shapes."""
    ways, found = [], dict[str, tuple[Grid | None, ...]]()
    for emitted in candidate.kernels:  # of several launches of a kernel the first
        grids = found.setdefault(emitted.kernel.name, tuple(map(emitted.host.grid, sets)))
        known = tuple(grid for grid in grids if grid is not None)
        is_known = len(known) == 2 and not emitted.is_shared
        ways.append(Way(emitted, (known[0], known[1]) if is_known else None))
    return ways
