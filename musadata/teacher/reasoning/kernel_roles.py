"""Step 1 for kernels that are known: what each does of which operators, what it reads and what it stores."""

from collections.abc import Sequence

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.ir.scalar import Buffer
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.planned_kernels import Share, shares_of
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, named, unique

MOST_NAMES = 8


def describe_kernels(analysis: TaskAnalysis, candidate: Candidate) -> list[list[str]]:
    """For each kernel what it does of the operators, reads and makes."""
    rows = []
    for facts in analysis.facts:
        shares, kernel = shares_of(facts.kernel, analysis.calls, candidate), facts.kernel
        reads = [_tensor(buffer, facts) for buffer in kernel.inputs if buffer not in kernel.outputs]
        makes = join([_written(buffer, facts) for buffer in kernel.outputs])
        held = f"; in registers: {_few(made)}" if (made := _held(facts, shares)) else ""
        roles = _roles(shares) or ("a copy" if facts.copies else _operators(facts, candidate))
        rows.append([roles, _few(reads) if reads else "nothing", f"{makes}{held}"])
    return rows


def _operators(facts: KernelFacts, candidate: Candidate) -> str:
    """The operators of the graph whose results a kernel has a part in."""
    nodes = (node for node in candidate.graph.nodes if node.name in facts.kernel.nodes)
    return join(unique([f"`{node.op.split('.')[0]}`" for node in nodes]) or ["a copy"])


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


def _few(names: Sequence[str]) -> str:
    return join([*names[:MOST_NAMES], "others"] if len(names) > MOST_NAMES else list(names))
