"""Which algorithm a kernel is, from its statements and the flow of its values.

A label is what a CUDA programmer would call it: `tiled-matmul`, `online-softmax`, `tree-reduction`, `pointwise`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from musadata.sampling.device_code import Function, Statement
from musadata.sampling.value_flow import COMPUTED, DATA, LOOP, Flow, call_name, subscript

_EXPONENTIALS = frozenset({"exp", "exp2"})
_EXTREMES = frozenset({"max", "min", "fmax", "fmin", "fmaxf", "fminf"})
_CURVES = _EXPONENTIALS | {"sqrt", "rsqrt", "tanh", "log", "erf"}
_ARITHMETIC = frozenset("+-*/%<>")


@dataclass
class Facts:
    """What is seen in a kernel and the device functions that it calls.

    Attributes:
        tokens: all of them; calls: functions of mathematics.
        contraction: loops within a sum of products of two differently indexed operands, or None without one.
        reduction: the most loops that one accumulation runs over, or None without one.
    """

    tokens: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    contraction: int | None = None
    shared_contraction: bool = False
    register_tile: bool = False
    reduction: int | None = None
    sums: bool = False
    extremes: bool = False
    rescaled: bool = False
    running_mean: bool = False
    stores_prefix: bool = False
    tree: bool = False
    doubling: bool = False
    halving: bool = False
    gathers: bool = False
    scatters: bool = False
    shared_atomics: bool = False
    copies: int = 0
    stores: int = 0


def observe(parts: Iterable[tuple[Function, Flow]]) -> Facts:
    """The facts of a kernel with its device functions."""
    facts = Facts()
    for function, flow in parts:
        facts.tokens.update(flow.roles)
        if any(token.startswith("atomic") for token in flow.roles):
            for statement in function.statements:
                _observe_atomics(facts, statement, flow)
        for statement, (target, at) in flow.assignments.items():
            _observe_assignment(facts, statement, target, at, flow)
    facts.calls = {call_name(token) for token in facts.tokens}
    facts.doubling = facts.doubling or "__shfl_up_sync" in facts.tokens
    return facts


def _observe_assignment(facts: Facts, statement: Statement, target: str, at: int, flow: Flow) -> None:
    value, sign = statement[at + 1 :], statement[at]
    last = statement[-2:] if statement[-1] == ")" else statement[-1:]
    if last[0] in ("1", "2"):
        facts.halving |= sign in (">>=", "/=") or value[-3:-1] == (target, ">>") or statement[-2] == ">>"
        facts.doubling |= sign in ("<<=", "*=")
    if target in flow.pointers:
        _observe_store(facts, statement[:at], value, flow)
    if "[" in value:
        for place, token in enumerate(value[:-1]):
            if token in flow.pointers and value[place + 1] == "[":
                facts.gathers |= _is_indirect(value, place + 1, flow)
    if sign in ("+=", "-=", "*=") or target in value:
        _observe_accumulation(facts, target, statement[:at], sign, value, flow)
    elif _carries(target, value, flow) and _own_loops(value, statement[:at], flow):
        facts.reduction = max(facts.reduction or 0, 1)
    if not _EXTREMES.isdisjoint(value) and _own_loops(value, statement[:at], flow):
        facts.extremes |= _takes_data(value, value, target, flow)


def _carries(target: str, value: Sequence[str], flow: Flow) -> bool:
    """Whether a variable gets the value that was made of it before: `next = f(total); total = next`."""
    return len(value) == 1 and target in flow.reads.get(value[0], ()) and bool(flow.origins.get(value[0], 0) & DATA)


def _own_loops(value: Sequence[str], place: Sequence[str], flow: Flow) -> int:
    """The loops of a value that neither the grid shares nor its place counts, as bits."""
    return _loops(value, flow) & ~flow.parallel & ~_loops(place[1:], flow)


def _observe_store(facts: Facts, place: Sequence[str], value: Sequence[str], flow: Flow) -> None:
    facts.stores += 1
    if "[" in place and _is_indirect(place, list(place).index("["), flow):
        facts.scatters = True
    flat = [token for token in _flatten(value) if token[0].isalpha() or token[0] == "_"]
    bits = [flow.origins.get(token, 0) for token in flat]
    copied = any(one & DATA for one in bits) or any(token in flow.pointers or token in flow.shared for token in flat)
    computed = any(one & COMPUTED for one in bits) or not _ARITHMETIC.isdisjoint(_flatten(value)) or _mathematics(flat)
    facts.copies += copied and not computed
    if len(flat) == 1 and flat[0] in flow.origins:
        running = flow.origins[flat[0]] // LOOP * LOOP & ~flow.parallel
        if running and running & _loops(place, flow):
            facts.stores_prefix |= flat[0] in flow.reads.get(flat[0], ())


def _mathematics(names: Sequence[str]) -> bool:
    return any(name in _EXTREMES or call_name(name) in _CURVES for name in names)


def _observe_atomics(facts: Facts, statement: Statement, flow: Flow) -> None:
    for place, token in enumerate(statement):
        if token.startswith("atomic"):
            rest = statement[place:]
            facts.shared_atomics |= any(name in flow.shared for name in rest)
            facts.scatters |= "[" in rest and _is_indirect(rest, rest.index("["), flow)


def _observe_accumulation(
    facts: Facts, target: str, place: Sequence[str], sign: str, value: Sequence[str], flow: Flow
) -> None:
    """A variable that takes up more with every turn of a loop, or a step of a tree in shared memory."""
    flat = list(_flatten(value))
    extreme = not _EXTREMES.isdisjoint(flat)
    if target in flow.shared:
        facts.tree = True
        facts.extremes |= extreme
        facts.sums |= sign == "+="
        return
    loops = _own_loops(value, place, flow)
    if target in flow.pointers or not (loops or _shuffles(flat)):
        return
    count = (loops // LOOP).bit_count()
    factors = _factors(flat, target)
    if factors and _differ(*factors, value, flow):
        facts.contraction = max(facts.contraction or 0, count)
        facts.shared_contraction |= any(token in flow.shared or token in flow.staged for token in value)
        facts.register_tile |= target in flow.arrays
    elif _takes_data(flat, value, target, flow):
        facts.reduction = max(facts.reduction or 0, count)
        facts.sums |= sign == "+=" or "+" in flat
        facts.extremes |= extreme
        facts.running_mean |= sign == "+=" and "/" in flat
    if sign == "=" and "*" in flat and "+" in flat and target in flat:
        facts.rescaled |= flat.index(target) < flat.index("+") and "*" in flat[: flat.index("+")]
    facts.rescaled |= sign == "*=" and bool(flow.origins.get(target, 0) & DATA)


def _takes_data(flat: Sequence[str], value: Sequence[str], target: str, flow: Flow) -> bool:
    memory = flow.pointers | flow.shared | flow.arrays
    data = (token for token in flat if token != target)
    return any(flow.origins.get(token, 0) & DATA or token in memory for token in data) or _shuffles(value)


def _factors(flat: Sequence[str], target: str) -> tuple[set[str], set[str]] | None:
    """The names on both sides of a product in an accumulation, also of `fma`."""
    names = [call_name(token) for token in flat]
    if "fma" in names:
        inner = flat[names.index("fma") + 2 :]
        commas = [at for at, token in enumerate(inner) if token == ","][:2]
        if len(commas) == 2:
            return set(inner[: commas[0]]), set(inner[commas[0] + 1 : commas[1]])
    rest = [token for token in flat if token != target]
    if "*" not in rest:
        return None
    middle = rest.index("*")
    return set(rest[:middle]), set(rest[middle + 1 :])


def _differ(left: set[str], right: set[str], value: Sequence[str], flow: Flow) -> bool:
    """Whether both sides are data that were loaded from different places."""
    memory = flow.pointers | flow.shared | flow.arrays

    def data(names: set[str]) -> set[str]:
        return {name for name in names if name in memory or flow.origins.get(name, 0) & DATA}

    one, other = data(left), data(right)
    if not one or not other or one & other:
        return False
    places = [_subscripts(names, value, flow) for names in (one, other)]
    return bool(places[0] and places[1]) and places[0] != places[1]


def _subscripts(names: set[str], value: Sequence[str], flow: Flow) -> set[str]:
    found: set[str] = set().union(*(flow.loads.get(name, set()) for name in names))
    for at, token in enumerate(value[:-1]):
        if token in names and value[at + 1] == "[":
            found.add(" ".join(subscript(value, at + 1)))
    return found


def _is_indirect(statement: Sequence[str], opening: int, flow: Flow) -> bool:
    """Whether the subscript that opens here holds a value that was itself loaded."""
    if statement[opening] != "[":
        return False
    inner = subscript(statement, opening)
    return any(flow.origins.get(token, 0) & DATA for token in inner) or any(token in flow.pointers for token in inner)


def _loops(tokens: Iterable[str], flow: Flow) -> int:
    bits = 0
    for token in tokens:
        bits |= flow.origins.get(token, 0)
    return bits // LOOP * LOOP


def _flatten(value: Sequence[str]) -> Iterable[str]:
    """Without subscripts."""
    depth = 0
    for token in value:
        if token == "[":
            depth += 1
        elif token == "]":
            depth -= 1
        elif not depth:
            yield token


def name_algorithm(facts: Facts) -> str:
    """The label of a kernel."""
    exponential = bool(facts.calls & _EXPONENTIALS)
    if "mma_sync" in facts.tokens or "mma" in facts.tokens:
        return "tensor-core-attention" if exponential and facts.rescaled else "tensor-core-matmul"
    softmax = exponential and facts.extremes and facts.sums
    if facts.contraction is not None:
        if softmax:
            return "online-attention" if facts.rescaled else "attention"
        return _name_contraction(facts)
    if facts.doubling and (facts.tree or "__shfl_up_sync" in facts.tokens):
        return _name_scan(facts)
    if softmax:
        return "online-softmax" if facts.rescaled else f"{_cooperation(facts)}-softmax"
    if "^" in facts.tokens and facts.doubling:
        return "bitonic-sort"
    if facts.reduction is not None or facts.tree or _shuffles(facts.tokens):
        return _name_reduction(facts)
    return _name_pointwise(facts)


def _name_contraction(facts: Facts) -> str:
    if facts.contraction is not None and facts.contraction >= 2 and not facts.shared_contraction:
        return "direct-convolution"
    if _shuffles(facts.tokens) or facts.tree:
        return f"{_cooperation(facts)}-dot-product"
    split = any(token.startswith("atomic") for token in facts.tokens)
    kind = "register-tiled" if facts.register_tile else "tiled" if facts.shared_contraction else "naive"
    what = "convolution" if facts.contraction and facts.contraction >= 3 else "matmul"
    return f"split-{kind}-{what}" if split else f"{kind}-{what}"


def _name_scan(facts: Facts) -> str:
    if "__shfl_up_sync" in facts.tokens:
        return "shuffle-scan"
    return "work-efficient-scan" if facts.halving else "doubling-scan"


def _name_reduction(facts: Facts) -> str:
    if facts.stores_prefix and not facts.tree:
        return "serial-scan"
    if facts.running_mean:
        return f"{_cooperation(facts)}-welford"
    if facts.calls & {"rsqrt", "sqrt"} and facts.stores:
        return f"{_cooperation(facts)}-normalization"
    how = _cooperation(facts)
    if how == "serial" and facts.reduction is not None and facts.reduction >= 2:
        return "window-reduction"
    return f"{how}-reduction"


def _cooperation(facts: Facts) -> str:
    """How threads put their parts together."""
    if _shuffles(facts.tokens):
        return "shuffle"
    if facts.tree:
        return "tree"
    if any(token.startswith("atomic") for token in facts.tokens):
        return "atomic"
    return "serial"


def _shuffles(tokens: Iterable[str]) -> bool:
    return any(token.startswith(("__shfl", "__reduce")) or token == "tiled_partition" for token in tokens)


def _name_pointwise(facts: Facts) -> str:
    atomic = any(token.startswith("atomic") for token in facts.tokens)
    if facts.shared_atomics:
        return "privatized-scatter"
    if atomic:
        return "atomic-scatter" if facts.scatters else "atomic-reduction"
    if facts.scatters:
        return "scatter"
    if facts.gathers:
        return "gather"
    if "__shared__" in facts.tokens:
        return "staged-copy" if facts.copies else "staged-stencil"
    if facts.stores and facts.copies >= facts.stores:
        return "copy"
    return "pointwise"
