"""Step 3: the shapes that kernels make, from which sizes, and how many steps, FLOPs and bytes that takes."""

from math import prod

from musadata.compiler.ir.scalar import Buffer
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.task_analysis import (
    TaskAnalysis,
    claims_of,
    claims_of_work,
    elements_text,
    named,
    product_text,
    table,
)
from musadata.tracing.roofline import moved_bytes, tensor_bytes

_MOST_MOVED = 6


def write_sizes(analysis: TaskAnalysis) -> str:
    made = [(facts, buffer) for facts in analysis.told for buffer in facts.kernel.outputs]
    rows = [(_row(facts, buffer), facts.known.get(buffer)) for facts, buffer in made]
    if not rows:
        lines = [(f"- {named(fact)}: {elements_text(fact)}.", fact) for fact in analysis.outputs]
        text = "\n".join(line for line, _ in lines)
    else:
        text = table(["kernel", "makes", "elements", "steps for each"], [row for row, _ in rows])
        lines = [(line, fact) for line, (_, fact) in zip(text.splitlines()[2:], rows, strict=True) if fact]
    for line, fact in lines:
        if fact.shape:  # a single number has no figure
            analysis.state(line, claims_of(fact))
    return f"{text}\n\n{_totals(analysis)}"


def _row(facts: KernelFacts, buffer: Buffer) -> list[str]:
    shape = facts.shape(buffer)
    made = f"`{facts.name_of(buffer)}` {shape or '(a single number)'}"
    steps = [
        prod(facts.extents(stage.axes, facts.sizes)) for stage in facts.kernel.reductions if stage.kind != "attention"
    ]
    return [f"`{facts.name}`", "; ".join([made, *_derived(facts, buffer)]), product_text(shape), _steps(steps)]


def _steps(steps: list[int]) -> str:
    return " + ".join(map(str, steps)) if any(step > 1 for step in steps) else ""


def _derived(facts: KernelFacts, buffer: Buffer) -> list[str]:
    """Sides that are worked out from others, with their formulas."""
    sides = {str(facts.printer.index(size)): size.evaluate(facts.sizes) for size in buffer.shape}
    return [f"{side} = `{text}`" for text, side in sides.items() if not (text.isdigit() or text.isidentifier())]


def _totals(analysis: TaskAnalysis) -> str:
    """Bytes and FLOPs at the first size."""
    trace = analysis.trace
    moved = [fact for fact in trace.tensors if fact.role != "intermediate"]
    parts = f"{trace.bytes} bytes in all"
    if 1 < len(moved) <= _MOST_MOVED:
        each = (f"{moved_bytes(fact, trace.tensors)} (`{fact.name}`)" for fact in moved)
        parts = f"{' + '.join(each)} = {trace.bytes} bytes"
    ratio = f"{trace.intensity:#.4g}"
    claims = [*claims_of_work(trace), f"intensity() == {ratio}"]
    claims += [f'nbytes("{fact.name}") == {tensor_bytes(fact)}' for fact in moved if len(moved) <= _MOST_MOVED]
    return analysis.state(f"{trace.flops} FLOPs, and at least {parts}: {ratio} FLOPs per byte.", claims)
