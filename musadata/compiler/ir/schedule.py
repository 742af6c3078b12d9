"""Schedules: how the work of a kernel is dealt to blocks, warps and threads, as a list of steps on axes.

A schedule is a value. It is chosen (`emission/schedule_plan.py`), carried out (`emission/emit.py`), compared, written
down and carried out again: `Schedule.log` and `Schedule.read` are each other's inverse. As in tinygrad's `Opt(op, axis,
amount)` and TVM's primitives, a step names an operation, an axis and an amount. Amounts that only follow from a task's
sizes do not count when schedules are compared: two schedules are equal if they have the same structure.

Axes: `elements` (points without inner loops), `outputs` (points with them), `rows` and `columns` of those, `inner` (the
loops of a reduction), `operands` and `sums` of a product.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import yaml


def _amount(default: Any = 0) -> Any:
    """A field that does not count when schedules are compared."""
    return field(default=default, compare=False)


@dataclass(frozen=True)
class Step:
    """One step of a schedule."""


@dataclass(frozen=True)
class Bind(Step):
    """Each point of an axis goes to a thread, a lane, a warp or a block; `amount` of these make a block, for a block so
    many threads."""

    axis: str
    to: str
    amount: int = _amount()


@dataclass(frozen=True)
class Stride(Step):
    """As many blocks as the device runs at once go on to further points of an axis."""

    axis: str


@dataclass(frozen=True)
class Vectorise(Step):
    """A thread moves `amount` neighbours along an axis at once."""

    axis: str
    amount: int


@dataclass(frozen=True)
class Split(Step):
    """An axis is shared by `amount` threads, or a thread has so many points of it."""

    axis: str
    amount: int = _amount()


@dataclass(frozen=True)
class Stage(Step):
    """What is read passes through a memory, in which a thread or a block has `amount` elements, or slices."""

    axis: str
    memory: str
    amount: int = _amount()


@dataclass(frozen=True)
class Combine(Step):
    """How the partial results of an axis become one: by a `thread` alone, by `shuffle` in a warp, in a `tree` in shared
    memory, by `shuffle and tree`, or `beside` each other in shared memory. `online`: two reductions of which one needs
    the other's result go along the axis together."""

    axis: str
    by: str
    online: bool = _amount(False)


@dataclass(frozen=True)
class Carry(Step):
    """Running results along an axis are kept in a register: of all elements so far, or of all pieces so far."""

    axis: str
    of: str


@dataclass(frozen=True)
class Tile(Step):
    """A block computes `rows` x `cols` of a result, by slices of `depth` of the inner axis. Blocks of rows lie along
    the grid's x where `rows_first`, blocks of columns elsewhere. `by_taps`: a slice has channels of one tap."""

    rows: int = _amount()
    cols: int = _amount()
    depth: int = _amount()
    rows_first: bool = _amount(False)
    by_taps: bool = _amount(False)

    @property
    def sides(self) -> tuple[int, int, int]:
        return self.rows, self.cols, self.depth


@dataclass(frozen=True)
class Unroll(Step):
    """A thread has `amount` points of an axis in registers, as a rectangle of `rows` x `cols`."""

    axis: str
    amount: int
    rows: int = _amount()
    cols: int = _amount()


@dataclass(frozen=True)
class TensorCore(Step):
    """Products are those of tensor cores; a warp has `rows` x `cols` of the result."""

    axis: str
    rows: int = _amount()
    cols: int = _amount()


@dataclass(frozen=True)
class Prefetch(Step):
    """What comes next along an axis is loaded while what came before it is used."""

    axis: str


_STEPS: Mapping[str, type[Step]] = {
    kind.__name__.lower(): kind
    for kind in (Bind, Stride, Vectorise, Split, Stage, Combine, Carry, Tile, Unroll, TensorCore, Prefetch)
}
AnyStep = TypeVar("AnyStep", bound=Step)


@dataclass(frozen=True)
class Schedule:
    """The steps in order.

    `alike`: the kernel is written so that layers can share it. Its sizes are parameters, and what differs between
    layers does not change its form.
    """

    steps: tuple[Step, ...]
    alike: bool = _amount(False)

    def find(self, kind: type[AnyStep], axis: str = "") -> AnyStep | None:
        """The first step of a kind, on an axis if one is named."""
        found = (step for step in self.steps if isinstance(step, kind))
        return next((step for step in found if not axis or getattr(step, "axis", "") == axis), None)

    def get(self, kind: type[AnyStep], axis: str = "") -> AnyStep:
        """The same, of a schedule that has it."""
        step = self.find(kind, axis)
        assert step is not None, f"{self} has no {kind.__name__}"
        return step

    @property
    def tile(self) -> tuple[int, int, int] | None:
        """Of a product: how many rows and columns a block computes, by slices of how many steps of the depth."""
        step = self.find(Tile)
        return step.sides if step else None

    @property
    def team(self) -> str:
        """What shares the steps of a point and combines what it finds: a warp, a block, or a thread alone."""
        bind = self.find(Bind)
        combines = self.find(Combine) or self.find(Carry)
        return bind.to if bind and combines and bind.to in ("warp", "block") else "thread"

    @property
    def by_columns(self) -> bool:
        """Whether neighbouring threads have neighbouring columns, each of which several threads share."""
        return self.find(Split, "inner") is not None

    @property
    def strides(self) -> bool:
        """Whether as many blocks as the device runs at once go on to further points."""
        return self.find(Stride) is not None

    @property
    def online(self) -> bool:
        combine = self.find(Combine)
        return combine is not None and combine.online

    @cached_property
    def label(self) -> str:
        """What was done, in a few words for people."""
        return LABELS[self.steps]

    def log(self) -> list[str]:
        """The steps as text, amounts included: `bind elements thread amount=256`."""
        return [" ".join([type(step).__name__.lower(), *_arguments(step)]) for step in self.steps]

    @staticmethod
    def read(log: list[str]) -> "Schedule":
        """The schedule that was written so."""
        return Schedule(tuple(map(_read_step, log)))


def _arguments(step: Step) -> list[str]:
    given = [(one, getattr(step, one.name)) for one in fields(step)]
    plain = [str(value).replace(" ", "_") for one, value in given if one.compare]
    return plain + [f"{one.name}={value:d}" for one, value in given if not one.compare and value]


def _read_step(line: str) -> Step:
    name, *words = line.split()
    kind = _STEPS[name]
    compared = [one for one in fields(kind) if one.compare]
    plain = [word for word in words if "=" not in word]
    given: dict[str, Any] = {one.name: word.replace("_", " ") for one, word in zip(compared, plain, strict=True)}
    given |= dict(word.split("=") for word in words if "=" in word)
    typed = get_type_hints(kind)
    return kind(**{key: value if typed[key] is str else typed[key](int(value)) for key, value in given.items()})


_TABLE = yaml.safe_load(Path(__file__).with_name("schedules.yaml").read_text(encoding="utf-8"))
LABELS: Mapping[tuple[Step, ...], str] = {Schedule.read(row["steps"]).steps: row["label"] for row in _TABLE}
