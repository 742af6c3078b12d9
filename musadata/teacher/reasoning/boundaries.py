"""Step 5: what ends inside of a block or a tile at these sizes, and which guards follow."""

from musadata.teacher.reasoning.emitted_bounds import bound_kernel, bound_points, bound_results
from musadata.teacher.reasoning.kernel_plan import count
from musadata.teacher.reasoning.task_analysis import VARYING, TaskAnalysis, titled, unique


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
        return "\n\n".join(parts) or _one_thread(analysis)
    twins = {fact.name: fact for fact in analysis.other.tensors}
    made = [(fact, twins.get(fact.name, fact)) for fact in analysis.outputs]
    return " ".join(unique([bound_points(count(fact), count(twin), fact.name) for fact, twin in made]))


def _one_thread(analysis: TaskAnalysis) -> str:
    return f"`{analysis.outputs[0].name}` is one point in every set of shapes: a second thread may not store it."
