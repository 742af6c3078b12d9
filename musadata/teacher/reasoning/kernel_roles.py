"""Step 1 for kernels that are known: what each does of which operators, what it reads and stores, and for whom."""

from collections.abc import Sequence
from math import prod
from pathlib import Path

import yaml

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.ir.scalar import Buffer
from musadata.compiler.lowering.fusion import PARTS_AXIS, Reduce, Scan
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.planned_kernels import Share, shares_of
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, named, product_text, unique

MOST_NAMES, _MOST_READERS = 8, 3
_WORDS: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


def describe_kernels(analysis: TaskAnalysis, candidate: Candidate) -> list[list[str]]:
    """For each kernel what it does of the operators, reads and makes, and what becomes of that."""
    calls = analysis.calls
    rows = []
    for number, kernel in enumerate(analysis.facts):
        shares = shares_of(kernel.kernel, calls, candidate)
        reads, makes = _transfer(kernel)
        held = [f"in registers: {_few(made)}"] if (made := _held(kernel, shares)) else []
        roles = _roles(shares) or ("a copy" if kernel.copies else "")
        rows.append([roles, reads, "; ".join([makes, *held]), _readers(kernel, analysis.facts[number + 1 :])])
    return rows


def _roles(shares: Sequence[Share]) -> str:
    """What a kernel does of the operators: all of it, a first part, or the rest."""
    working = [share for share in shares if not share.call.is_idle]
    whole = unique([f"`{s.call.operator}`" for s in working if s.first and s.last])
    parts = [_few(whole)] if whole else []
    for share in working:
        if not share.last:
            made = join([f"`{buffer.name}`" for buffer in share.parts])
            parts.append(f"{'begins' if share.first else 'goes on with'} `{share.call.operator}` with {made}")
    rest = unique([f"`{s.call.operator}`" for s in working if s.last and not s.first])
    return ", ".join(unique([*parts, *([f"finishes {_few(rest)}"] if rest else [])]))


def _transfer(facts: KernelFacts) -> tuple[str, str]:
    """What it reads, and what it stores with the reductions on the way."""
    reads = [_tensor(buffer, facts) for buffer in facts.kernel.inputs if buffer not in facts.kernel.outputs]
    reduced = [stage for stage in facts.kernel.stages if isinstance(stage, (Reduce, Scan))]
    stored = {stage.buffer: f", {_reduction(stage, facts)}" for stage in reduced if stage.buffer is not None}
    inner = unique([_reduction(stage, facts) for stage in reduced if stage.buffer is None])
    results = [f"{_written(buffer, facts)}{stored.get(buffer, '')}" for buffer in facts.kernel.outputs]
    through = f", with {join(inner)}" if inner else ""
    return _few(reads) if reads else "nothing", f"{join(results)}{through}"


def _reduction(stage: Reduce | Scan, facts: KernelFacts) -> str:
    word = _WORDS["scans" if isinstance(stage, Scan) else "reductions"][stage.kind]
    extents = [extent for extent in facts.extents(stage.axes, facts.sizes) if extent != 1]
    pieces = facts.pieces
    if pieces is not None:
        most, parts = product_text(extents), facts.points(facts.sizes)
        if parts == 1:
            return f"{word} of all {pieces} values in one piece, for which blocks take up to {most}"
        return f"{parts} results, each {word} of a piece: the {pieces} values are cut after every {most}"
    if [axis.name for axis in stage.axes] == list(PARTS_AXIS):
        return f"{word} of the {'one piece' if not extents else 'pieces'}"
    along = [f"`{axis.name}`" for axis in stage.axes]
    if facts.is_partial:
        parts = prod(facts.extents([axis for axis in facts.kernel.axes if axis.name in PARTS_AXIS], facts.sizes))
        return (
            f"{word} along {join(along)}, in {parts} parts" if parts > 1 else f"{word} along {join(along)}, in one part"
        )
    return f"{word} along {join(along)}" if along else word


def _written(buffer: Buffer, facts: KernelFacts) -> str:
    text, fact = _tensor(buffer, facts), facts.known.get(buffer)
    return text if fact is None or fact.name.replace(".", "_") == buffer.name else f"{text}, stored as `{buffer.name}`"


def _tensor(buffer: Buffer, facts: KernelFacts) -> str:
    """A buffer by the trace's name and shape; one that the trace does not know by its own."""
    return named(facts.known[buffer]) if buffer in facts.known else f"`{buffer.name}` {facts.shape(buffer)}"


def _held(facts: KernelFacts, shares: Sequence[Share]) -> list[str]:
    """What it computes for itself alone."""
    stored = {buffer.name for buffer in facts.kernel.outputs}
    made = [share.call.output for share in shares if share.last and not share.call.is_idle]
    return unique([f"`{fact.name}`" for fact in made[:-1] if fact.role == "intermediate" and fact.name not in stored])


def _readers(facts: KernelFacts, later: Sequence[KernelFacts]) -> str:
    """Which kernels read what it stores, and what each does with it."""
    reasons = {
        f"`{reader.name}` {_reason(buffer, facts, reader)}": None
        for reader in later
        for buffer in facts.kernel.outputs
        if buffer in reader.kernel.inputs
    }
    return "; ".join([*reasons][:_MOST_READERS])


def _reason(buffer: Buffer, facts: KernelFacts, reader: KernelFacts) -> str:
    """What a kernel does with a buffer that another one fills."""
    reducing = [stage for stage in reader.kernel.reductions if any(load.buffer is buffer for load in stage.value.loads)]
    if any(tuple(axis.name for axis in stage.axes) == PARTS_AXIS for stage in reducing):
        return "joins what all blocks have stored"
    times = reader.times_read(buffer)
    if times >= 1.5:
        return "needs elements for several results"
    if reducing and reader.pieces is not None:
        return "goes through all of it"
    if reducing:
        extents = reader.extents(reducing[0].axes, reader.sizes)
        return f"combines {product_text([extent for extent in extents if extent != 1] or [1])} for each result"
    if times < 1:
        total = prod(facts.shape(buffer))
        return f"takes {round(times * total)} of the {total} elements"
    between = [b for b in reader.kernel.inputs if b.role == "temporary" and b not in facts.kernel.outputs]
    return f"takes it with `{reader.name_of(between[0])}`" if between else "reads it"


def _few(names: Sequence[str]) -> str:
    return join([*names[:MOST_NAMES], "others"] if len(names) > MOST_NAMES else list(names))
