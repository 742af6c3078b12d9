"""Step 1: what the module computes, and which kernels share that in which parts."""

from collections import defaultdict
from collections.abc import Sequence

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.kernel_roles import MOST_NAMES, describe_kernels
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, claims_of, join, named, table, unique

_MOST_WEIGHTS = 8


def write_decomposition(analysis: TaskAnalysis) -> str:
    if analysis.candidate is not None:  # its kernels read and make all that there is
        return _kernels(analysis, analysis.candidate)
    given = [fact for fact in analysis.trace.tensors if fact.role in ("input", "parameter")][:_MOST_WEIGHTS]
    inputs, outputs = (join([named(fact) for fact in facts]) for facts in (given, analysis.outputs))
    operators = join(unique([f"`{call.operator}`" for call in analysis.calls if not call.is_view]) or ["views"])
    claims = (claim for fact in (*given, *analysis.outputs) for claim in claims_of(fact)[:1])
    return analysis.state(f"{inputs} → {outputs}, by {operators}.", claims)


def _kernels(analysis: TaskAnalysis, candidate: Candidate) -> str:
    """The kernels of the answer, and what each fuses."""
    again = repeated_launches(candidate.kernels)
    rows: dict[str, tuple[KernelFacts, list[str]]] = {}
    for facts, row in zip(analysis.facts, describe_kernels(analysis, candidate), strict=True):
        often = f", {again[facts.name]}" if facts.name in again else ""
        rows.setdefault(facts.name, (facts, [f"`{facts.name}`{often}", *row]))  # of several launches the first
    text = table(["kernel", "operators", "reads", "makes"], [row for _, row in rows.values()])
    for line, (facts, _) in zip(text.splitlines()[2:], rows.values(), strict=True):
        analysis.state(line, _shapes(facts))
    return text


def repeated_launches(kernels: Sequence[EmittedKernel]) -> dict[str, str]:
    """How often the host launches those kernels that it launches more than once, by name: `12 times`."""
    total: defaultdict[str, Index] = defaultdict(lambda: ZERO)
    for emitted in kernels:
        total[emitted.kernel.name] += emitted.kernel.steps.count if emitted.kernel.steps else ONE
    texts = {name: Printer().index(count).text for name, count in total.items() if count != ONE}
    return {name: f"{text if text.isdigit() else f'`{text}`'} times" for name, text in texts.items()}


def _shapes(facts: KernelFacts) -> list[str]:
    """What is claimed where the tensors are told that a kernel reads and makes."""
    read = [buffer for buffer in facts.kernel.inputs if buffer not in facts.kernel.outputs][:MOST_NAMES]
    told = [facts.known[buffer] for buffer in (*read, *facts.kernel.outputs) if buffer in facts.known]
    return [claims_of(fact)[0] for fact in told]
