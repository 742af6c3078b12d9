"""What a fault is inserted into: a candidate, its kernels with their sizes, and a seeded random choice."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.schedule_plan import extent_hint

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
    def function(self) -> str:
        """The text of the `__global__` function."""
        return self.emitted.source[self.emitted.source.index("__global__") :].rstrip("\n")

    def ragged(self, per_block: int) -> bool:
        """Whether some set of shapes leaves a block partly filled."""
        return any(points % per_block for points in self.points)


Change = Callable[[str], str | None]  # of a kernel's text; None where it does not apply
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

    def in_kernel(self, site: KernelSite, change: Change) -> str | None:
        """The candidate with one kernel's function changed, or None where the change does not apply."""
        changed = change(site.function)
        if changed is None or changed == site.function or site.function not in self.source:
            return None
        return self.source.replace(site.function, changed, 1)

    def in_some_kernel(self, change: Change, where: Condition = lambda site: True) -> str | None:
        """The candidate with the first kernel changed that meets the condition and that the change applies to."""
        return first(self.in_kernel(site, change) for site in self.sites() if where(site))

    def replace_in_kernel(
        self,
        pattern: str,
        new: Replacement,
        where: Condition = lambda site: True,
        accepts: Callable[[re.Match[str]], bool] = bool,
    ) -> str | None:
        """One accepted match of a pattern replaced, in the first kernel that meets the condition and has one."""
        return self.in_some_kernel(lambda text: self.replace_one(text, pattern, new, accepts), where)

    def replace_in_helper(self, old: str, new: str, where: Condition) -> str | None:
        """The candidate with a device function changed, if some kernel meets the condition."""
        matters = any(where(site) for site in self.sites()) and old in self.source
        return self.source.replace(old, new, 1) if matters else None

    def in_launch(self, site: KernelSite, old: str, new: str) -> str | None:
        """The candidate with something in a kernel's launch changed."""
        call = self.source.find(f"{site.name}<<<")
        start = self.source.rfind(site.emitted.launch[0], 0, call)
        end = self.source.find("C10_CUDA_KERNEL_LAUNCH_CHECK", call)
        if not 0 <= start < call < end or old not in self.source[start:end]:
            return None
        return self.source[:start] + self.source[start:end].replace(old, new, 1) + self.source[end:]

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
