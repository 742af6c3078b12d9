"""The kernels of a task's answers: which calls of the trace each of them does, alone or as one of several."""

from collections.abc import Sequence
from dataclasses import dataclass

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.ir.scalar import Buffer
from musadata.compiler.lowering.fusion import Kernel
from musadata.operators import column
from musadata.teacher.reasoning.calls import Call, is_view


@dataclass(frozen=True)
class Share:
    """What a kernel does of a call: all of it, or one part of several, which leaves `parts` for the kernels after it.

    Attributes:
        first: no kernel before it does a part of the call.
        last: no kernel after it does; the result of the call is its own.
        parts: what it stores for the kernels that do the rest.
    """

    call: Call
    first: bool = True
    last: bool = True
    parts: tuple[Buffer, ...] = ()


def shares_of(kernel: Kernel, calls: Sequence[Call], candidate: Candidate) -> list[Share]:
    """What a kernel does of each call that it has a part in; nothing where the trace repeats the steps of a layer,
    which the graph has once."""
    kernels = [emitted.kernel for emitted in candidate.kernels]
    if any(other.steps for other in kernels):
        return []
    number = next(place for place, other in enumerate(kernels) if other is kernel)
    found = []
    owners = _owners(calls, candidate)
    for call, nodes, owner in zip(calls, nodes_of_calls(calls, candidate), owners, strict=True):
        together = [other for other in kernels if not nodes.isdisjoint(other.nodes)]
        if not together and owner == number and not call.is_view:  # a part of what reads it
            found.append(Share(call))
        if kernel not in together:
            continue
        later = together[together.index(kernel) + 1 :]
        parts = _handed_on(kernel, later, nodes)
        begun = any(kernel in together and _handed_on(other, [kernel], nodes) for other in _before(together, kernel))
        found.append(Share(call, not begun, not parts, parts))
    return found


def _before(kernels: Sequence[Kernel], kernel: Kernel) -> Sequence[Kernel]:
    return kernels[: kernels.index(kernel)]


def _handed_on(kernel: Kernel, later: Sequence[Kernel], nodes: frozenset[str]) -> tuple[Buffer, ...]:
    """What a kernel stores of some nodes for later kernels that go on with them."""
    return tuple(
        buffer for buffer in kernel.outputs if buffer.node in nodes and any(buffer in other.inputs for other in later)
    )


def nodes_of_calls(calls: Sequence[Call], candidate: Candidate) -> list[frozenset[str]]:
    """The graph's nodes of each call, both in the order of dispatch. A call that the graph has taken apart has the
    nodes between those of the calls around it."""
    working = [number for number, call in enumerate(calls) if not call.is_view]
    nodes = [(node.name, _plain(node.op.split(".")[0])) for node in candidate.graph.nodes]
    nodes = [(name, operator) for name, operator in nodes if not is_view(operator)]
    found: list[set[str]] = [set() for _ in calls]
    pairs = _common([_plain(calls[number].packet) for number in working], [operator for _, operator in nodes])
    last, end = 0, 0
    for call, node in [*pairs, (len(working), len(nodes))]:
        for place in range(end, node) if call > last else ():  # what differs between two that agree
            ahead = (place - end) * (call - last) // (node - end)
            found[working[last + ahead]].add(nodes[place][0])
        if call < len(working):
            found[working[call]].add(nodes[node][0])
        last, end = call + 1, node + 1
    return [frozenset(names) for names in found]


def _common(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence."""
    longest = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in reversed(range(len(one))):
        for j in reversed(range(len(other))):
            same = longest[i + 1][j + 1] + 1 if one[i] == other[j] else 0
            longest[i][j] = max(same, longest[i + 1][j], longest[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        if one[i] == other[j] and longest[i][j] == longest[i + 1][j + 1] + 1:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _plain(name: str) -> str:
    """The name under which an operator counts: what is traced on a CPU is not always what a graph is made of."""
    name = name.rstrip("_")
    return str(column("same").get(name, name))


def _owners(calls: Sequence[Call], candidate: Candidate) -> list[int]:
    """For each call the number of its kernel: the last that computes a part of it, else that of its first reader."""
    kernels = [emitted.kernel for emitted in candidate.kernels]
    owners: list[int | None] = []
    for nodes in nodes_of_calls(calls, candidate):
        makers = [number for number, kernel in enumerate(kernels) if not nodes.isdisjoint(kernel.nodes)]
        ends = [at for at in makers if not _handed_on(kernels[at], [kernels[n] for n in makers if n > at], nodes)]
        owners.append(ends[0] if ends else None)
    for index in reversed(range(len(calls))):
        if owners[index] is None:
            names = {fact.name for fact in calls[index].outputs}
            readers = [at for at in range(index + 1, len(calls)) if not names.isdisjoint(calls[at].names)]
            owners[index] = min((found for at in readers if (found := owners[at]) is not None), default=None)
    return [len(kernels) - 1 if owner is None else owner for owner in owners]
