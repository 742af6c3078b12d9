"""Step 6: mistakes that the tiles and places of this answer's kernels invite, and how each would show.

What goes wrong with an operator anywhere (a softmax without its maximum, ties, a transposed operand) is not told:
models know it.
"""

from collections.abc import Iterator
from math import prod

from musadata.compiler.ir.code import Binary, Expression, Group, walk
from musadata.teacher.reasoning.calls import count
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import VARYING, TaskAnalysis, claims_of, elements_text

_MOST = 7


def write_pitfalls(analysis: TaskAnalysis) -> str:
    kinds: dict[str, str] = {}  # of several that differ in names and figures alone, the first is enough
    for text in (*(text for facts in analysis.told for text in _of_kernel(facts)), *_of_task(analysis)):
        kinds.setdefault(VARYING.sub("", text), text)
    return "\n".join(f"- {text}" for text in [*kinds.values()][:_MOST]) or (_of_offsets(analysis))


def _of_kernel(facts: KernelFacts) -> Iterator[str]:
    """What goes wrong with the tiles that its schedule has, and with places that go round."""
    for one in facts.reads:
        if found := _wrapped(one.element):
            place, size, before = found
            yield say("wrapped_place", place=place, size=size, before=before)
    stage, tile = next(iter(facts.kernel.reductions), None), facts.way.schedule.tile
    if facts.kernel.attends:
        yield say("attention_rescaling", kernel=facts.name)
    elif stage is not None and tile and tile[2] > 1 and not any(axis.extent.variables for axis in stage.axes):
        inner = prod(facts.extents(stage.axes, facts.sizes))
        if rest := inner % tile[2]:
            yield say("ragged_product", inner=inner, depth=tile[2], kernel=facts.name, rest=rest)
    width = facts.way.vector if facts.is_flat else 1
    row = (facts.shape(facts.writes[0].buffer) or (1,))[-1]
    if width > 1 and row > 1 and row % width:
        yield say("vector_rows", row=row, width=width)


def _wrapped(element: Expression) -> tuple[Expression, Expression, Expression] | None:
    """A place that goes round: `(place + size - before) % size`."""
    for node in walk(element):
        match node:
            case Binary(Group(Binary(Binary(place, "+", size), "-", before)), "%", around) | Binary(
                Binary(Binary(place, "+", size), "-", before), "%", around
            ) if size == around:
                return place, size, before
    return None


def _of_task(analysis: TaskAnalysis) -> list[str]:
    dtype = analysis.outputs[0].dtype
    return [say("output_type", dtype=dtype)] if dtype != "float32" else []


def _of_offsets(analysis: TaskAnalysis) -> str:
    """Whether positions over whole tensors fit the type that they usually have."""
    largest = max(analysis.trace.tensors, key=count)
    fits = "fit an `int`" if count(largest) < 2**31 else "overflow an `int`"
    text = f"Flat positions {fits}: the largest tensor, `{largest.name}`, has {elements_text(largest)}."
    return analysis.state(text, claims_of(largest)[1:])
