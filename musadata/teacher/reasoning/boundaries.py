"""Step 5: what ends inside of a block or a tile at these sizes, and which guards follow."""

from musadata.teacher.reasoning.emitted_bounds import bound_kernel, bound_points, bound_results
from musadata.teacher.reasoning.kernel_plan import CallKind, count, read_calls
from musadata.teacher.reasoning.sentences import say
from musadata.teacher.reasoning.task_analysis import VARYING, TaskAnalysis, join, titled, unique

_MOST_PHASES = 4
_EVEN = "Blocks come out even: there is nothing to guard at these sizes."


def write_boundaries(analysis: TaskAnalysis) -> str:
    if analysis.told:
        texts: dict[str, str] = {}
        said: set[str] = set()
        for facts in analysis.told:  # of those that differ in names and figures alone, the first
            text = bound_kernel(facts)
            if text and VARYING.sub("", text) not in said:
                said.add(VARYING.sub("", text))
                texts[facts.name] = text
        parts = titled(texts) if len(analysis.facts) > 1 else list(texts.values())
        parts = parts or [text for facts in analysis.told[-1:] if (text := bound_results(facts))]
        parts += [" ".join(_of_calls(analysis))] if _of_calls(analysis) else []
        return "\n\n".join(parts) or _whole(analysis)
    twins = {fact.name: fact for fact in analysis.other.tensors}
    made = [(fact, twins.get(fact.name, fact)) for fact in analysis.outputs]
    points = [bound_points(count(fact), count(twin)) for fact, twin in made]
    return " ".join([*filter(None, unique(points)), *_of_calls(analysis)]) or _EVEN


def _whole(analysis: TaskAnalysis) -> str:
    """What is said where no thread is without work."""
    if all(facts.points_of_sets == (1, 1) for facts in analysis.told):
        return f"`{analysis.outputs[0].name}` is one point at every size: a second thread may not store it."
    return "Each point has a block of its own, or tiles come out even: there is nothing to guard at these sizes."


def _of_calls(analysis: TaskAnalysis) -> list[str]:
    """What bounds the places that single operators read."""
    return [*_transposed(analysis), *_clipped(analysis)]


def _transposed(analysis: TaskAnalysis) -> list[str]:
    """Which taps of a transposed convolution count, by the place of the output."""
    twins = {call.output.name: call for call in read_calls(analysis.other)}
    for call in analysis.calls:
        if not (call.kind is CallKind.CONVOLUTION and call.is_transposed):
            continue
        twin, texts = twins.get(call.output.name, call), {}
        for axis, taps in enumerate(call.weight.shape[2:], 2):
            names = ("stride", "padding", "dilation")
            stride, pad, dilation = (numbers[min(axis - 2, len(numbers) - 1)] for numbers in map(call.integers, names))
            size, other = call.source.shape[axis], twin.source.shape[axis]
            by_phase = [sum((o + pad - t * dilation) % stride == 0 for t in range(taps)) for o in range(stride)]
            counts = join([f"{number} for {place}" for place, number in enumerate(by_phase[:_MOST_PHASES])])
            told = {"axis": axis, "pad": pad, "dilation": dilation, "stride": stride, "size": size}
            texts[stride, pad, dilation, taps] = say(
                "transposed_places",
                **told,
                whole="whole, " if stride > 1 else "",
                other=f", {other} in set 2" if other != size else "",
                counts=f"; by o % {stride}, at most {counts} of the {taps} taps" if 1 < stride <= _MOST_PHASES else "",
            )
        return list(texts.values())[:2]
    return []


def _clipped(analysis: TaskAnalysis) -> list[str]:
    """Slices whose end lies beyond the axis in some sets of shapes and within it in others."""
    usual = {call.output.name: call for call in analysis.calls if call.packet == "slice"}
    for number, trace in enumerate(analysis.traces, 1):
        for call in read_calls(trace):
            first, end = usual.get(call.output.name), call.integers("end")
            if call.packet != "slice" or first is None or not end or not call.integers("dim"):
                continue
            axis, start = call.integers("dim")[0], (call.integers("start") or (0,))[0]
            size, before, left = call.source.shape[axis], first.output.shape[axis], call.output.shape[axis]
            if 0 <= start < size < end[0] <= first.source.shape[axis] and left == size - start:
                told = {"end": end[0], "out": call.output.name, "size": size, "number": number, "start": start}
                return [say("clipped_slice", **told, left=left, are="is" if left == 1 else "are", usual=before)]
    return []
