"""Which algorithm a kernel is, from its statements and the flow of its values.

A label is what a CUDA programmer would call it: `tiled-matmul`, `online-softmax`, `tree-reduction`, `pointwise`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from musadata.sampling.device_code import Function
from musadata.sampling.statements import Assignment, Tokens, marks_of, subscript
from musadata.sampling.value_flow import COMPUTED, DATA, LOOP, Flow, call_name

_EXTREMES = frozenset({"max", "min", "fmax", "fmin", "fmaxf", "fminf"})
_CURVES = frozenset({"exp", "exp2", "sqrt", "rsqrt", "tanh", "log", "erf"})
_ARITHMETIC = frozenset("+-*/%<>")


@dataclass
class Facts:
    """What is seen in a kernel and the device functions that it calls.

    Attributes:
        seen: marks of its tokens, and of its assignments: "doubling", "halving", "extremes", "gathers", "rescaled",
            "running-mean", "scatters", "sums", "tree", "stores-prefix", and "staged" or "register-tile" contractions.
        contraction: loops within a sum of products of two differently indexed operands, or None without one.
        reduction: the most loops that one accumulation runs over, or None without one.
        stores, copies: assignments to memory, and those that compute nothing.
    """

    seen: set[str] = field(default_factory=set)
    contraction: int | None = None
    reduction: int | None = None
    stores: int = 0
    copies: int = 0


def observe(parts: Iterable[tuple[Function, Flow]]) -> Facts:
    """The facts of a kernel with its device functions."""
    facts = Facts()
    for function, flow in parts:
        facts.seen |= function.marks
        if "atomic" in function.marks:
            for statement in function.statements:
                _observe_atomics(facts, statement.tokens, flow)
        for one in function.assignments:
            _observe_assignment(facts, one, flow)
    return facts


def _observe_assignment(facts: Facts, one: Assignment, flow: Flow) -> None:
    if one.value[-1:] in _BY_A_NUMBER:
        facts.seen.update(_steps(one))
    if one.target in flow.pointers:
        _observe_store(facts, one, flow)
    for name, index in one.loads:
        if name in flow.pointers and not flow.loaded.isdisjoint(index):
            facts.seen.add("gathers")
    loops = _loops(one.words, flow) & ~flow.parallel
    if loops:  # not over what counts the place
        loops &= ~_loops(one.place[1:], flow)
    if one.sign in _ACCUMULATING or one.target in one.value:
        _observe_accumulation(facts, one, loops, flow)
    elif loops and _carries(one, flow):
        facts.reduction = max(facts.reduction or 0, 1)
    if loops and not _EXTREMES.isdisjoint(one.words) and _takes_data(one.words, one, flow):
        facts.seen.add("extremes")


_BY_A_NUMBER = frozenset({("1",), ("2",), (")",)})
_ACCUMULATING = frozenset({"+=", "-=", "*="})


def _steps(one: Assignment) -> Iterable[str]:
    tokens = (*one.place, one.sign, *one.value)
    if (tokens[-2] if tokens[-1] == ")" else tokens[-1]) in ("1", "2"):
        if one.sign in (">>=", "/=") or one.value[-3:-1] == (one.target, ">>") or tokens[-2] == ">>":
            yield "halving"
        if one.sign in ("<<=", "*="):
            yield "doubling"


def _carries(one: Assignment, flow: Flow) -> bool:
    """Whether a variable gets the value that was made of it before: `next = f(total); total = next`."""
    if len(one.value) != 1:
        return False
    name = one.value[0]
    return one.target in flow.reads.get(name, ()) and bool(flow.origins.get(name, 0) & DATA)


def _observe_store(facts: Facts, one: Assignment, flow: Flow) -> None:
    facts.stores += 1
    if "[" in one.place and not flow.loaded.isdisjoint(subscript(one.place, one.place.index("["))):
        facts.seen.add("scatters")
    names = [token for token in one.flat if token.isidentifier()]
    if not (flow.loaded.isdisjoint(names) and flow.shared.isdisjoint(names)):
        facts.copies += _ARITHMETIC.isdisjoint(one.flat) and not any(_is_computed(name, flow) for name in names)
    if len(names) == 1:
        running = _loops(names, flow) & ~flow.parallel
        if running & _loops(one.place, flow) and names[0] in flow.reads.get(names[0], ()):
            facts.seen.add("stores-prefix")


def _is_computed(name: str, flow: Flow) -> bool:
    return bool(flow.origins.get(name, 0) & COMPUTED) or name in _EXTREMES or call_name(name) in _CURVES


def _observe_atomics(facts: Facts, tokens: Tokens, flow: Flow) -> None:
    for place, token in enumerate(tokens):
        if token.startswith("atomic"):
            rest = tokens[place:]
            if not flow.shared.isdisjoint(rest):
                facts.seen.add("shared-atomics")
            if "[" in rest and not flow.loaded.isdisjoint(subscript(rest, rest.index("["))):
                facts.seen.add("scatters")


def _observe_accumulation(facts: Facts, one: Assignment, loops: int, flow: Flow) -> None:
    """A variable that takes up more with every turn of a loop, or a step of a tree in shared memory."""
    seen, flat = facts.seen, one.flat
    found = {"extremes"} if not _EXTREMES.isdisjoint(flat) else set()
    if one.target in flow.shared:
        seen |= found | {"tree"} | ({"sums"} if one.sign == "+=" else set())
        return
    if one.target in flow.pointers or not (loops or _shuffles(flat)):
        return
    count = (loops // LOOP).bit_count()
    factors = _factors(flat, one.target)
    if factors and _differ(*factors, one, flow):
        facts.contraction = max(facts.contraction or 0, count)
        if any(name in flow.shared or name in flow.staged for name in one.words):
            seen.add("staged")
        if one.target in flow.arrays:
            seen.add("register-tile")
    elif _takes_data(flat, one, flow):
        facts.reduction = max(facts.reduction or 0, count)
        seen |= found
        if one.sign == "+=" or "+" in flat:
            seen.add("sums")
        if one.sign == "+=" and "/" in flat:
            seen.add("running-mean")
    if _rescales(one, flow):
        seen.add("rescaled")


def _rescales(one: Assignment, flow: Flow) -> bool:
    """Whether what was accumulated is multiplied, alone or before something is added to it."""
    if one.sign == "=" and "+" in one.flat:
        before = one.flat[: one.flat.index("+")]
        return one.target in before and "*" in before
    return one.sign == "*=" and bool(flow.origins.get(one.target, 0) & DATA)


def _takes_data(tokens: Tokens, one: Assignment, flow: Flow) -> bool:
    data = {token for token in tokens if token != one.target}
    sources = (flow.loaded, flow.shared, flow.arrays)
    return any(not names.isdisjoint(data) for names in sources) or _shuffles(one.words)


def _shuffles(tokens: Tokens) -> bool:
    return any("shuffle" in marks_of(token) for token in tokens)


def _factors(flat: Tokens, target: str) -> tuple[set[str], set[str]] | None:
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


def _differ(left: set[str], right: set[str], one: Assignment, flow: Flow) -> bool:
    """Whether both sides are data that were loaded from different places."""
    memory = flow.loaded | flow.shared | flow.arrays
    left, right = left & memory, right & memory
    if not left or not right or left & right:
        return False
    first, second = _subscripts(left, one, flow), _subscripts(right, one, flow)
    return bool(first and second) and first != second


def _subscripts(names: set[str], one: Assignment, flow: Flow) -> set[Tokens]:
    found = {index for name, index in one.loads if name in names}
    return found.union(*(flow.loads[name] for name in names if name in flow.loads))


def _loops(tokens: Iterable[str], flow: Flow) -> int:
    bits = 0
    if flow.loops:
        for token in tokens:
            bits |= flow.origins.get(token, 0)
    return bits // LOOP * LOOP


def name_algorithm(facts: Facts) -> str:
    """The label of a kernel."""
    seen = facts.seen
    if "matrix-unit" in seen:
        return "tensor-core-attention" if {"exponential", "rescaled"} <= seen else "tensor-core-matmul"
    softmax = {"exponential", "extremes", "sums"} <= seen
    if facts.contraction is not None:
        if softmax:
            return "online-attention" if "rescaled" in seen else "attention"
        return _name_contraction(facts, facts.contraction)
    if "shuffle-up" in seen or {"doubling", "tree"} <= seen:
        return _name_scan(facts)
    if softmax:
        return "online-softmax" if "rescaled" in seen else f"{_cooperation(facts)}-softmax"
    if {"exclusive-or", "doubling"} <= seen:
        return "bitonic-sort"
    if facts.reduction is not None or not seen.isdisjoint(("tree", "shuffle")):
        return _name_reduction(facts)
    return _name_pointwise(facts)


def _name_contraction(facts: Facts, loops: int) -> str:
    seen = facts.seen
    if loops >= 2 and "staged" not in seen:
        return "direct-convolution"
    if not seen.isdisjoint(("tree", "shuffle")):
        return f"{_cooperation(facts)}-dot-product"
    kind = "register-tiled" if "register-tile" in seen else "tiled" if "staged" in seen else "naive"
    what = "convolution" if loops >= 3 else "matmul"
    return f"split-{kind}-{what}" if "atomic" in seen else f"{kind}-{what}"


def _name_scan(facts: Facts) -> str:
    if "shuffle-up" in facts.seen:
        return "shuffle-scan"
    return "work-efficient-scan" if "halving" in facts.seen else "doubling-scan"


def _name_reduction(facts: Facts) -> str:
    how = _cooperation(facts)
    if "stores-prefix" in facts.seen and "tree" not in facts.seen:
        return "serial-scan"
    if "running-mean" in facts.seen:
        return f"{how}-welford"
    if "root" in facts.seen and facts.stores:
        return f"{how}-normalization"
    if how == "serial" and facts.reduction is not None and facts.reduction >= 2:
        return "window-reduction"
    return f"{how}-reduction"


def _cooperation(facts: Facts) -> str:
    """How threads put their parts together."""
    return next((way for way in ("shuffle", "tree", "atomic") if way in facts.seen), "serial")


def _name_pointwise(facts: Facts) -> str:
    seen = facts.seen
    if "shared-atomics" in seen:
        return "privatized-scatter"
    if "atomic" in seen:
        return "atomic-scatter" if "scatters" in seen else "atomic-reduction"
    if "scatters" in seen:
        return "scatter"
    if "gathers" in seen:
        return "gather"
    if "shared-memory" in seen:
        return "staged-copy" if facts.copies else "staged-stencil"
    if facts.stores and facts.copies >= facts.stores:
        return "copy"
    return "pointwise"
