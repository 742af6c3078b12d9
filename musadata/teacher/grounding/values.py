"""Which values a trace has for what a figure counts: one function for each kind of `rules.yaml`."""

import math
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from musadata.records import TensorFact
from musadata.teacher.grounding.claims import ClaimKind
from musadata.teacher.grounding.context import Subject, View
from musadata.teacher.grounding.expressions import evaluate
from musadata.teacher.grounding.facts import base_name, products, strides_of
from musadata.teacher.grounding.lexicon import LEXICON, MACHINE, OPERATOR_WORDS, WORDS, axes_in
from musadata.teacher.grounding.quantities import Quantity
from musadata.teacher.grounding.windows import windows_of
from musadata.tracing.roofline import itemsize, tensor_bytes

_DIMENSIONS: dict[str, list[int]] = LEXICON["dimensions"]
_FLATTENED, _MOVING = frozenset(LEXICON["flattened"].split()), frozenset(LEXICON["moving"].split())
_MOST_OPERATORS = 10
_SHARED = frozenset(MACHINE["limits"]["shared_memory_bytes"])
_COUNTED = re.compile(
    r"(?:floats|elements|values|entries|numbers) "
    r"(?:,|(?:, )?(?:i\.e|=|or|that is|which is|thus|so)(?: ,| \.)?) (?:about )?$"
)
_WINDOW = 70
_FEW = 4
_ONE = 128  # bytes that a thread or a warp may access at once
_PER_ELEMENT = 64  # FLOPs of one element
_LAST_FIGURE = re.compile(r"Q\d+ ")
_MACHINE = re.compile(r"\b(?:needs?|balance|ridge|machine|device|gpu|[ah][12]00|threshold|knee)\b")
_WITH_BIAS = re.compile(r"\bbias(?:es)? included\b|\bincluding (?:its |the )?bias")
_OF_TILE = re.compile(r"\btiles?\b")
_READ_AND_WRITTEN = re.compile(r"\bread.*\b(?:writ|stor)|\b(?:writ|stor).*\bread")


@dataclass
class Figure:
    """A figure with its words.

    Attributes:
        noun: what it counts, if the rule tells.
        is_per: the words say "each", "per" or the like, so parts of tensors are meant.
        unit: what each part is: "row".
    """

    view: View
    at: int
    noun: str
    axis: str

    def __post_init__(self) -> None:
        self.before = _LAST_FIGURE.split(self.view.before(self.at, _WINDOW))[-1]
        self.after = _LAST_FIGURE.split(self.view.after(self.at, _WINDOW))[0]
        self.facts = self.view.facts
        self.subject: Subject = self.view.subject(self.at)
        per = WORDS.per.search(self.view.before(self.at, _WINDOW)) or WORDS.each_after.match(self.after)
        self.is_per, self.unit = per is not None, (per["unit"] or "").rstrip("s") if per else ""

    @property
    def tensors(self) -> tuple[TensorFact, ...]:
        return self.subject.facts

    @property
    def clause(self) -> str:
        """The words around, up to commas."""
        return self.before.rpartition(" , ")[2] + "# " + self.after.partition(" , ")[0]

    @property
    def window(self) -> str:
        return f"{self.before}# {self.after}"


def _elements(figure: Figure) -> set[float] | None:
    subject, facts = figure.subject, figure.facts
    if figure.view.quantity(figure.at).value <= (1 if subject.is_certain else _FEW):  # "two elements of padding"
        return None
    if figure.noun in ("parameter", "parameters", "weight", "weights", "coefficients"):
        return _parameters(figure)
    counts = {math.prod(fact.shape) for fact in subject.facts}
    if facts.scores and re.search(r"\b(?:scores?|logits?|weights)\b", figure.clause):
        return set(map(float, facts.scores))
    if figure.is_per or not subject.is_named or WORDS.partial.search(figure.before):
        parts = subject.facts if subject.is_certain else facts.tensors
        counts |= {n for fact in parts for n in products(fact.shape)}
        counts |= reduced_by(figure.view, subject.facts)
    if not subject.is_certain:
        counts |= _results_of(figure.view, subject.facts) | reduced_by(figure.view, facts.tensors)
        counts |= facts.of_modules
        counts |= _sum_of(figure, counts)
    return set(map(float, counts))


def _sum_of(figure: Figure, parts: Collection[float]) -> set[int]:
    """The figure itself if it adds up such parts, as written: "1 + 4 + 16 = 21 averages"."""
    quantity = figure.view.quantity(figure.at)
    terms = [evaluate(term) for term in quantity.sides[0].split(" + ")]
    return {int(quantity.value)} if len(terms) > 1 and all(term in parts for term in terms) else set()


def _adds_up(figure: Figure) -> bool:
    """Whether it is the sum of other figures of its sentence."""
    value = figure.view.quantity(figure.at).value
    others = [one.value for at, one in figure.view.all_figures() if at != figure.at and one.value < value]
    sums = {Fraction(0)}
    for other in others[:_MOST_OPERATORS]:
        sums |= {one + other for one in sums}
    return value in sums


def _parameters(figure: Figure) -> set[float]:
    facts = figure.facts
    chosen = [fact for fact in figure.tensors if fact.role in ("parameter", "buffer")]
    chosen = chosen or [*facts.of_role("parameter", "buffer"), *(f for f in figure.tensors if "weight" in f.name)]
    sizes = {math.prod(fact.shape) for fact in chosen}
    if figure.is_per:
        sizes |= {n for fact in chosen for n in products(fact.shape)} | set(range(1, len(chosen) + 1))
    groups = [math.prod(fact.shape) for fact in facts.of_role("parameter")]
    sizes |= _sum_of(figure, sizes) | facts.of_modules
    if _WITH_BIAS.search(figure.after) and not figure.subject.is_certain:
        return set(map(float, facts.of_modules | {sum(groups)}))
    return set(map(float, sizes | {sum(sizes), sum(groups)} | ({len(groups)} if figure.is_per else set())))


def reduced_by(view: View, tensors: Iterable[TensorFact]) -> set[int]:
    """How many elements go into one result of these operators or of those that read the tensors."""
    facts = view.facts
    names = {fact.name for fact in tensors}
    chosen = [fact for fact in facts.tensors if fact.name in names or names.intersection(fact.operands)]
    return {n for fact in chosen for n in (*facts.reduced(fact), facts.depth(fact), facts.window(fact))} - {0}


def _results_of(view: View, tensors: Iterable[TensorFact]) -> set[int]:
    """How many results reductions of these tensors have, whether or not a tensor holds them alone."""
    facts, found = view.facts, set()
    for fact in tensors:
        for operand in facts.operands(fact)[:1]:
            found |= {math.prod(operand.shape) // n for n in facts.reduced(fact) if n}
    return found


def _results(figure: Figure) -> set[float] | None:
    facts, word = figure.facts, figure.noun
    if figure.view.quantity(figure.at).value <= _FEW:  # "two norms": what a module is called
        return None
    made = facts.made_by(OPERATOR_WORDS.get(word, ()))
    chosen = made or tuple(fact for fact in facts.tensors if facts.reduced(fact))
    counts = {math.prod(fact.shape) for fact in chosen} | _results_of(figure.view, chosen)
    counts |= {n for f in chosen for n in products(f.shape)} if figure.is_per else set()
    return set(map(float, counts | _sum_of(figure, facts.partial)))


def _reduced(figure: Figure) -> set[float] | None:
    facts, subject = figure.facts, figure.subject
    chosen = subject.made or facts.tensors
    allowed = {n for fact in chosen for n in (*facts.reduced(fact), facts.depth(fact), facts.window(fact))} - {0}
    allowed = allowed or reduced_by(figure.view, facts.tensors)
    if re.match(r"\w+ (?:that|of)\b", figure.after):  # "the 14 elements of a group"
        allowed |= {n for fact in facts.tensors for n in products(fact.shape)} | reduced_by(figure.view, facts.tensors)
    if "divi" in figure.before:
        allowed |= facts.arguments | facts.sizes | {n - 1 for n in allowed}
    if "pass" in figure.before:  # "three passes over 23040 elements"
        return None
    if "divi" in figure.before and figure.view.quantity(figure.at).value.denominator != 1:  # by a root
        return None
    if "add" in figure.before and figure.view.quantity(figure.at).value <= _FEW:  # "adds one zero on either side"
        return None
    if "sum" in figure.before or "add" in figure.before or "combin" in figure.before:
        allowed |= {n for fact in chosen for n in products(fact.shape)} if not subject.made else set()
    return set(map(float, allowed))


def _inner(figure: Figure) -> set[float]:
    facts, subject = figure.facts, figure.subject
    chosen = subject.made if subject.is_certain and subject.made and "terms" not in figure.after else facts.tensors
    depths = {n for fact in chosen for n in (facts.depth(fact), *facts.reduced(fact))}
    if re.match(r"add|comparisons", figure.after):  # these are FLOPs as well
        depths |= {*facts.flops_of_operators.values(), *facts.counts}
    return set(map(float, depths - {0} or reduced_by(figure.view, facts.tensors)))


def _dimension(figure: Figure) -> set[float] | None:
    if figure.view.quantity(figure.at).value == 1 or _OF_TILE.search(figure.view.skeleton):  # "one row of it"
        return None
    facts, noun = figure.facts, figure.noun if figure.noun != "size" else "batch"
    made = figure.subject.made if WORDS.given.search(figure.before) else ()  # "the pooling leaves 15 columns"
    chosen = made or figure.tensors
    found: set[int] = set()
    for fact in chosen:
        shape = fact.shape
        found.update(shape[axis] for axis in _DIMENSIONS[noun] if -len(shape) <= axis < len(shape))
        if noun in _FLATTENED:
            found.add(math.prod(shape[:-1]))
        if noun in ("columns", "column", "features", "width", "row", "feature"):
            found.update(math.prod(shape[axis:]) for axis in range(1, len(shape)))
    if not figure.subject.is_certain and not made:
        found |= facts.arguments | facts.partial | _results_of(figure.view, chosen)
        groups = facts.argument(facts.tensors, "group")
        found |= {size // n for fact in chosen for size in fact.shape for n in groups if n}
    if noun == "classes":
        found |= {math.prod(fact.shape) for fact in chosen}
    return set(map(float, found))


def _length(figure: Figure) -> set[float]:
    """How long a row, group or window of any kind may be."""
    found = {n for fact in figure.tensors for n in products(fact.shape)} | reduced_by(figure.view, figure.tensors)
    return set(map(float, found))


def _axis(figure: Figure) -> set[float]:
    axis, is_stride = int(figure.view.quantity(int(figure.axis)).value), re.search(r"\bstrid|apart", figure.window)
    axis = -axis if re.search(r"- $", figure.view.before(int(figure.axis), 4)) else axis
    chosen = [fact for fact in figure.tensors if -len(fact.shape) <= axis < len(fact.shape)]
    return {float((fact.stride if is_stride else fact.shape)[axis]) for fact in chosen}


def _stride(figure: Figure) -> set[float]:
    window = figure.before.rpartition(" instead of ")[2] + "# " + figure.after
    number = re.search(
        r"\b(?:dim|axis|dimension) (?P<sign>- ?)?Q(\d+)", f"{figure.view.before(figure.at, 50)}# {window}"
    )
    chosen, facts = figure.subject.mentioned or figure.tensors, figure.facts
    axes: list[int] = []
    if number:
        axis = int(figure.view.quantity(int(number[2])).value)
        figure.view.taken.add(int(number[2]))
        axes = [-axis if number["sign"] else axis]
    else:
        axes = axes_in(window)
    if axes:
        found = {fact.stride[axis] for fact in chosen for axis in axes if -len(fact.shape) <= axis < len(fact.shape)}
        if -2 in axes:
            found |= {fact.shape[-1] for fact in chosen if fact.shape and fact.stride == strides_of(fact.shape)}
        return set(map(float, found))
    found = {step for fact in chosen for step in fact.stride}
    if not figure.subject.is_certain:
        found |= {step for fact in chosen for step in strides_of(fact.shape)} | facts.argument(facts.tensors, "stride")
        found |= facts.partial if "thread" in figure.view.skeleton else set()
    return set(map(float, found))


def _rank(figure: Figure) -> set[float]:
    return {float(len(fact.shape)) for fact in figure.tensors}


def _groups(figure: Figure) -> set[float]:
    facts = figure.facts
    named = facts.argument(facts.tensors, "group")
    return set(map(float, named | _results_of(figure.view, facts.tensors) | (facts.partial if not named else set())))


def _things(figure: Figure) -> set[float] | None:
    facts, noun = figure.facts, figure.noun
    if figure.view.quantity(figure.at).value > 40:
        return _elements(figure)
    if "operator" in noun or noun in ("ops", "operations dispatched"):
        names = [base_name(operator) for operator in facts.trace.operators]
        computing = [name for name in names if name not in _MOVING]
        allowed = {len(names), len(set(names)), len(computing), len(set(computing))}
        is_told = re.search(r"(?:^|there are|has|have|records|dispatches) $", figure.before)
        return set(map(float, allowed)) if is_told else None
    if re.search(r"\b(?:the|these|those|both|all|first|last|other|any|for|over|of) $", figure.before):
        return None
    sizes = {
        "input": len(facts.of_role("input")),
        "output": len(facts.outputs),
        "param": len(facts.of_role("parameter")),
    }
    counts = {float(count) for name, count in sizes.items() if noun.startswith(name)}
    counts |= {float(len(facts.of_role("parameter", "buffer")))} if noun.startswith("param") else set()
    operands = {float(len(fact.operands)) for fact in facts.tensors} if noun.startswith("input") else set()
    return counts | operands | {float(n) for n in facts.counts | facts.sizes | facts.arguments} if counts else None


def _bytes(figure: Figure) -> set[float] | None:
    facts, subject, window = figure.facts, figure.subject, figure.window
    value = figure.view.quantity(figure.at).value
    if (
        WORDS.on_chip.search(window)
        or value <= _ONE
        or _adds_up(figure)
        or (value in _SHARED and not subject.is_certain)
    ):
        return None
    sizes = {tensor_bytes(fact) for fact in subject.facts}
    single = {itemsize(fact.dtype) for fact in subject.facts}
    if re.search(r"\b(?:stride|apart|distance|jump|step|skip)", window):
        return {float(step * itemsize(fact.dtype)) for fact in subject.facts for step in fact.stride}
    counted = _counted_before(figure)
    if counted:
        return {float(counted * size) for size in {itemsize(fact.dtype) for fact in facts.tensors}}
    if figure.is_per:
        parts = {itemsize(fact.dtype) * n for fact in subject.facts for n in products(fact.shape)}
        return set(map(float, parts | single | (sizes if re.search(r"\beach\b", window) else set())))
    if _READ_AND_WRITTEN.search(figure.view.skeleton) and WORDS.total.search(window):
        return {float(facts.trace.bytes), *(2.0 * size for size in sizes)}
    if subject.is_certain:
        return {*map(float, sizes), float(sum(tensor_bytes(fact) for fact in subject.facts))} | (
            {float(facts.trace.bytes)}
            if WORDS.total.search(figure.before) or WORDS.beside_others.search(figure.before)
            else set()
        )
    if WORDS.total.search(window) and not subject.is_named:
        is_traffic = re.search(r"\b(?:traffic|mov\w+|transfer\w*|least|minimum)\b", window)
        is_traffic = None if re.match(r"\w+ (?:in|out|read|written|of)\b", figure.after) else is_traffic
        return {float(facts.trace.bytes)} | (set() if is_traffic else set(map(float, facts.bytes_of_groups)))
    return {float(n) for n in sizes | facts.bytes_of_groups | {2 * size for size in sizes} | single}


def _counted_before(figure: Figure) -> int:
    """In "15360 floats, i.e. 61440 bytes" the number of floats; 0 if none stands directly before."""
    if not _COUNTED.match(figure.before) or len(figure.view.quantity(figure.at).sides) > 1:
        return 0
    before = [quantity for at, quantity in figure.view.all_figures() if at < figure.at]
    return int(before[-1].value) if before and before[-1].value.denominator == 1 else 0


def _bytes_apart(figure: Figure) -> set[float]:
    return {float(step * itemsize(fact.dtype)) for fact in figure.tensors for step in fact.stride}


def _flops(figure: Figure) -> set[float] | None:
    facts, total = figure.facts, float(figure.facts.trace.flops)
    few = max(len(facts.trace.operators), min(_PER_ELEMENT, total / 8))  # "as one operation", or of one element
    if figure.view.quantity(figure.at).value <= few or _adds_up(figure):
        return None
    of_operators = facts.flops_of_operators
    if figure.subject.made and figure.subject.is_certain:
        made = {fact for mention in figure.view.mentions for fact in mention.facts if fact.operator}
        together = float(sum(of_operators.get(fact.name, 0) for fact in made))
        named = {float(of_operators.get(fact.name, 0)) for fact in figure.tensors}
        is_whole = len(made) > 1 or len(set(facts.trace.operators)) == 1
        named |= {n * value for value in named for n in range(2, len(made) + 1)}  # "three projections"
        return named | {sum(named), together} | ({total} if is_whole else set())
    values = [float(value) for value in of_operators.values() if value][:_MOST_OPERATORS]
    sums = {sum(some) for length in range(1, len(values) + 1) for some in combinations(values, length)}
    sums |= {n * value for value in values for n in range(2, len(facts.trace.operators) + 1)}
    return {total, *sums, *map(float, of_operators.values()), *(float(math.prod(fact.shape)) for fact in facts.outputs)}


def _times(figure: Figure) -> set[float] | None:
    """How often an operator is evaluated: once for each of its results."""
    subject = figure.subject
    made = subject.made or (subject.mentioned if subject.is_certain else ())
    return {float(math.prod(fact.shape)) for fact in made if fact.operator} or None


def _divisor(figure: Figure) -> set[float] | None:
    """What a variance is divided by; other divisors are arguments or counts."""
    found = set()
    for fact in figure.facts.tensors:
        if base_name(fact.operator).startswith("var") and (corrections := figure.facts.argument([fact], "correction")):
            found |= {float(n - min(corrections)) for n in figure.facts.reduced(fact)}
    is_variance = re.search(r"\b(?:variances?|var|deviations?|torch\.var|unbiased|squares)\b", figure.view.skeleton)
    if is_variance:
        return found
    return _reduced(figure) if re.search(r"\b(?:means?|averages?|averaged)\b", figure.view.skeleton) else None


def _total(figure: Figure) -> set[float] | None:
    """A total without a unit: of what the sentence counted before."""
    units = [item.value.unit for item in figure.view.items[: figure.at] if isinstance(item.value, Quantity)]
    unit = next((unit for unit in reversed(units) if unit in ("flops", "bytes")), "")
    value, figures = figure.view.quantity(figure.at).value, [one.value for _, one in figure.view.all_figures()]
    if not unit or any(one > 1 and value / one in figures for one in figures):
        return None
    facts = figure.facts
    if unit == "flops":
        return {float(facts.trace.flops), *map(float, facts.flops_of_operators.values())}
    return set(map(float, facts.bytes_of_groups | facts.bytes_of_tensors))


def _flops_of_one(figure: Figure) -> set[float]:
    facts = figure.facts
    counts = [count for count in facts.counts if count]
    values = {facts.trace.flops, *facts.flops_of_operators.values()}
    made = figure.subject.made if figure.subject.is_named else facts.tensors
    named = {facts.flops_of_operators.get(fact.name, 0) for fact in made}  # "both cost 20 FLOPs each"
    depths = {
        n * depth for fact in facts.tensors for depth in (facts.depth(fact), *facts.reduced(fact)) for n in (1, 2)
    }
    whole = {value / count for value in values for count in counts}
    return {float(n) for n in depths | named} | whole | {float(n) for n in range(1, len(facts.trace.operators) + 3)}


def _macs(figure: Figure) -> set[float] | None:
    facts = figure.facts
    if figure.view.quantity(figure.at).value <= min(len(facts.trace.operators), _FEW):  # "three multiplications each"
        return None
    one = {n for fact in facts.tensors for n in (facts.depth(fact), *facts.reduced(fact))} | {1, 2}
    whole = {value // 2 for value in facts.flops_of_operators.values()} | {facts.trace.flops // 2}
    return {float(n) for n in (one if figure.is_per else one | whole | facts.counts) if n}


def _intensity(figure: Figure) -> set[float] | None:
    """None where the figure may be the machine's."""
    trace = figure.facts.trace
    is_other = _MACHINE.search(figure.view.skeleton)
    if is_other and not figure.view.holds(figure.at, {trace.intensity}):
        return None
    whole = figure.view.quantity(figure.at).value.denominator == 1 and trace.intensity > 2  # written as a whole number
    return {trace.intensity, *((round(trace.intensity), int(trace.intensity)) if whole else ())}


def _argument(figure: Figure) -> set[float]:
    """Values of the argument that the words name; the size of a kernel is that of its weight."""
    facts, noun = figure.facts, figure.noun.replace(" ", "_")
    names: str = next((names for words, names in LEXICON["arguments"].items() if noun in words.split()), noun)
    made = [fact for fact in figure.subject.made if fact.arguments] or facts.tensors
    kernels = {float(axis.taps) for fact in facts.tensors for axis in windows_of(facts, fact)}
    for chosen in (made, facts.tensors):
        words = " ".join({fact.arguments for fact in chosen})
        values = re.findall(rf"\b(?:{names})=(\[[-0-9., ]+\]|-?[0-9.]+(?:e-?[0-9]+)?)(?![\w])", words)
        found = {float(number) for value in values for number in re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", value)}
        found |= kernels if "kernel" in noun else set()
        if found:
            return found | {-value for value in found}  # "a kernel-size-1 convolution"
    return set()


ALLOWED: dict[str, tuple[ClaimKind, Callable[[Figure], set[float] | None], str]] = {
    "intensity": (ClaimKind.INTENSITY, _intensity, "not the trace's intensity"),
    "flops_of_one": (ClaimKind.FLOPS, _flops_of_one, "no such figure of FLOPs"),
    "flops": (ClaimKind.FLOPS, _flops, "no such figure of FLOPs"),
    "times": (ClaimKind.COUNT, _times, "not how often it is evaluated"),
    "divisor": (ClaimKind.COUNT, _divisor, "not the divisor"),
    "total": (ClaimKind.NUMBER, _total, "not such a total"),
    "macs": (ClaimKind.FLOPS, _macs, "not the number of these"),
    "bytes": (ClaimKind.BYTES, _bytes, "no such figure of bytes"),
    "bytes_apart": (ClaimKind.STRIDE, _bytes_apart, "not such a stride"),
    "stride": (ClaimKind.STRIDE, _stride, "not such a stride"),
    "rank": (ClaimKind.DIMENSION, _rank, "not the number of dimensions"),
    "inner": (ClaimKind.SHAPE, _inner, "not what goes into one result"),
    "axis": (ClaimKind.SHAPE, _axis, "not the size of this axis"),
    "reduced": (ClaimKind.COUNT, _reduced, "not what goes into one result"),
    "groups": (ClaimKind.COUNT, _groups, "not the number of groups"),
    "things": (ClaimKind.COUNT, _things, "not the number of these"),
    "results": (ClaimKind.COUNT, _results, "not the number of these"),
    "elements": (ClaimKind.COUNT, _elements, "not the number of these"),
    "dimension": (ClaimKind.SHAPE, _dimension, "not the size of such a dimension"),
    "length": (ClaimKind.SHAPE, _length, "not the length of such a part"),
    "argument": (ClaimKind.ARGUMENT, _argument, "not this argument"),
}
