"""The schedule in which the answer launches a kernel, with its grid at the sizes of a trace and its own index lines."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.ir.schedule import Schedule, Split, Vectorise
from musadata.records import Trace
from musadata.teacher.claims.launches import Launch, find_launches

_HELD = re.compile(r"float \w+_row\w*\[(\d+)\];")
_BODY = re.compile(r"__global__ void [^{]*\) \{\n(.*?)\n\}\n", re.DOTALL)
_LINE = re.compile(r"^( {4}| {8})(?:const (?:int|int64_t) (\w+ = [^;]+);|(for \([^{]*\)) \{)", re.MULTILINE)
_GUARD = re.compile(r"^    if \(([^{};]*)\) return;", re.MULTILINE)
_GRID = ("blockIdx", "threadIdx", "lane", "step", "warp")


@dataclass(frozen=True)
class Way:
    """The schedule of a kernel, with its launches at the first and at the second set of shapes. None are known where
    the device decides the number of blocks, or where kernels share code, whose names mean something else in each."""

    emitted: EmittedKernel
    launches: tuple[Launch, Launch] | None

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

    @cached_property
    def held(self) -> int:
        """How many elements of a row a thread has in registers at a time; 0 if it holds none."""
        match = _HELD.search(self.emitted.source)
        return int(match[1]) if match else 0

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
        """The condition under which a thread leaves, as the kernel has it; empty if it has none."""
        match = _GUARD.search(self._body)
        return match[1] if match else ""

    @cached_property
    def _body(self) -> str:
        match = None if _shares_code(self.emitted) else _BODY.search(self.emitted.source)
        return match[1] if match else ""

    def places(self) -> list[str]:
        """The lines by which a thread finds its place in the grid and from that its point, as the kernel has them."""
        found: list[str] = []
        known, inside = list(_GRID), False
        for margin, line, loop in _LINE.findall(self._body):
            if len(margin) == 4 or inside:
                text = loop or line
                begins = re.search(r"= [^;]*\b(blockIdx|gridDim)", text) if loop else None
                if loop:
                    inside = bool(begins) if len(margin) == 4 else inside
                if begins or (line and _is_place(line.partition(" = ")[2], known)):
                    found.append(text)
                    known += [line.partition(" ")[0]] if line else [text.split()[2]]
        return found

    def loads(self, name: str) -> tuple[list[str], list[str]]:
        """The loads from a buffer as the kernel has them, and the lines that define the integers in them."""
        found = list(dict.fromkeys(re.findall(rf"\b{name}\[[^\[\]]*\]", self._body)))
        names = dict.fromkeys(re.findall(r"\w+", " ".join(found)))
        lines = (re.search(rf"const int ({name} = [^;]+);", self._body) for name in names)
        places = self.places()
        return found, [match[1] for match in lines if match and match[1] not in places]

    def steps(self) -> list[str]:
        """The heads of the loops that threads share, each once."""
        loops = dict.fromkeys(loop for _, _, loop in _LINE.findall(self._body))
        return [loop for loop in loops if re.search(r"= (lane|threadIdx\.\w|member)\b", loop)]


def _is_place(formula: str, known: Sequence[str]) -> bool:
    """Whether a formula is arithmetic with what is known of a thread's place, and no other name for that."""
    return "[" not in formula and formula not in known and any(re.search(rf"\b{name}\b", formula) for name in known)


def ways_of(candidate: Candidate, *sets: tuple[Trace, Mapping[str, int]]) -> list[Way]:
    """The schedule of each kernel of an answer, at two sets of shapes, with their named sizes."""
    one, other = (_first_launches(candidate, trace, sizes) for trace, sizes in sets)
    ways = []
    for emitted in candidate.kernels:
        name = emitted.kernel.name
        is_known = name in one and name in other and not _shares_code(emitted)
        ways.append(Way(emitted, (one[name], other[name]) if is_known else None))
    return ways


def _shares_code(emitted: EmittedKernel) -> bool:
    """Whether a function of the host launches it for several others as well."""
    return ", stream()>>>" in "".join(emitted.launch)


def _first_launches(candidate: Candidate, trace: Trace, sizes: Mapping[str, int]) -> dict[str, Launch]:
    """The first launch of each kernel, by its name."""
    return {launch.kernel: launch for launch in reversed(find_launches(candidate.source, trace, sizes))}
