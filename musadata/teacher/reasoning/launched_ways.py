"""How the answer launches a kernel: its schedule, its grid at two sets of sizes, and how a thread finds its place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.ir.code import (
    Body,
    Declare,
    Element,
    Expression,
    Guard,
    Inserted,
    Jump,
    Lambda,
    Loop,
    Name,
    Statement,
    Template,
    names_of,
    of_kind,
    walk,
)
from musadata.compiler.ir.printing import head_of, text_of
from musadata.compiler.ir.schedule import Schedule, Split, Stage, Vectorise

_GRID = ("blockIdx", "threadIdx", "lane", "step", "warp")  # what says where a thread is
Grid = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """A statement by which a thread finds its place in the grid, and from that its point."""

    statement: Declare | Loop

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def value(self) -> Expression:
        """Where it is, or where it begins."""
        value = self.statement.value if isinstance(self.statement, Declare) else self.statement.first
        assert value is not None
        return value

    @property
    def text(self) -> str:
        """As a sentence quotes it: `row = i / cols`, or the head of a loop."""
        if isinstance(self.statement, Loop):
            return head_of(self.statement)
        return text_of(self.statement).removeprefix(f"const {self.statement.kind} ").partition(";")[0]


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
    def fours(self) -> bool:
        """Whether a thread moves four neighbours at once."""
        return self.schedule.find(Vectorise) is not None

    @property
    def turns(self) -> bool:
        """Whether squares of elements are read along one axis and written along the other."""
        return self.schedule.find(Split, "elements") is not None

    @property
    def guard(self) -> str:
        """The condition under which a thread leaves; empty if it never does."""
        guards = (one for one in self._body if isinstance(one, Guard) and one.short and one.body == (Jump("return"),))
        return next((str(one.condition) for one in guards), "")

    @property
    def _body(self) -> Body:
        return () if self.emitted.is_shared else tuple(_inside(self.emitted.function.body))

    @cached_property
    def places(self) -> list[Place]:
        """How a thread finds its place: loops over the grid, and what follows from blocks, threads and these."""
        found: list[Place] = []
        known, inside = set(_GRID), False
        for outer in self._body:
            if isinstance(outer, Loop) and not outer.short:
                inside = _is_known(outer.first, {"blockIdx", "gridDim"})
                if inside:
                    found.append(Place(outer))
                    known.add(outer.name)
            for one in (outer, *(_children(outer) if inside else ())):
                is_new = isinstance(one, Declare) and one.prefix == "const " and one.kind == "int" and not one.sizes
                if is_new and _is_place(one.value, known):
                    found.append(Place(one))
                    known.add(one.name)
        return found

    def loads(self, name: str) -> tuple[list[str], list[str]]:
        """The loads from a buffer as the kernel has them, and the lines that define the integers in them."""
        elements = dict.fromkeys(one for one in of_kind(self._body, Element) if one.array == Name(name))
        found = [one for one in elements if not of_kind(one.place, Element)]
        names = dict.fromkeys(part.name for one in found for part in walk(one) if isinstance(part, Name))
        defined = {one.name: Place(one) for one in reversed(of_kind(self._body, Declare)) if one.kind == "int"}
        lines = [defined[one] for one in names if one in defined and defined[one] not in self.places]
        return [str(one) for one in found], [line.text for line in lines]

    def steps(self) -> list[str]:
        """The heads of the loops that threads share, each once."""
        loops = [one for outer in self._body for one in (outer, *_children(outer)) if isinstance(one, Loop)]
        shared = [one for one in loops if not one.short and _starts_at_a_thread(one.first)]
        return list(dict.fromkeys(map(head_of, shared)))


def _inside(body: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a body, with those that templates hold at its level."""
    for one in body:
        if isinstance(one, Template):
            for part in one.parts:
                yield from part.body if isinstance(part, Inserted) and part.depth == 1 else ()
        else:
            yield one


def _children(statement: Statement) -> Iterator[Statement]:
    if isinstance(statement, (Loop, Lambda)):
        yield from statement.body
    elif isinstance(statement, Guard) and not statement.short:
        yield from (*statement.body, *statement.otherwise)


def _is_known(value: Expression, known: set[str]) -> bool:
    return any(name.partition(".")[0] in known for name in names_of(value))


def _is_place(value: Expression | None, known: set[str]) -> bool:
    """Whether a formula is arithmetic with what is known of a thread's place, and no other name for that."""
    if value is None or of_kind(value, Element) or (isinstance(value, Name) and value.name in known):
        return False
    return _is_known(value, known)


def _starts_at_a_thread(value: Expression) -> bool:
    """Whether a formula begins with a thread's number among those that share a loop."""
    first = next((one.name for one in walk(value) if isinstance(one, Name)), "")
    return first in ("lane", "member") or first.startswith("threadIdx.")


def ways_of(candidate: Candidate, *sets: Mapping[str, int]) -> list[Way]:
    """The schedule of each kernel of an answer, with the values of the named sizes in two sets of shapes."""
    ways, found = [], dict[str, tuple[Grid | None, ...]]()
    for emitted in candidate.kernels:  # of several launches of a kernel the first
        grids = found.setdefault(emitted.kernel.name, tuple(map(emitted.host.grid, sets)))
        known = tuple(grid for grid in grids if grid is not None)
        is_known = len(known) == 2 and not emitted.is_shared
        ways.append(Way(emitted, (known[0], known[1]) if is_known else None))
    return ways
