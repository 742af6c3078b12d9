"""Questions whose answers follow from a task's trace and an accepted program: each function computes one, or None."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2, prod
from random import Random

from musadata.records import Bound, QuestionTopic, TensorFact, Trace
from musadata.teacher.reasoning.kernel_plan import Call, CallKind, read_calls
from musadata.teacher.reasoning.task_analysis import group_row, row_of
from musadata.tracing.layout import is_contiguous, strides_of
from musadata.tracing.roofline import H100, itemsize, tensor_bytes, traffic, unit_of

WARP, SECTOR_BYTES = 32, 32
STATIC_SHARED_BYTES = 49152
SM_THREADS, SM_BLOCKS = 2048, 32  # of data-centre GPUs since Volta
_SUMS = re.compile(r"sum|mean|mm$|linear|conv|dot|norm|softmax|matmul")
_FEWEST_MOVED, _MOST_MOVED = 3, 8  # tensors whose bytes a question has added up
_MOST_DRAWS = 8  # of a place, until a question about it is not trivial
_BITS = {"float16": 11, "bfloat16": 8, "float64": 53}  # significant ones, the hidden one included


@dataclass(frozen=True)
class Subject:
    """What a question may be about. `cuda`: the CUDA C++ of an accepted candidate, "" for none."""

    trace: Trace
    cuda: str
    random: Random

    @cached_property
    def calls(self) -> list[Call]:
        return read_calls(self.trace)

    def pick_tensor(self, *, rank: int = 1, longest: int = 2) -> TensorFact | None:
        """Some tensor with so many axes of more than one element, and one of at least `longest`; those first that are
        not contiguous."""
        found = [
            one
            for one in self.trace.tensors
            if sum(size > 1 for size in one.shape) >= rank and max(one.shape, default=1) >= longest
        ]
        strided = [one for one in found if not is_contiguous(one)]
        return self.random.choice(strided or found) if found else None

    def pick_call(self, *kinds: CallKind) -> Call | None:
        found = [call for call in self.calls if call.kind in kinds]
        return self.random.choice(found) if found else None

    @cached_property
    def kernels(self) -> dict[str, str]:
        """The text of each kernel of the program by its name, its helpers not included."""
        found = {}
        for match in re.finditer(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", self.cuda):
            end = self.cuda.find("\n}\n", match.start())
            if end > 0:
                found[match[1]] = self.cuda[match.start() : end + 2]
        return found

    def launch(self, kernel: str) -> tuple[str, int] | None:
        """The text that launches a kernel, and its threads per block where that is a number."""
        place = self.cuda.find(f"{kernel}<<<")
        before = self.cuda[:place]
        declared = [*re.finditer(r"\b(?:const )?(?:int|dim3|auto) threads\b([^;]*);", before)]
        number = re.fullmatch(r" = (\d+)", declared[-1][1]) if declared else None
        if place < 0 or not number or not self.cuda[place:].startswith(f"{kernel}<<<blocks, threads,"):
            return None
        return self.cuda[declared[-1].start() : self.cuda.find(";", place) + 1], int(number[1])


@dataclass(frozen=True)
class Figures:
    """A question's facts, as text that goes with it, and the values of its wording. `about_kernel`: it quotes one."""

    facts: str
    values: dict[str, object]
    about_kernel: bool = False


def describe(*facts: TensorFact) -> str:
    """A line for each tensor. What it was made from is named where all of that has a line too."""
    listed = {fact.name for fact in facts}
    return "\n".join(_line(fact, listed.issuperset(fact.operands)) for fact in facts)


def _line(fact: TensorFact, is_traced: bool) -> str:
    made = f", made by `{fact.operator}`" if fact.operands else ""
    source = f" from {', '.join(fact.operands)}" if fact.operands and is_traced else ""
    given = f" with {fact.arguments}" if fact.operands and fact.arguments else ""
    layout = f"shape {fact.shape}, strides {fact.stride} in elements"
    return f"`{fact.name}`: {fact.role}, {fact.dtype}, {layout}{made}{source}{given}."


def _code(*texts: str) -> str:
    return "```cuda\n" + "\n\n".join(texts) + "\n```"


def storage_offset(subject: Subject) -> Figures | None:
    fact = subject.pick_tensor(rank=2)
    if fact is None:
        return None
    index = tuple(subject.random.randrange(1, size) if size > 1 else 0 for size in fact.shape)
    steps = list(zip(index, fact.stride, strict=True))
    total = sum(at * step for at, step in steps)
    usual = strides_of(fact.shape)
    layout = (
        f"`{fact.name}` is contiguous."
        if is_contiguous(fact)
        else f"It is not contiguous: then its strides were {usual}."
    )
    return Figures(
        describe(fact),
        {
            "name": fact.name,
            "index": str(list(index)),
            "sum": f"{' + '.join(f'{at} × {step}' for at, step in steps)} = {total}",
            "layout": layout,
        },
    )


def view_or_copy(subject: Subject) -> Figures | None:
    views = [call for call in subject.calls if call.kind is CallKind.VIEW and call.operands and call.output.shape]
    views = [call for call in views if call.packet not in ("clone", "contiguous", "reshape", "_unsafe_view")]
    if not views:
        return None
    call = subject.random.choice(views)
    fact = call.output
    verdict = (
        "It is contiguous, so the flat index is the offset."
        if is_contiguous(fact)
        else f"A contiguous tensor would have {strides_of(fact.shape)}, so a flat index is not the offset: the kernel "
        "takes it apart into coordinates and multiplies these by the strides, or the host makes a copy first."
    )
    values: dict[str, object] = {"operator": call.operator, "name": fact.name, "source": call.source.name}
    values |= {"shape": fact.shape, "stride": fact.stride, "verdict": verdict}
    return Figures(describe(call.source, fact), values)


def roofline(subject: Subject) -> Figures | None:
    trace = subject.trace
    moved = [fact for fact in trace.tensors if fact.role != "intermediate"]
    if not trace.flops or not _FEWEST_MOVED <= len(moved) <= _MOST_MOVED or traffic(moved) != trace.bytes:
        return None  # nothing to derive, a list that is too long to follow, or tensors that the trace does not show
    memory = trace.bound is Bound.MEMORY
    return Figures(
        f"{describe(*moved)}\nWork: {trace.flops} FLOPs. Least traffic: each of these tensors is moved once, whole.",
        {
            "flops": trace.flops,
            "bytes": trace.bytes,
            "sum": _sum_of_bytes(moved),
            "balance": H100.balance(unit_of(trace.tensors)),
            "intensity": f"{trace.flops / trace.bytes:.4g}",
            "relation": "not above" if memory else "above",
            "limit": "memory traffic" if memory else "arithmetic",
        },
    )


def _sum_of_bytes(facts: list[TensorFact]) -> str:
    """The elements of tensors, added for each size of an element: 4 × (800 + 100) + 8 × 16."""
    counts: dict[int, list[str]] = {}
    for fact in facts:
        counts.setdefault(itemsize(fact.dtype), []).append(str(prod(fact.shape)))
    texts = {size: some[0] if len(some) == 1 else f"({' + '.join(some)})" for size, some in counts.items()}
    return " + ".join(f"{size} × {text}" for size, text in texts.items())


def shared_memory(subject: Subject) -> Figures | None:
    fact = subject.pick_tensor()
    if fact is None:
        return None
    total = tensor_bytes(fact)
    row = total > STATIC_SHARED_BYTES and len(fact.shape) > 1 and subject.random.random() < 0.5
    number = fact.shape[-1] if row else prod(fact.shape)
    what = f"one row of `{fact.name}` (its last dimension)" if row else f"all of `{fact.name}`"
    total = number * itemsize(fact.dtype)
    fits = total <= STATIC_SHARED_BYTES
    return Figures(
        describe(fact),
        {
            "what": what,
            "what_capital": what[0].upper() + what[1:],
            "count": number,
            "size": itemsize(fact.dtype),
            "total": total,
            "relation": "not more than" if fits else "more than",
            "verdict": "it fits" if fits else "it does not fit and is worked on in tiles",
        },
    )


def coalescing(subject: Subject) -> Figures | None:
    fact = subject.pick_tensor(rank=2, longest=WARP)
    if fact is None:
        return None
    size, found = itemsize(fact.dtype), []
    best = -(-WARP * size // SECTOR_BYTES)
    for axis in [axis for axis, side in enumerate(fact.shape) if side >= WARP]:
        for _ in range(_MOST_DRAWS):
            place = [0 if one == axis else subject.random.randrange(side) for one, side in enumerate(fact.shape)]
            start = sum(at * step for at, step in zip(place, fact.stride, strict=True))
            sectors = len({(start + lane * fact.stride[axis]) * size // SECTOR_BYTES for lane in range(WARP)})
            if fact.stride[axis] != 1 or sectors != best:  # else there is nothing to think about
                found.append((axis, place, start, sectors))
                break
    if not found:
        return None
    axis, place, start, sectors = subject.random.choice(found)
    step = fact.stride[axis]
    verdict = "That is not coalesced; let lanes run along a dimension of stride 1."
    if not step:
        verdict = "All lanes read the same element, which one sector serves."
    if step == 1:
        verdict = "It starts inside of a sector, which costs one more; neighbours are coalesced all the same."
    elif step and sectors <= best:
        verdict = "That is coalesced."
    element = ", ".join("l" if one == axis else str(at) for one, at in enumerate(place))
    values: dict[str, object] = {"name": fact.name, "axis": axis, "element": f"{fact.name}[{element}]"}
    values |= {"start": start, "at": start * size, "stride": step, "size": size, "step": step * size}
    values |= {"lanes": WARP, "sectors": sectors, "best": best, "useful": WARP * size, "verdict": verdict}
    return Figures(describe(fact), values)


def launch_geometry(subject: Subject) -> Figures | None:
    outputs = [fact for fact in subject.trace.tensors if fact.role == "output"]
    grids = [(fact, size) for fact in outputs for size in (64, 128, 256, 512) if prod(fact.shape) % size]
    grids = [(fact, size) for fact, size in grids if prod(fact.shape) > size]
    if not grids:
        return None  # whole blocks are no question
    fact, block = subject.random.choice(grids)
    total = prod(fact.shape)
    blocks = -(-total // block)
    idle = blocks * block - total
    threads = "1 thread of the last block has" if idle == 1 else f"{idle} threads of the last block have"
    said = f"{threads} no element, so the guard `if (i < {total})` is needed."
    values = {
        "name": fact.name,
        "total": total,
        "block": block,
        "blocks": blocks,
        "started": blocks * block,
        "idle": said,
    }
    return Figures(describe(fact), values)


def row_per_warp(subject: Subject) -> Figures | None:
    call = subject.pick_call(CallKind.REDUCTION, CallKind.SOFTMAX)
    if call is None or not call.operands or not call.axes or re.search("loss|margin", call.packet):
        return None  # a loss goes through pairs, not along a row
    length = row_of(call)[1]
    if length < 2 or WARP // 2 < length <= WARP or length % WARP == 0:
        return None  # whole warps and one step of most lanes are no question
    steps = -(-length // WARP)
    last = length - (steps - 1) * WARP
    lanes = "1 lane" if last == 1 else f"{last} lanes"
    hint = "Then five shuffles combine the 32 partial results."
    if length < WARP:
        several = WARP // (1 << (length - 1).bit_length())
        hint = f"Most lanes are idle: {several} rows side by side in a warp, or a thread for each row, use it better."
    values = {"operator": call.operator, "name": call.source.name, "length": length, "last": lanes}
    values["steps"] = "1 step" if steps == 1 else f"{steps} steps"
    return Figures(describe(call.source, call.output), values | {"hint": hint})


def occupancy(subject: Subject) -> Figures | None:
    found = [(name, launch) for name in subject.kernels if (launch := subject.launch(name))]
    if not found:
        return None
    kernel, (text, threads) = subject.random.choice(found)
    by_threads = SM_THREADS // threads
    blocks = min(by_threads, SM_BLOCKS)
    is_full = blocks * threads == SM_THREADS
    hint = "Other blocks cannot raise it." if is_full else f"{SM_THREADS} is no multiple of {threads}."
    if threads * SM_BLOCKS < SM_THREADS:
        hint = f"Blocks of {SM_THREADS // SM_BLOCKS} threads would raise it to 100 %."
    return Figures(
        _code(text),
        {
            "kernel": kernel,
            "threads": threads,
            "by_threads": by_threads,
            "blocks": blocks,
            "resident": blocks * threads,
            "percent": f"{100 * blocks * threads / SM_THREADS:g}",
            "hint": hint,
        },
        True,
    )


def sum_error(subject: Subject) -> Figures | None:
    kinds = (CallKind.REDUCTION, CallKind.MATMUL, CallKind.NORMALIZATION, CallKind.SOFTMAX)
    calls = [call for call in subject.calls if call.kind in kinds and _SUMS.search(call.packet) and call.operands]
    calls = [call for call in calls if call.output.dtype == "float32" and not call.is_class_loss]
    calls = [call for call in calls if not re.search("batch_norm|scaled_dot", call.packet)]  # may add nothing, or twice
    lengths = [(call, length) for call in calls if (length := _terms(call)) >= WARP]
    if not lengths:
        return None
    call, length = subject.random.choice(lengths)
    depth = ceil(log2(length))
    facts = describe(*call.operands[:3], call.output)
    values = {"operator": call.operator, "name": call.output.name, "length": length, "depth": depth}
    errors = {"serial": f"{length * 2.0**-24:.2g}", "tree": f"{depth * 2.0**-24:.2g}"}
    return Figures(facts, values | errors)


def _terms(call: Call) -> int:
    """How many terms each of its sums has."""
    if call.kind is CallKind.MATMUL:
        return call.contracted
    return group_row(call)[1] if call.kind is CallKind.NORMALIZATION else row_of(call)[1]


def short_floats(subject: Subject) -> Figures | None:
    found = [fact for fact in subject.trace.tensors if fact.dtype in _BITS]
    if not found:
        return None
    fact = subject.random.choice(found)
    bits = _BITS[fact.dtype]
    advice = (
        "Sums of many terms belong in a float accumulator, which is rounded once at the end."
        if bits < 24
        else "Accumulate in double too: a float accumulator would lose what the inputs have."
    )
    return Figures(
        describe(fact), {"name": fact.name, "dtype": fact.dtype, "bits": bits, "fraction": bits - 1, "advice": advice}
    )


ASKED: dict[Callable[[Subject], Figures | None], QuestionTopic] = {
    storage_offset: QuestionTopic.TENSORS,
    view_or_copy: QuestionTopic.TENSORS,
    roofline: QuestionTopic.MEMORY,
    shared_memory: QuestionTopic.MEMORY,
    coalescing: QuestionTopic.COALESCING,
    launch_geometry: QuestionTopic.THREADS,
    row_per_warp: QuestionTopic.THREADS,
    occupancy: QuestionTopic.OCCUPANCY,
    sum_error: QuestionTopic.NUMERICS,
    short_floats: QuestionTopic.NUMERICS,
}
