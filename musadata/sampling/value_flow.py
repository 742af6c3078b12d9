"""What each name in a device function stands for: where its value comes from decides, not how it is called.

Roles replace names, so that renaming and reordering change nothing, but swapping two indices does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from musadata.sampling.device_code import Function
from musadata.sampling.statements import WORDS, Assignment, Tokens, is_field

# Where a value comes from, as bits; loops of a function are counted from LOOP on.
THREAD, LATER_THREAD, BLOCK, QUOTIENT, DATA, LOOP = 1, 2, 4, 8, 16, 32
_SOURCES = {"threadIdx_x": THREAD, "thread_rank": THREAD, "threadIdx_y": LATER_THREAD, "threadIdx_z": LATER_THREAD}
_SOURCES |= {f"blockIdx_{axis}": BLOCK for axis in "xyz"}
_KEPT, _LIMITS, _MATH = (frozenset(WORDS[key].split()) for key in ("kept", "limits", "math"))
_SAME_CALL = {"fmaxf": "max", "fmax": "max", "fminf": "min", "fmin": "min", "fabsf": "abs", "fabs": "abs"}
_PASSES = 4  # over a function's assignments; values that a loop carries further than this are rare


@dataclass(eq=False)
class Flow:
    """The values of one function.

    Attributes:
        roles: of each name, one token.
        origins: of each variable, bits: see `THREAD` and those after it.
        loops: the bit of each loop variable.
        pointers, shared, arrays: names of pointers, arrays in shared memory and arrays of a thread.
        fixed: variables that are given a number once, as constants are.
    """

    roles: dict[str, str] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    pointers: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    fixed: set[str] = field(default_factory=set)

    @property
    def is_parallel(self) -> bool:
        """Whether blocks share a loop, as one with a stride of the grid."""
        return any(self.origins[name] & BLOCK and not self.origins[name] & DATA for name in self.loops)


@lru_cache(maxsize=1024)  # as functions are, by identity
def follow_values(function: Function, functions: frozenset[str]) -> Flow:
    """The flow of a function's values; `functions` are the names of all device functions around it."""
    parameters, pointers = _parameters(function.header)
    flow = Flow(
        pointers=frozenset([*pointers, *(one.pointer for one in function.statements if one.pointer)]),
        shared=frozenset(name for one in function.statements for name in one.shared),
        arrays=frozenset(one.array for one in function.statements if one.array),
    )
    _find_loops(flow, function)
    memory = flow.pointers | flow.shared
    values = [_read_value(one, memory) for one in function.assignments if one.target not in memory]
    _propagate(flow, values)
    flow.fixed = _list_fixed(values, flow, function)
    _name_roles(flow, function, functions, frozenset(parameters))
    return flow


def _parameters(header: Tokens) -> tuple[list[str], list[str]]:
    """Names of all parameters, and of those that are pointers or references."""
    names, pointers, indirect, last = [], [], False, ""
    for token in (*header, ","):
        if token in ("*", "&", "["):
            indirect = True
        elif token in (",", ")") and last:
            names.append(last)
            if indirect:
                pointers.append(last)
            indirect, last = False, ""
        elif token.isidentifier():
            last = token
    return names, pointers


def _find_loops(flow: Flow, function: Function) -> None:
    """Count the variables that a `for` or the condition of a `while` names first."""
    if function.tokens.isdisjoint(("for", "while")):
        return
    repeated = {token for one in function.statements if one.tokens[0] == "while" for token in one.tokens}
    for one in function.assignments:
        if (one.place[0] == "for" or one.target in repeated) and one.target not in flow.loops:
            flow.origins[one.target] = flow.loops[one.target] = LOOP << len(flow.loops)


_Value = tuple[str, int, list[str], bool]  # target, origins, variables, whether divided


def _read_value(one: Assignment, memory: frozenset[str]) -> _Value:
    bits, names = 0 if memory.isdisjoint(one.indexed) else DATA, [one.target] if one.sign != "=" else []
    for name in one.words:
        if name in _SOURCES:
            bits |= _SOURCES[name]
        elif name not in memory:
            names.append(name)
    return one.target, bits, names, one.divided


def _list_fixed(values: Sequence[_Value], flow: Flow, function: Function) -> set[str]:
    stepped = {one.stepped for one in function.statements if one.stepped}
    once: set[str] = set()
    for target, *_ in values:
        (stepped if target in once else once).add(target)
    numbers = function.constants | _LIMITS
    return {
        target
        for target, _, names, _ in values
        if not flow.origins[target]
        and target not in stepped
        and target not in flow.arrays
        and numbers.issuperset(names)
    }


def _propagate(flow: Flow, values: Sequence[_Value]) -> None:
    """Add to each variable's origins what the values hold that are assigned to it."""
    origins = flow.origins
    for _ in range(_PASSES):
        changed = False
        for target, bits, names, divided in values:
            for name in names:
                bits |= origins.get(name, 0)
            if divided and not bits & DATA and bits & (THREAD | LATER_THREAD):
                bits = (bits & ~THREAD) | QUOTIENT
            known = origins.get(target)
            if known is None or bits | known != known:
                origins[target] = (known or 0) | bits
                changed = True
        if not changed:
            break


def _name_roles(flow: Flow, function: Function, functions: frozenset[str], parameters: frozenset[str]) -> None:
    for token in function.tokens:
        if token in flow.origins:  # first, since a variable may be called "half"
            flow.roles[token] = "0" if token in flow.fixed else _variable(flow.origins[token])
        else:
            flow.roles[token] = _same_everywhere(token) or _role(flow, function, functions, parameters, token)


@lru_cache(maxsize=1 << 14)
def _same_everywhere(token: str) -> str:
    """The role of a token that no author chose; "" for names."""
    if token.isidentifier():
        if token in _LIMITS:
            return "0"
        return token if token in _KEPT or token in _SOURCES or token[:-2] in ("blockDim", "gridDim") else ""
    if is_field(token):
        return token if token[1:] in _AXES else ".V"
    return "0" if token[-1].isalnum() or (token[-1] == "." and len(token) > 1) else token


def _role(flow: Flow, function: Function, functions: frozenset[str], parameters: frozenset[str], token: str) -> str:
    for role, names in (("0", function.constants), ("M", flow.shared), ("P", flow.pointers), ("A", flow.arrays)):
        if token in names:
            return role
    for role, names in (("F", functions), ("S", parameters), ("float", function.types)):
        if token in names:
            return role
    return call_name(token)


_AXES = frozenset("xyzw")


def _variable(bits: int) -> str:
    if bits & DATA:
        return "D"
    letters = ((THREAD, "X"), (LATER_THREAD, "Y"), (QUOTIENT, "Q"), (BLOCK, "B"))
    return "".join(letter for bit, letter in letters if bits & bit) + ("L" if bits >= LOOP else "") or "V"


@lru_cache(maxsize=4096)
def call_name(name: str) -> str:
    """One name for a function and its variants in single precision: `expf`, `__expf` and `exp` are "exp"."""
    short = _SAME_CALL.get(name, name)
    if short.startswith("__") and short.endswith("f"):
        short = short[2:]
    return short[:-1] if short.endswith("f") and short[:-1] in _MATH else short
