"""Step 2: the formulas of what each kernel computes at a point of its loops, read off its stages."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from musadata.compiler.emission.cpp import Printer, device_function
from musadata.compiler.ir.code import Expression, Listed, Name, code
from musadata.compiler.ir.index_formulas import Variable
from musadata.compiler.ir.scalar import (
    MATH_FUNCTIONS,
    Added,
    Among,
    Attended,
    Buffer,
    Cast,
    Choose,
    Literal,
    Load,
    Local,
    Named,
    Scalar,
)
from musadata.compiler.lowering.fusion import LOG_SUM, Reduce, Scan, Stage
from musadata.teacher.reasoning.kernel_facts import KernelFacts
from musadata.teacher.reasoning.task_analysis import TaskAnalysis, join, table

_LONGEST, _MOST_LINES, _MOST_CALLS = 240, 8, 12
_SIGNS = {"sum": "Σ", "prod": "Π", "fast_max": "max", "any": "any", "all": "all"}  # others go by their own names
_SINGLE = re.compile(rf"\b({'|'.join((*MATH_FUNCTIONS, 'pow', 'fmax', 'fmin', 'fabs', 'fmod'))})f\(|(?<=\d)f\b")


def write_mathematics(analysis: TaskAnalysis) -> str:
    if not analysis.told:
        return _calls(analysis)
    formulas = [(facts, _formulas(facts)) for facts in analysis.told]
    paragraphs = []
    for facts, lines in formulas:
        heading = [f"`{facts.name}`:", ""] if len(formulas) > 1 else []
        paragraphs.append("\n".join([*heading, *(f"- {line}" for line in lines)]))
    return "\n\n".join([*paragraphs, *_sizes(formulas), *_precision(analysis)])


def _sizes(formulas: Sequence[tuple[KernelFacts, Sequence[str]]]) -> list[str]:
    """The named sizes that formulas and places use, in both sets of shapes."""
    texts = [line for _, lines in formulas for line in lines]
    texts += [access.text for facts, _ in formulas for access in (*facts.reads, *facts.writes)]
    texts += [text for facts, _ in formulas for text in facts.coordinates()]
    words = set(re.findall(r"\w+", " ".join(texts)))
    first, other = formulas[0][0].sizes, formulas[0][0].other
    rows = [[f"`{name}`", str(first[name]), str(other[name])] for name in first if name in words]
    return [table(["size", "declared", "set 2"], rows)] if rows else []


def _calls(analysis: TaskAnalysis) -> str:
    """The operators in order, where no kernel is known."""
    told = [call for call in analysis.calls if not call.is_view][:_MOST_CALLS] or analysis.calls[:1]
    made = [(call.output.name, call.operator, [*call.names, *filter(None, [call.arguments])]) for call in told]
    return "\n".join(f"- `{name}` = `{operator}({', '.join(read)})`" for name, operator, read in made)


def _precision(analysis: TaskAnalysis) -> list[str]:
    """How half types are computed; empty where there are none."""
    dtype = analysis.outputs[0].dtype
    is_half = dtype in ("float16", "bfloat16")
    return [f"The result is {dtype}. Load as {dtype}, compute in float, round once at the store."] if is_half else []


@dataclass
class _Notation(Printer):
    """Writes scalars with elements in coordinates, by the names that the trace has for tensors."""

    names: dict[Buffer, str] = field(default_factory=dict)

    def load(self, value: Load) -> Expression:
        return self.element(value.buffer, value.index)

    def element(self, buffer: Buffer, index: Sequence[object]) -> Expression:
        places = tuple(self.index(one) for one in index)  # type: ignore[arg-type]
        return Name(self.names.get(buffer, buffer.name))[Listed(places or (code(0),))]

    def scalar(self, value: Scalar) -> Expression:
        """Types that a value passes through on its way are left out, but for integers, which cut it off."""
        if isinstance(value, Cast) and value.dtype.startswith("float") and value not in self.named:
            return self.scalar(value.argument)
        return super().scalar(value)

    def text(self, value: Scalar) -> str:
        return _in_any_type(str(self.scalar(value)))


def _in_any_type(text: str) -> str:
    """A formula without the marks of single precision."""
    return _SINGLE.sub(lambda match: f"{match[1]}(" if match[1] else "", text)


def _formulas(facts: KernelFacts) -> list[str]:
    """A line for each stage, and for each value on the way that is used again; where that makes long lines, for each
    value that the graph has a name for."""
    shared = _shared([stage.value for stage in facts.kernel.stages])
    notation = _Notation(names={buffer: fact.name for buffer, fact in facts.known.items()})
    lines = list(_lines(facts, shared, notation))
    if any(len(line) > _LONGEST for line in lines):
        lines = list(_lines(facts, None, replace(notation, named={})))
    lines += [f"`{made}`" for name, dtype in notation.functions if (made := _definition(name, dtype))]
    told = [line for line in lines if len(line) <= _LONGEST][:_MOST_LINES]
    left = len(lines) - len(told)
    return [*told, *([f"{left} longer or further formula{'s' * (left > 1)} in the code"] if left else [])]


def _shared(values: Sequence[Scalar]) -> frozenset[Scalar]:
    """Values that have a name and several readers."""
    nodes = dict.fromkeys(node for value in values for node in value.walk())
    readers = Counter(child for node in nodes for child in node.children)
    return frozenset(node for node in nodes if isinstance(node, Named) and readers[node] > 1)


def _definition(name: str, dtype: str) -> str:
    """What a device function returns: `silu(x) = x / (1.0 + exp(-x))`; empty where that takes several statements."""
    body = re.search(r" (\w+\(.*)\) \{\n *return (.*);\n\}", device_function(name, dtype))
    if body is None:
        return ""
    head = re.sub(r"\b\w+ (?=\w+(?:,|$))", "", body[1])
    return _in_any_type(f"{head}) = {body[2]}")


def _lines(facts: KernelFacts, apart: Collection[Scalar] | None, notation: "_Notation") -> Iterator[str]:
    """The formulas of a kernel; the named values `apart` have lines of their own, all of them if it is None."""
    taken = {stage.local for stage in facts.kernel.stages if isinstance(stage, (Reduce, Scan))}
    for stage in facts.kernel.stages:
        for node in reversed(list(stage.value.walk())):
            if isinstance(node, Named) and (apart is None or node in apart) and node not in notation.named:
                if node.name in taken or isinstance(node.value, (Literal, Load, Local)):
                    continue  # the same value at another place, or nothing to compute
                taken.add(node.name)
                yield f"`{node.name} = {notation.text(node.value)}`"
                notation.named[node] = Name(node.name)
        yield from _stage(stage, facts, notation)


def _stage(stage: Stage, facts: KernelFacts, notation: _Notation) -> Iterator[str]:
    value = stage.value
    if isinstance(value, Added):
        yield f"`{notation.element(stage.buffer, value.index)} += {notation.text(value.value)}`"  # type: ignore[arg-type]
        return
    result = str(notation.element(stage.buffer, stage.index)) if stage.buffer is not None else ""
    if not isinstance(stage, (Reduce, Scan)):
        yield f"`{result} = {notation.text(value)}`"
        return
    name = f"`{result or stage.local}`"
    if isinstance(value, Attended):
        keys, *elements = stage.axes
        products = f"{notation.text(value.query)} * {notation.text(value.key)}"
        yield f"`score` = Σ over {_ranges(elements, facts)} of `{products}`"
        score, over = notation.text(value.score), _ranges([keys], facts)
        yield f"`weight` = softmax over {over} of `{score}`"
        if any(isinstance(one.value, Local) and one.value.name == LOG_SUM for one in facts.kernel.stages):
            yield f"`{LOG_SUM}` = log(Σ over {over} of `exp({score})`)"
        yield f"{name} = Σ over `{keys.name}` of `weight * {notation.text(value.element)}`"
        return
    where = ""
    if isinstance(value, Choose) and stage.kind == "sum" and isinstance(value.no, Literal) and value.no.value == 0:
        where, value = f" where `{notation.text(value.condition)}`", value.yes
    elif isinstance(value, Among):
        where, value = f" where `{notation.text(value.condition)}`", value.value
    sign, over = _SIGNS.get(stage.kind, stage.kind), _ranges(stage.axes, facts)
    how = f"running {sign} along" if isinstance(stage, Scan) else f"{sign} over"
    yield f"{name} = {f'{how} {over} of ' if over else ''}`{notation.text(value)}`{where}"


def _ranges(axes: Sequence[Variable], facts: KernelFacts) -> str:
    """Axes with their ends, as numbers where they do not depend on the place."""
    if not axes:
        return ""
    ends = [
        facts.printer.index(axis.extent) if axis.extent.variables else facts.extents([axis], facts.sizes)[0]
        for axis in axes
    ]
    return join([f"`{axis.name} < {end}`" for axis, end in zip(axes, ends, strict=True)])
