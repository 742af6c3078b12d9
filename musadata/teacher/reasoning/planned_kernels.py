"""The kernels of a task's answers: which calls of the trace each of them does."""

from collections import Counter
from collections.abc import Iterable, Sequence

from musadata.teacher.compiler.emission.candidate import Candidate
from musadata.teacher.reasoning.kernel_plan import KNOWLEDGE, Call, Stage, is_light

# Names of one operator: what is traced on a CPU is not always what a graph is made of.
_SAME: dict[str, str] = {name: names.split()[0] for names in KNOWLEDGE["same"] for name in names.split()}


def stages_of_kernels(calls: Sequence[Call], candidate: Candidate) -> list[Stage]:
    """The calls of each kernel. A call that the lowering has taken apart goes with the call that reads it."""
    kernels = [emitted.kernel for emitted in candidate.kernels]
    owners = _owners(calls, candidate)
    stages = []
    for number, kernel in enumerate(kernels):
        mine = tuple(call for call, owner in zip(calls, owners, strict=True) if owner == number)
        if mine:
            stages.append(Stage(mine, next((call for call in mine if not is_light(call)), None), kernel.name))
    return stages


def _owners(calls: Sequence[Call], candidate: Candidate) -> list[int]:
    """For each call the number of its kernel: the first that computes its result, else that of its first reader."""
    makers: dict[str, int] = {}
    for number, emitted in enumerate(candidate.kernels):
        for node in emitted.kernel.nodes:
            makers.setdefault(node, number)
    places = _numbered(node.op.split(".")[0].rstrip("_") for node in candidate.graph.nodes)
    nodes = {place: node.name for place, node in zip(places, candidate.graph.nodes, strict=True)}
    owners = [makers.get(nodes.get(place, "")) for place in _numbered(call.packet for call in calls)]
    for index in reversed(range(len(calls))):
        if owners[index] is None:
            names = {fact.name for fact in calls[index].outputs}
            readers = [at for at in range(index + 1, len(calls)) if not names.isdisjoint(calls[at].names)]
            owners[index] = min((found for at in readers if (found := owners[at]) is not None), default=None)
    return [len(candidate.kernels) - 1 if owner is None else owner for owner in owners]


def _numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """Each operator, and how many of its kind there have been so far."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        plain = _SAME.get(name, name)
        seen[plain] += 1
        found.append((plain, seen[plain]))
    return found
