"""The choice of a schedule for the kernel with the most work: what each way moves and waits for, and why one wins."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.emit import emit
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.emission.rowwise import can_share
from musadata.compiler.emission.schedule_costs import Cost, bytes_read, cost_of
from musadata.compiler.emission.schedule_plan import PLANS, choose
from musadata.compiler.ir.schedule import Bind, Combine, Schedule, Stage, Step, Stride, TensorCore, Tile, Unroll
from musadata.compiler.lowering.fusion import Kernel
from musadata.records import Trace
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, table
from musadata.tracing.roofline import BYTES, H100, Device, bytes_text, in_units, tensor_bytes, unit_of

_MOST_WAYS = 3
_MORE = 1.25  # times as much: what tells two ways apart
_EQUAL = 1.05  # times as long: no difference that such an estimate can tell


def expected_seconds(candidate: Candidate, sizes: Mapping[str, int], device: Device = H100) -> float:
    """How long an answer's kernels are expected to take together, those without a model aside, for comparison. Those of
    a recurrent layer run in each of its steps."""
    costs = ((emitted.kernel.steps, cost_of(emitted, sizes, device)) for emitted in candidate.kernels)
    return sum(cost.rank * (steps.count.evaluate(dict(sizes)) if steps else 1) for steps, cost in costs if cost)


def bound_seconds(candidate: Candidate, trace: Trace, sizes: Mapping[str, int], device: Device = H100) -> float:
    """Seconds that every program of the task needs at the least: for its outputs and what has to be read of its inputs
    and parameters at the bandwidth of memory, or for its FLOPs at the rate of the unit of its products."""
    loads = [load for one in candidate.kernels for stage in one.kernel.stages for load in stage.value.loads]
    read = bytes_read([load for load in loads if load.buffer.role in ("argument", "state")], sizes)
    moved = read + sum(tensor_bytes(fact) for fact in trace.tensors if fact.role == "output")
    return max(min(moved, trace.bytes) / device.bytes_per_second, trace.flops / device.rate(unit_of(trace.tensors)))


def describe_cost(emitted: EmittedKernel, sizes: Mapping[str, int]) -> dict[str, object]:
    """What is counted of a kernel, by the words for it."""
    told: dict[str, object] = {"kernel": emitted.kernel.name, "schedule": name_of(emitted)}
    if cost := cost_of(emitted, sizes, H100):
        told |= {"limit": cost.bound, "blocks": cost.blocks, "threads of a block": cost.threads}
        told |= {"memory": bytes_text(cost.moved), "L2": bytes_text(cost.fetched), "loads in turn": cost.rounds}
    return told


def write_choice(analysis: TaskAnalysis, *, defended: bool = False) -> str:
    """The table about the kernel that is expected to take longest; empty where its schedules do not differ, and if it
    is to be `defended` where none is expected to be slower, or another one is expected to be faster.

    It holds what follows from the code and the sizes: bytes, cache lines, loads in turn. Times are used to rank
    schedules and are not told, since they also depend on registers, which the compiler decides on.
    """
    costs = [(facts, cost) for facts in analysis.facts if (cost := cost_of(facts.way.emitted, facts.sizes, H100))]
    if not costs:
        return ""
    facts, taken = max(costs, key=lambda pair: pair[1].seconds)
    ways = _ways(facts, taken)
    if len(ways) < 2:
        return ""
    best = min(ways, key=lambda cost: cost.rank)
    slower = [cost for cost in ways if cost.seconds >= best.seconds * _EQUAL]
    if defended and (taken in slower or not slower):
        return ""
    others = [cost for cost in ways if cost is not best]
    compared = {id(cost): _reason(cost, best) if cost in slower else _likeness(cost, best) for cost in others}
    text = _table(f"`{facts.name}`", ways, compared)
    analysis.state(text.splitlines()[0], _traffic(facts, taken))
    verdict = say("choice_other", best=name_of(best.emitted)) if taken in slower else ""
    return "\n\n".join(filter(None, [text, verdict]))


def _traffic(facts: KernelFacts, cost: Cost) -> list[str]:
    """What is claimed where the bytes are told that a kernel has to move at least."""
    buffers = [buffer for buffer in (*facts.kernel.inputs, *facts.kernel.outputs) if buffer.role != "constant"]
    known = {facts.known[buffer].name: facts.known[buffer] for buffer in buffers if buffer in facts.known}
    if sum(map(tensor_bytes, known.values())) != cost.moved:
        return []  # it reads a part, or the trace has no name for a buffer
    size, unit = bytes_text(cost.moved).split()
    return [f"({' + '.join(f'nbytes({chr(34)}{name}{chr(34)})' for name in known)}) / {BYTES.get(unit, 1)} == {size}"]


def _ways(facts: KernelFacts, taken: Cost) -> list[Cost]:
    """The taken schedule and the nearest others that plans give at these sizes, each with another structure."""
    found, schedules = {_form(taken.emitted.schedule): taken}, list[Schedule]()
    for plan in PLANS:
        with suppress(AssertionError):
            schedules.append(choose(facts.kernel, plan, facts.sizes))
    for schedule in (*schedules, *plain_forms(facts.kernel)):
        with suppress(AssertionError):
            if _form(schedule) not in found and (cost := cost_of(emit(facts.kernel, schedule), facts.sizes, H100)):
                found[_form(schedule)] = cost
    others = sorted((cost for cost in found.values() if cost is not taken), key=lambda cost: cost.seconds)
    if len(others) >= _MOST_WAYS:  # the best, and the plainest for comparison
        others = [*others[: _MOST_WAYS - 2], others[-1]]
    return [taken, *others]


def _form(schedule: Schedule) -> object:
    """What makes it another way to work: going on to further points with the same threads does not."""
    tile = schedule.tile
    return tuple(step for step in schedule.steps if not isinstance(step, Stride)), tile


def plain_forms(kernel: Kernel) -> list[Schedule]:
    """The ways that a kernel can be written whatever its sizes: what plans are compared with."""
    if kernel.scans or kernel.attends:
        return []
    if not kernel.reductions and all(not store.axes for store in kernel.stores):
        forms: list[tuple[Step, ...]] = [(Bind("elements", "thread", 256),)]
        return [Schedule(steps) for steps in forms]
    forms = [(Bind("outputs", "thread", 128), Combine("inner", "thread"))]
    if can_share(kernel):
        forms.append((Bind("outputs", "warp", 4), Combine("inner", "shuffle")))
        forms.append((Bind("outputs", "block", 256), Combine("inner", "shuffle and tree")))
    return [Schedule(steps) for steps in forms]


def _table(title: str, ways: Sequence[Cost], compared: Mapping[int, str]) -> str:
    """Each schedule with its counts. The first is taken. `compared` are what the others have against the best one, by
    their identity."""
    heading = [title, "blocks × threads", f"memory, {bytes_text(ways[0].moved)}", "through L2", "lines a load touches"]
    heading += ["loads of a thread in turn", *(["FLOPs"] if ways[0].flops else []), "against the best"]
    rows: list[list[str]] = []
    for cost in ways:
        label = f"{name_of(cost.emitted)}{' (taken)' if cost is ways[0] else ''}"
        lines = str(cost.lines[0]) if cost.lines[1] else ""
        unit = [f"{in_units(cost.flops, 'FLOP')}, {cost.unit}"] if ways[0].flops else []
        counts = [f"{cost.blocks} × {cost.threads}", bytes_text(cost.moved), bytes_text(cost.fetched), lines]
        rows.append([label, *counts, str(cost.rounds), *unit, compared.get(id(cost), "")])
    return table(heading, rows)


def name_of(emitted: EmittedKernel) -> str:
    """A schedule's label, with the sides of its tile."""
    tile = emitted.schedule.find(Tile)
    return f"{emitted.schedule.label}, {tile.rows} × {tile.cols}" if tile else emitted.schedule.label


def _likeness(cost: Cost, best: Cost) -> str:
    """What limits a schedule whose counts do not make it slower than the best one."""
    return f"{cost.bound} limits both" if cost.bound == best.bound else f"{cost.bound} limits it, not {best.bound}"


def _reason(cost: Cost, best: Cost) -> str:
    """Why a schedule is not the best: of what there is more, that which takes longest, with figures."""
    lines, buffer = cost.lines
    own = cost.emitted.schedule.find(Unroll, "sums") or cost.emitted.schedule.find(TensorCore, "factors")
    facts: dict[str, object] = {
        "lines": lines,
        "buffer": buffer.name if buffer else "",
        "fetched": bytes_text(cost.fetched),
        "least": bytes_text(best.fetched),
        "moved": bytes_text(cost.moved),
        "blocks": "1 block does" if cost.blocks == 1 else f"{cost.blocks} blocks do",
        "rounds": f"{cost.rounds} load{'s' * (cost.rounds > 1)}",
        "words": f"{1 / own.rows + 1 / own.cols:.2g}" if own else "2",
        "flops": in_units(cost.flops, "FLOP"),
        "fewer": in_units(best.flops, "FLOP"),
    }
    is_idle, in_slices = cost.blocks < cost.device.multiprocessors, cost.emitted.schedule.find(Stage, "operands")
    reasons = {
        "memory": "memory" if cost.moved > _MORE * best.moved else "",
        "L2": "L2" if cost.fetched > _MORE * best.fetched else "",
        "L1": "lines" if lines > _MORE * best.lines[0] else "",
        "shared memory": "shared_memory",
        "atomics": "",
        "latency": "idle" if is_idle else "waiting" if cost.rounds > _MORE * best.rounds and not in_slices else "",
        "arithmetic": "beyond" if cost.flops > _EQUAL * best.flops else "idle" if is_idle else "arithmetic",
    }
    longest = sorted(cost.limits, key=lambda name: cost.limits[name], reverse=True)
    return say(f"choice_{next(reason for name in longest if (reason := reasons[name]))}", **facts)
