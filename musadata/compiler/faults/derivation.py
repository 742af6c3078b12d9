"""Why a program with a seeded fault fails: derived from the edit and the sizes, thread by thread where that tells it.

A kind of fault is seeded only where its derivation finds something to say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.cpp import device_function
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.step_functions import STEP
from musadata.compiler.faults.thread_walk import Visit, visits
from musadata.compiler.ir.code import (
    Assign,
    Binary,
    Element,
    Expression,
    Function,
    Launch,
    Name,
    Tree,
    fields_of,
    names_of,
    walk,
)

MOST_VISITS = 3000  # of threads and steps that are followed
_MOST_NAMED = 4


@dataclass(frozen=True)
class Derivation:
    """Sentences: `wrong` says what the fault does, `right` why the place is right without it."""

    wrong: str
    right: str


@dataclass(frozen=True)
class Access:
    """An element of a tensor that a kernel's code reaches. `text` shows it."""

    node: Expression
    tensor: str
    place: Expression
    text: str
    writes: bool


@dataclass(frozen=True)
class Edit:
    """One candidate without a fault and with it. `emitted` is the kernel it is in, or the first one."""

    honest: Candidate
    faulty: Candidate

    @cached_property
    def nodes(self) -> tuple[Any, Any]:
        """The nodes that differ, the right one first; None for one that is not there."""
        return difference(self.honest.parts, self.faulty.parts)

    @cached_property
    def parts(self) -> tuple[Any, Any]:
        """The functions that differ, the right one first."""
        pairs = zip(self.honest.parts, self.faulty.parts, strict=True)
        return next((pair for pair in pairs if pair[0] != pair[1]), (None, None))

    @cached_property
    def emitted(self) -> EmittedKernel:
        right, wrong = self.parts
        launches = next((one for one, other in pairs(right, wrong, Launch) if one != other), None)

        def owns(one: EmittedKernel) -> bool:
            if isinstance(right, str):
                return right in (device_function(*called) for called in one.functions)
            return right in (one.function, *one.helpers) or one.host == launches

        return next(filter(owns, self.honest.kernels), self.honest.kernels[0])

    def gone(self, kind: type[Tree], side: int = 0) -> Tree | None:
        """The first node of a kind that only the right program has, or with a `side` of 1 only the wrong one."""
        others = {one for one in walk(self.parts[1 - side]) if isinstance(one, kind)}
        return next((one for one in walk(self.parts[side]) if isinstance(one, kind) and one not in others), None)

    @property
    def sizes(self) -> tuple[Mapping[str, int], ...]:
        """The named sizes of each set of shapes."""
        return self.honest.hints or ({},)

    def walked(self, side: int, target: Any, sizes: Mapping[str, int], *, last: bool = False) -> Iterator[Visit]:
        """Arrivals at a node of the kernel, without (0) or with (1) the fault."""
        return islice(visits(self.emitted, self.function(side), target, sizes, last=last), MOST_VISITS)

    def function(self, side: int) -> Function:
        """The kernel without (0) or with (1) the fault."""
        part = self.parts[side]
        return part if self.parts[0] == self.emitted.function and isinstance(part, Function) else self.emitted.function

    def at(self, sizes: Mapping[str, int]) -> str:
        """ "At rows = 7 and cols = 64, "; "" where no size has a name."""
        named = [
            f"{name} = {value}" for name, value in sizes.items() if name in self.emitted.sizes and name != STEP.name
        ]
        return f"At {listing(named[:_MOST_NAMED])}, " if named else ""

    def accesses(self, side: int) -> list[Access]:
        """Elements of tensors that the kernel reaches, in the order of its text."""
        function = self.function(side)
        tensors = {one.name.name for one in function.parameters if "*" in one.kind}
        targets = {id(one.target) for one in walk(function.body) if isinstance(one, Assign)}
        found = []
        for one in walk(function.body):
            match one:
                case Element(Name(name), place) if name in tensors:
                    found.append(Access(one, name, place, f"`{one}`", id(one) in targets))
                case Binary(Name(name), "+", place) if name in tensors:
                    found.append(Access(one, name, place, f"`{one}`", False))
        return found

    def shape(self, tensor: str, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The shape of the tensor that a kernel's parameter points to."""
        given = dict(
            zip((p.name.name for p in self.emitted.function.parameters), self.emitted.host.arguments, strict=False)
        )
        names = names_of(given.get(tensor, Name("")))
        buffers = (*self.emitted.kernel.inputs, *self.emitted.kernel.outputs)
        buffer = next((one for one in buffers if one.name in names), None)
        return None if buffer is None else tuple(side.evaluate(dict(sizes)) for side in buffer.shape)


def pairs(right: Any, wrong: Any, kind: type[Tree] | tuple[type[Any], ...]) -> list[tuple[Any, Any]]:
    """The nodes of a kind in two trees that differ in other nodes, pair by pair."""
    both = ([one for one in walk(tree) if isinstance(one, kind)] for tree in (right, wrong))
    return list(zip(*both, strict=False))


def difference(one: Any, other: Any) -> tuple[Any, Any]:
    """The smallest nodes in which two trees differ first; None for one that is not there."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        differing = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
        if len(one) == len(other) and differing is not None:
            return difference(one[differing], other[differing])
        place = min(len(one), len(other)) if differing is None else differing
        return (one[place], None) if len(one) > len(other) else (None, other[place])
    names = fields_of(one) if type(one) is type(other) else None
    apart = [name for name in names or () if getattr(one, name) != getattr(other, name)]
    if len(apart) == 1 and not isinstance(getattr(one, apart[0]), (str, int, type(None))):
        return difference(getattr(one, apart[0]), getattr(other, apart[0]))
    return one, other


def listing(items: Iterable[str]) -> str:
    """ "a, b and c"."""
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def with_values(names: Iterable[str], known: Mapping[str, int]) -> str:
    """ "row = 1 and k = 0": the names that are known there."""
    told = [f"{name} = {known[name]}" for name in dict.fromkeys(names) if name in known]
    return listing(told) if told else ""


def unravel(place: int, shape: tuple[int, ...] | None) -> str:
    """ "[1, 0]", the position of an element of a contiguous tensor; "" where it has none."""
    if shape is None or not 0 <= place < count_of(shape):
        return ""
    found: list[int] = []
    for side in reversed(shape):
        place, inner = divmod(place, side)
        found.insert(0, inner)
    return f"[{', '.join(map(str, found))}]"


def count_of(shape: Iterable[int]) -> int:
    total = 1
    for side in shape:
        total *= side
    return total


def plural(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


Figures = Mapping[str, Any] | None  # None where nothing can be derived
Derive = Callable[[Edit], Figures]
DERIVATIONS: dict[str, Derive] = {}
_WORDS: dict[str, dict[str, str]] = yaml.safe_load(
    Path(__file__).with_name("derivations.yaml").read_text(encoding="utf-8")
)


def derives(*kinds: str) -> Callable[[Derive], Derive]:
    """Registers what finds the figures for the words of kinds of fault; `form` names other words than the kind's."""

    def register(derive: Derive) -> Derive:
        DERIVATIONS.update(dict.fromkeys(kinds, derive))
        return derive

    return register


def derive(kind: str, honest: Candidate, faulty: Candidate) -> Derivation | None:
    """Why the faulty one of two candidates fails; None where nothing can be derived at the task's sizes."""
    figures = DERIVATIONS[kind](Edit(honest, faulty))
    if figures is None:
        return None
    words = _WORDS[figures.get("form", kind)]
    wrong, right = (words[part].format(**figures) for part in ("wrong", "right"))
    return Derivation(f"{wrong[:1].upper()}{wrong[1:]}", right)


def own_names(edit: Edit, *expressions: Expression) -> list[str]:
    """The variables of expressions whose values belong to a thread or a step: no sizes."""
    sizes = {
        *(name for known in edit.sizes for name in known),
        *(one.name.name for one in edit.emitted.function.parameters),
    }
    found = [one.name for part in expressions for one in walk(part) if isinstance(one, Name)]
    return [name for name in dict.fromkeys(found) if name not in sizes and name in names_of(expressions)]
