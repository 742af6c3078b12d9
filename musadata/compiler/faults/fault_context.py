"""What a fault is inserted into: a candidate, its kernels with their sizes, and a seeded random choice."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, TypeVar

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.launch import EmittedKernel, HostLaunch
from musadata.compiler.emission.schedule_plan import extent_hint
from musadata.compiler.ir.code import Apply, Function, names_of, of_kind, replace_at, walk
from musadata.compiler.ir.printing import text_of

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
    def name(self) -> str:
        return self.emitted.kernel.name

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


Change = Callable[[Any], Any]  # of a node of a kernel: what takes its place; None where it stays
Edit = Callable[[KernelSite], Function | None]  # of a kernel's function; None where it does not apply
Condition = Callable[[KernelSite], bool]
Replacement = str | Callable[[re.Match[str]], str]  # of a match: a template, or a function


@dataclass(frozen=True)
class FaultContext:
    """A candidate to put a fault into. Choices are drawn from `random`, so they repeat.

    `reference` is the module that the candidate replaces; without it no fault can use what PyTorch would compute.
    """

    candidate: Candidate
    random: Random
    reference: str = ""

    @property
    def source(self) -> str:
        return self.candidate.source

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

    def with_functions(self, changed: Iterable[tuple[KernelSite, Function | None]]) -> str | None:
        """The candidate with the functions of kernels exchanged; None where that changes nothing."""
        source = self.source
        for site, function in changed:
            before = site.emitted.text
            if function is None or function == site.function or before not in source:
                return None
            source = source.replace(before, text_of(function, wide=site.emitted.wide), 1)
        return source if source != self.source else None

    def in_some_kernel(self, edit: Edit, where: Condition = lambda site: True) -> str | None:
        """The candidate with the first kernel changed that meets the condition and that the edit applies to."""
        sites = (site for site in self.sites() if where(site))
        return first(self.with_functions([(site, edit(site))]) for site in sites)

    def replace_node(self, change: Change, where: Condition = lambda site: True) -> str | None:
        """One node replaced, chosen by the seed among those that the change applies to, in the first kernel that meets
        the condition and has one."""
        return self.in_some_kernel(lambda site: self.changed(site, change), where)

    def changed(self, site: KernelSite, change: Change) -> Function | None:
        """A kernel's function with one node of its body replaced; None if there is none that the change applies to."""
        body = site.function.body
        place = self.pick([number for number, node in enumerate(walk(body)) if change(node) is not None])
        return None if place is None else replace(site.function, body=replace_at(body, place, change))

    def replace_in_helper(self, old: str, new: str, where: Condition) -> str | None:
        """The candidate with a device function changed, if some kernel meets the condition."""
        matters = any(where(site) for site in self.sites()) and old in self.source
        return self.source.replace(old, new, 1) if matters else None

    def with_launch(self, site: KernelSite, host: HostLaunch) -> str | None:
        """The candidate with the launch of a kernel exchanged; None where that changes nothing."""
        for margin in (" " * 4, " " * 8, " " * 12):  # in a function of its own, in a block, in a loop
            before, after = ("".join(f"\n{margin}{line}" for line in one.lines) for one in (site.emitted.host, host))
            if before in self.source and before != after:
                return self.source.replace(before, after, 1)
        return None

    def pick(self, items: Sequence[Item]) -> Item | None:
        return self.random.choice(items) if items else None

    def replace_one(
        self, text: str, pattern: str, new: Replacement, accepts: Callable[[re.Match[str]], bool] = bool
    ) -> str | None:
        """One of the accepted matches of a pattern replaced, chosen by the seed; None if there is none."""
        match = self.pick([match for match in re.finditer(pattern, text) if accepts(match)])
        if match is None:
            return None
        replacement = new(match) if callable(new) else match.expand(new)
        return text[: match.start()] + replacement + text[match.end() :]


def first(changed: Iterable[str | None]) -> str | None:
    """The first change that applied."""
    return next((source for source in changed if source), None)
