"""What one trace says, arranged for looking up."""

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import yaml

from musadata import tracing
from musadata.records import TensorFact, Trace
from musadata.teacher.grounding.lexicon import LEXICON, OPERATOR_WORDS
from musadata.tracing.roofline import itemsize, tensor_bytes

_COSTS = yaml.safe_load(Path(tracing.__file__).with_name("operator_costs.yaml").read_text("utf-8"))
_MOVES = frozenset(_COSTS["moves"].split())
_PER_READ = {name: cost for cost, names in _COSTS["per_element_read"].items() for name in names.split()}
_VIEWS = frozenset(
    [
        "view",
        "transpose",
        "permute",
        "t",
        "expand",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
        "split",
        "chunk",
        "detach",
        "alias",
        "unbind",
    ]
)
RESHAPES = frozenset(["view", "_unsafe_view", "squeeze", "unsqueeze", "clone"])
_MOST_AXES = 6


@lru_cache(maxsize=1024)
def base_name(operator: str) -> str:
    """`_softmax` of `aten._softmax.default`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def is_contiguous(fact: TensorFact) -> bool:
    usual = strides_of(fact.shape)
    return all(s == u for s, u, size in zip(fact.stride, usual, fact.shape, strict=True) if size != 1)


@dataclass(frozen=True)
class Facts:
    """The facts of one trace."""

    trace: Trace

    @cached_property
    def tensors(self) -> tuple[TensorFact, ...]:
        return tuple(dict.fromkeys(self.trace.tensors))

    @cached_property
    def by_name(self) -> dict[str, TensorFact]:
        return {fact.name: fact for fact in self.tensors}

    def of_role(self, *roles: str) -> tuple[TensorFact, ...]:
        return tuple(fact for fact in self.tensors if fact.role in roles)

    @cached_property
    def outputs(self) -> tuple[TensorFact, ...]:
        return self.of_role("output")

    def made_by(self, names: Iterable[str]) -> tuple[TensorFact, ...]:
        """Tensors that an operator with one of these names made."""
        wanted = set(names)
        return tuple(fact for fact in self.tensors if fact.operator and base_name(fact.operator).rstrip("_") in wanted)

    def of_word(self, word: str) -> tuple[TensorFact, ...]:
        """The results of what a word calls, and their views; views of a view are not what it is about."""
        made = self.made_by(OPERATOR_WORDS.get(word, (word, f"_{word}", f"native_{word}")))
        return made if all(base_name(fact.operator) in _VIEWS for fact in made) else self.views_of(made)

    def views_of(self, facts: tuple[TensorFact, ...]) -> tuple[TensorFact, ...]:
        """These tensors, and what is only another view of one."""
        names = {fact.name for fact in facts}
        views = [
            f for f in self.tensors if f.operands[:1] and f.operands[0] in names and base_name(f.operator) in RESHAPES
        ]
        return (*facts, *views)

    @cached_property
    def _operands(self) -> dict[str, tuple[TensorFact, ...]]:
        names = self.by_name
        return {fact.name: tuple(names[name] for name in fact.operands if name in names) for fact in self.tensors}

    def operands(self, fact: TensorFact) -> tuple[TensorFact, ...]:
        return self._operands[fact.name]

    @cached_property
    def shapes(self) -> frozenset[tuple[int, ...]]:
        return frozenset(fact.shape for fact in self.tensors)

    @cached_property
    def score_shapes(self) -> frozenset[tuple[int, ...]]:
        """Of the scores that a fused attention never stores, its heads apart or together."""
        found = set()
        for fact in self.tensors:
            if "_attention" in fact.operator and len(fact.operands) > 1:
                query, key, *_ = (operand.shape for operand in self.operands(fact))
                if len(query) > 1 and len(key) > 1:
                    scores = (*query[:-1], key[-2])
                    found |= {scores, (math.prod(scores[:-2]), *scores[-2:])}
        return frozenset(found)

    @cached_property
    def strides(self) -> frozenset[tuple[int, ...]]:
        return frozenset(fact.stride for fact in self.tensors)

    @cached_property
    def tuples(self) -> frozenset[tuple[int, ...]]:
        """Arguments that are lists."""
        found = (m for fact in self.tensors for m in re.findall(r"\[([-0-9, ]+)\]", fact.arguments))
        return frozenset(tuple(int(number) for number in numbers.split(",")) for numbers in found)

    @cached_property
    def arguments(self) -> frozenset[int]:
        words = " ".join([*(fact.arguments for fact in self.tensors), *(spec.literal for spec in self.trace.inputs)])
        found = {abs(int(number)) for number in re.findall(r"(?<![\w.])-?[0-9]{1,18}(?![\w.])", words)}
        return frozenset(found | {factor**2 for factor in self.argument(self.tensors, "(?:up|down)scale_factor")})

    @cached_property
    def _arguments(self) -> dict[tuple[str, str], frozenset[int]]:
        return {}

    def argument(self, facts: Iterable[TensorFact], name: str) -> set[int]:
        """Whole numbers in the arguments of that name."""
        found: set[int] = set()
        for words in {fact.arguments for fact in facts if fact.arguments}:
            known = self._arguments.get((words, name))
            if known is None:
                values = re.findall(rf"\b{name}\w*=(\[[-0-9, ]+\]|-?[0-9]+)(?![.\w])", words)
                known = frozenset(int(number) for value in values for number in re.findall(r"-?[0-9]+", value))
                self._arguments[words, name] = known
            found |= known
        return found

    @cached_property
    def sizes(self) -> frozenset[int]:
        """Sizes of single axes."""
        return frozenset(size for shape in self.shapes for size in shape)

    @cached_property
    def counts(self) -> frozenset[int]:
        """Elements of whole tensors."""
        return frozenset(math.prod(shape) for shape in self.shapes)

    @cached_property
    def of_modules(self) -> frozenset[int]:
        """Parameters of each module, its bias included."""
        parameters = self.of_role("parameter")
        modules = {fact.name.rpartition(".")[0] for fact in parameters}
        return frozenset(
            sum(math.prod(fact.shape) for fact in parameters if fact.name.rpartition(".")[0] == module)
            for module in modules
        )

    @cached_property
    def scores(self) -> frozenset[int]:
        """Elements of the scores that a fused attention never stores: of one matrix, and of more."""
        return frozenset(number for shape in self.score_shapes for number in products(shape))

    @cached_property
    def partial(self) -> frozenset[int]:
        """Elements of any axes of a tensor taken together."""
        return frozenset(number for shape in self.shapes for number in products(shape))

    @cached_property
    def bytes_of_tensors(self) -> frozenset[int]:
        return frozenset(tensor_bytes(fact) for fact in self.tensors)

    @cached_property
    def bytes_of_groups(self) -> frozenset[int]:
        """Traffic of all inputs, of all parameters, of everything read and written; and what fusion saves."""
        role = {
            name: sum(tensor_bytes(fact) for fact in self.of_role(name))
            for name in ("input", "parameter", "buffer", "intermediate", "output")
        }
        kept = role["parameter"] + role["buffer"]
        sums = {*role.values(), kept, role["input"] + kept, role["input"] + role["output"], self.trace.bytes}
        return frozenset(sums | {2 * role["intermediate"]} | {2 * size for size in self.bytes_of_tensors})

    @cached_property
    def flops_of_operators(self) -> dict[str, int]:
        """FLOPs of each tensor's operator, as `musadata.tracing.cost` counts them; those that it cannot tell are 0."""
        made: dict[tuple[str, tuple[str, ...]], TensorFact] = {}
        for fact in self.tensors:
            if fact.operator:
                made.setdefault((fact.operator, fact.operands), fact)
        return {fact.name: self._flops(fact) for fact in made.values()}

    def _flops(self, fact: TensorFact) -> int:
        name = base_name(fact.operator).rstrip("_")
        operands = self.operands(fact)
        count = math.prod(fact.shape)
        if name in _MOVES or name in _VIEWS:
            return 0
        if name in ("mm", "bmm", "addmm", "baddbmm", "matmul") and operands:
            return 2 * count * self.depth(fact)
        if name == "convolution" and len(operands) > 1:
            return (
                2 * math.prod((operands[0] if "transposed=True" in fact.arguments else fact).shape) * self._taps(fact)
            )
        if name in _PER_READ and operands:
            return int(_PER_READ[name]) * math.prod(operands[0].shape)
        if name.startswith(("max_pool", "avg_pool")):
            return count * max(1, self.window(fact))
        return count

    def depth(self, fact: TensorFact) -> int:
        """Multiply-adds of one element of a product or convolution; 0 for another operator."""
        name, operands = base_name(fact.operator), self.operands(fact)
        if name in ("mm", "bmm", "matmul") and len(operands) > 1:
            return operands[0].shape[-1]
        if name in ("addmm", "baddbmm") and len(operands) > 1:
            return operands[-2].shape[-1] if operands[-2].shape else 0
        if name == "convolution" and len(operands) > 1:
            return self._taps(fact)
        return 0

    def _taps(self, fact: TensorFact) -> int:
        """Channels of a group, times the size of the kernel."""
        weight = self.operands(fact)[1].shape
        if "transposed=True" in fact.arguments:
            groups = max(self.argument([fact], "groups"), default=1)
            return weight[0] // groups * math.prod(weight[2:])
        return math.prod(weight[1:])

    def window(self, fact: TensorFact) -> int:
        """Elements of a pooling's window; 0 for another operator."""
        match = re.search(r"kernel_size=\[([0-9, ]+)\]", fact.arguments)
        return math.prod(int(number) for number in match[1].split(",")) if match else 0

    @cached_property
    def _reductions(self) -> dict[str, set[int]]:
        return {fact.name: self._reduced(fact) for fact in self.tensors}

    def reduced(self, fact: TensorFact) -> set[int]:
        """How many elements go into one of a reduction's results."""
        return self._reductions[fact.name]

    def _reduced(self, fact: TensorFact) -> set[int]:
        operands = self.operands(fact)
        if not operands or not fact.operator:
            return set()
        if not self._flops(fact):  # it moves elements only
            return set()
        whole, left = math.prod(operands[0].shape), math.prod(fact.shape)
        found = {window} if (window := self.window(fact)) else set()
        found |= {whole // left} if left and whole > left and whole % left == 0 else set()
        axes = self.argument([fact], "dim")
        shape = operands[0].shape
        picked = [shape[axis] for axis in axes if -len(shape) <= axis < len(shape)]
        match = re.search(r"normalized_shape=\[([0-9, ]+)\]", fact.arguments)
        found |= {math.prod(int(number) for number in match[1].split(","))} if match else set()
        if "batch_norm" in fact.operator and len(operands[0].shape) > 1:
            found |= {whole // max(1, operands[0].shape[1])}
        if "nll_loss" in fact.operator and len(operands) > 1:
            found |= {math.prod(operands[1].shape)}
        if "scaled_dot_product" in fact.operator and len(operands) > 1:  # of a score, and of a result
            found |= {operands[0].shape[-1], operands[1].shape[-2]}
        c, plane, groups = (max(self.argument([fact], name), default=0) for name in ("C", "HxW", "group"))
        found |= {c // groups * plane} if groups else set()
        return (found - {0}) | ({math.prod(picked)} if picked else set()) | ({whole} if left == 1 else set())

    def parts(self, fact: TensorFact) -> list[tuple[int, int]]:
        """First and last index of each operand of a concatenation, or of what a slice keeps."""
        name, operands = base_name(fact.operator), self.operands(fact)
        axes = self.argument([fact], "dim") or {0}
        if name == "slice" and operands:
            first = max(self.argument([fact], "start"), default=0)
            return [(first, first + fact.shape[axis] - 1) for axis in axes if axis < len(fact.shape)]
        if name != "cat" or len(axes) != 1:
            return []
        sizes = [operand.shape[axis] for operand in operands for axis in axes if axis < len(operand.shape)]
        ends = list(itertools.accumulate(sizes, initial=0))
        return [(start, end - 1) for start, end in itertools.pairwise(ends)]

    @cached_property
    def never_said(self) -> list[tuple[re.Pattern[str], str]]:
        """What no sentence may say of these operators, with the arguments that forbid it."""
        found = []
        for rule in LEXICON["semantics"]:
            made = [f for f in self.tensors if f.operator and re.fullmatch(rule["operator"], base_name(f.operator))]
            if made and all(re.search(rule["argument"], fact.arguments) for fact in made):
                found.append((re.compile(rule["wrong"]), made[0].arguments))
        return found

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """Lowest and highest value of integer inputs."""
        return {
            spec.name: (int(spec.low), int(spec.high) - 1)
            for spec in self.trace.inputs
            if spec.kind in ("integers", "offsets", "segments") and spec.high > spec.low
        }

    @cached_property
    def known(self) -> frozenset[int]:
        """Every whole number that the trace states or that follows by one product."""
        known = set(self.partial | self.arguments | self.bytes_of_tensors | self.bytes_of_groups)
        known.update(number for stride in self.strides for number in stride)
        known.update((self.trace.flops, self.trace.bytes, len(self.trace.operators), len(self.tensors)))
        known.update(bound for low, high in self.spans.values() for bound in (low, high, high + 1))
        known.update(self.flops_of_operators.values())
        known.update(itemsize(fact.dtype) for fact in self.tensors)
        for fact in self.tensors:
            known |= self.reduced(fact) | {self.depth(fact)}
        return frozenset(known)


def products(shape: tuple[int, ...]) -> list[int]:
    """Products of any of the sizes; of long shapes the single ones, and what follows each axis."""
    if len(shape) > _MOST_AXES:
        return [*shape, *strides_of(shape), math.prod(shape)]
    return [math.prod(part) for length in range(len(shape) + 1) for part in itertools.combinations(shape, length)]


def slices(shape: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return (shape[start:end] for start, end in itertools.combinations(range(len(shape) + 1), 2))
