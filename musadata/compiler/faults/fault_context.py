"""What a fault is inserted into: a candidate, its kernels with their sizes, and a seeded random choice."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from musadata.compiler.emission.candidate import Candidate, Part
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.schedule_plan import extent_hint
from musadata.compiler.ir.code import Apply, Function, Launch, Tree, names_of, of_kind, rebuild, replace_at, walk

Item = TypeVar("Item")


@dataclass(frozen=True)
class KernelSite:
    """One kernel as it stands in the candidate's text.

    Attributes:
        emitted: the kernel.
        points: how many points its axes have, per set of shapes.
        inner: the longest inner loop, per set of shapes; 1 where there is none.
        threads: threads per block along x.
    """

    emitted: EmittedKernel
    points: tuple[int, ...]
    inner: tuple[int, ...]
    threads: int

    @property
    def function(self) -> Function:
        """The `__global__` function."""
        return self.emitted.function

    @cached_property
    def names(self) -> frozenset[str]:
        """The variables that stand in it."""
        return names_of(self.function)

    def calls(self, *prefixes: str) -> bool:
        """Whether it calls a function whose name begins so."""
        return any(call.function.startswith(prefixes) for call in of_kind(self.function, Apply))

    def ragged(self, per_block: int) -> bool:
        """Whether some set of shapes leaves a block partly filled."""
        return any(points % per_block for points in self.points)


Change = Callable[[Any], Any]  # of a node: what takes its place; None where it stays
Edit = Callable[[KernelSite], Function | None]  # of a kernel's function; None where it does not apply
Condition = Callable[[KernelSite], bool]


@dataclass(frozen=True)
class FaultContext:
    """A candidate to put a fault into. Choices are drawn from `random`, so they repeat."""

    candidate: Candidate
    random: Random

    def sites(self) -> list[KernelSite]:
        """The kernels in a seeded order."""
        sites = [self._site(emitted) for emitted in self.candidate.kernels]
        self.random.shuffle(sites)
        return sites

    def _site(self, emitted: EmittedKernel) -> KernelSite:
        hints = self.candidate.hints or ({},)
        kernel = emitted.kernel
        points = tuple(extent_hint(kernel.axes, sizes) for sizes in hints)
        inner = tuple(max(extent_hint(s.axes, sizes) for s in kernel.stages) for sizes in hints)
        return KernelSite(emitted, points, inner, emitted.threads[0])

    def values_of(self, text: str) -> tuple[int, ...] | None:
        """What a size's name or a number is in each set of shapes; None if it is neither."""
        if text.isdigit():
            return (int(text),) * max(1, len(self.candidate.hints))
        if all(text in sizes for sizes in self.candidate.hints) and self.candidate.hints:
            return tuple(sizes[text] for sizes in self.candidate.hints)
        return None

    def differ(self, one: str, other: str) -> bool:
        """Whether two sizes are known and differ in some set of shapes."""
        left, right = self.values_of(one), self.values_of(other)
        return left is not None and right is not None and left != right

    def with_functions(self, changed: Iterable[tuple[KernelSite, Function | None]]) -> Candidate | None:
        """The candidate with the functions of kernels exchanged; None where that changes nothing."""
        parts = self.candidate.parts
        for site, function in changed:
            if function is None or function == site.function or site.function not in parts:
                return None
            parts = tuple(function if part == site.function else part for part in parts)
        return self.with_parts(parts)

    def with_parts(self, parts: tuple[Part, ...]) -> Candidate | None:
        """The candidate with other parts; None where that changes nothing."""
        return replace(self.candidate, parts=parts) if parts != self.candidate.parts else None

    def in_some_kernel(self, edit: Edit, where: Condition = lambda site: True) -> Candidate | None:
        """The candidate with the first kernel changed that meets the condition and that the edit applies to."""
        sites = (site for site in self.sites() if where(site))
        return first(self.with_functions([(site, edit(site))]) for site in sites)

    def replace_node(self, change: Change, where: Condition = lambda site: True) -> Candidate | None:
        """One node replaced, chosen by the seed among those that the change applies to, in the first kernel that meets
        the condition and has one."""
        return self.in_some_kernel(lambda site: self.changed(site, change), where)

    def changed(self, site: KernelSite, change: Change) -> Function | None:
        """A kernel's function with one node of its body replaced; None if there is none that the change applies to."""
        body = self.somewhere(site.function.body, change)
        return None if body is None else replace(site.function, body=body)

    def somewhere(self, tree: Tree, change: Change) -> Tree | None:
        """A tree with one node replaced, chosen by the seed among those that the change applies to."""
        place = self.pick([number for number, node in enumerate(walk(tree)) if change(node) is not None])
        return None if place is None else replace_at(tree, place, change)

    def replace_first(self, change: Change) -> Candidate | None:
        """The first node of these replaced that the change applies to."""
        parts = self.candidate.parts
        place = next((number for number, node in enumerate(walk(parts)) if change(node) is not None), None)
        return None if place is None else self.with_parts(replace_at(parts, place, change))

    def replace_in_helper(self, old: str, new: str, *, last: bool = False) -> Candidate | None:
        """The candidate with the template of a device function changed: the first that has the text, or the last."""
        parts = list(self.candidate.parts)
        found = [place for place, part in enumerate(parts) if isinstance(part, str) and old in part]
        if not found:
            return None
        place = found[-1 if last else 0]
        parts[place] = str(parts[place]).replace(old, new, 1)
        return self.with_parts(tuple(parts))

    def with_launch(self, site: KernelSite, host: Launch) -> Candidate | None:
        """The candidate with the launch of a kernel exchanged; None where that changes nothing."""
        old = site.emitted.host
        return self.with_parts(rebuild(self.candidate.parts, lambda node: host if node == old else None))

    def pick(self, items: Sequence[Item]) -> Item | None:
        return self.random.choice(items) if items else None


def first(changed: Iterable[Candidate | None]) -> Candidate | None:
    """The first change that applied."""
    return next(filter(None, changed), None)
