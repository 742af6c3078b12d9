"""Step 1: what the module computes, and which kernels share that in which parts."""

from collections import Counter

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.cpp import Printer
from musadata.compiler.lowering.fusion import Kernel
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.kernel_roles import MOST_NAMES, describe_kernels
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, claims_of, join, named, table, unique

_MOST_WEIGHTS = 8
_MOST_LAUNCHES = 4  # of a kernel that are told one by one


def write_decomposition(analysis: TaskAnalysis) -> str:
    if analysis.candidate is not None:  # its kernels read and make all that there is
        return _kernels(analysis, analysis.candidate)
    given = [fact for fact in analysis.trace.tensors if fact.role in ("input", "parameter")][:_MOST_WEIGHTS]
    inputs, outputs = (join([named(fact) for fact in facts]) for facts in (given, analysis.outputs))
    operators = join(unique([f"`{call.operator}`" for call in analysis.calls if not call.is_view]) or ["views"])
    claims = (claim for fact in (*given, *analysis.outputs) for claim in claims_of(fact)[:1])
    return analysis.state(f"{inputs} → {outputs}, by {operators}.", claims)


def _kernels(analysis: TaskAnalysis, candidate: Candidate) -> str:
    """The kernels of the answer, and what each fuses, launch by launch; of many launches of a kernel the first."""
    launches, met = Counter(facts.name for facts in analysis.facts), Counter[str]()
    told: list[KernelFacts] = []
    rows: list[list[str]] = []
    for facts, row in zip(analysis.facts, describe_kernels(analysis, candidate), strict=True):
        met[facts.name] += 1
        if met[facts.name] == 1 or launches[facts.name] <= _MOST_LAUNCHES:
            told.append(facts)
            rows.append([launch_of(facts.kernel, met[facts.name], launches[facts.name]), *row])
    text = table(["kernel", "operators", "reads", "makes"], rows)
    for line, facts in zip(text.splitlines()[2:], told, strict=True):
        analysis.state(line, _shapes(facts))
    return text


def launch_of(kernel: Kernel, number: int, launches: int) -> str:
    """A kernel's name, which of its launches is told, and how often it runs: `k`, launch 2 of 3, 12 times."""
    which = f"launch {number} of {launches}" if launches > 1 else ""
    text = Printer().index(kernel.steps.count).text if kernel.steps else ""
    often = f"{text if text.isdigit() else f'`{text}`'} times" if text else ""
    return ", ".join(filter(None, [f"`{kernel.name}`", which, often]))


def _shapes(facts: KernelFacts) -> list[str]:
    """What is claimed where the tensors are told that a kernel reads and makes."""
    read = [buffer for buffer in facts.kernel.inputs if buffer not in facts.kernel.outputs][:MOST_NAMES]
    told = [facts.known[buffer] for buffer in (*read, *facts.kernel.outputs) if buffer in facts.known]
    return [claims_of(fact)[0] for fact in told]
