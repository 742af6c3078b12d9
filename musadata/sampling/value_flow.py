"""What each name in a device function stands for: where its value comes from decides, not how it is called.

Roles replace names, so that renaming and reordering change nothing, but swapping two indices does.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from musadata.sampling.device_code import WORDS, Function, Statement

# Where a value comes from, as bits; loops of a function are counted from LOOP on.
THREAD, LATER_THREAD, BLOCK, QUOTIENT, DATA, COMPUTED, LOOP = 1, 2, 4, 8, 16, 32, 64
_SOURCES = {"threadIdx_x": THREAD, "thread_rank": THREAD, "threadIdx_y": LATER_THREAD, "threadIdx_z": LATER_THREAD}
_SOURCES |= {f"blockIdx_{axis}": BLOCK for axis in "xyz"}
_ASSIGNING = frozenset({"=", "+=", "-=", "*=", "/=", "|=", "^=", "&=", "%=", "<<=", ">>="})
_KEPT, _LIMITS, _MATH = (frozenset(WORDS[key].split()) for key in ("kept", "limits", "math"))
_SAME_CALL = {"fmaxf": "max", "fmax": "max", "fminf": "min", "fmin": "min", "fabsf": "abs", "fabs": "abs"}
_PASSES = 4  # over a function's assignments; values that a loop carries further than this are rare


@dataclass
class Flow:
    """The values of one function.

    Attributes:
        roles: of each name, one token.
        origins: of each variable, bits: see `THREAD` and those after it.
        loops: the bit of each loop variable; `parallel` are those of loops that the whole grid shares.
        loads: of each variable that was loaded from memory, with which subscripts.
        pointers, shared, arrays: names of pointers, arrays in shared memory and arrays of a thread.
        staged: variables and arrays of a thread that were loaded from shared memory.
        reads: of each variable, from which others it is computed.
        fixed: variables that are given a number once, as constants are.
        assignments: (target, position of the sign) of each statement that is one.
    """

    roles: dict[str, str] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    parallel: int = 0
    loads: dict[str, set[str]] = field(default_factory=dict)
    pointers: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    staged: set[str] = field(default_factory=set)
    reads: dict[str, set[str]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    assignments: dict[Statement, tuple[str, int]] = field(default_factory=dict)


@lru_cache(maxsize=1024)  # as functions are, by identity
def follow_values(function: Function, functions: frozenset[str]) -> Flow:
    """The flow of a function's values; `functions` are the names of all device functions around it."""
    flow = Flow()
    parameters, pointers = _parameters(function.header)
    flow.shared, flow.arrays, more = _declared(function.statements)
    flow.pointers = frozenset(pointers) | more
    memory = flow.pointers | flow.shared
    flow.assignments = {statement: found for statement in function.statements if (found := split_assignment(statement))}
    assigned = [(target, statement[at + 1 :], statement) for statement, (target, at) in flow.assignments.items()]
    repeated = {token for statement in function.statements if statement[0] == "while" for token in statement}
    for target, _, statement in assigned:
        if (statement[0] == "for" or target in repeated) and target not in flow.loops:
            flow.loops[target] = LOOP << len(flow.loops)
            flow.origins[target] = flow.loops[target]
    values = [_read_value(flow, target, value, memory) for target, value, _ in assigned if target not in memory]
    for target, _, names, _, _ in values:
        flow.reads.setdefault(target, set()).update(names)
    for statement, (target, at) in flow.assignments.items():
        if statement[at] != "=":
            flow.reads.setdefault(target, set()).add(target)
    _propagate(flow, values)
    flow.fixed = _list_fixed(values, flow, function)
    for name, bit in flow.loops.items():
        if flow.origins[name] & BLOCK and not flow.origins[name] & DATA:
            flow.parallel |= bit
    _name_roles(flow, function, functions, frozenset(parameters))
    return flow


def split_assignment(statement: Statement) -> tuple[str, int] | None:
    """(target, position of the sign) of an assignment; of `x[i] = …` the target is x."""
    for at, token in enumerate(statement):
        if token in _ASSIGNING:
            target = _owner(statement, at - 1)
            return (target, at) if target else None
    return None


def _owner(statement: Statement, at: int) -> str:
    """The name before a position, over subscripts and fields."""
    while at >= 0 and statement[at] == "]":
        depth = 0
        while at >= 0:
            depth += (statement[at] == "]") - (statement[at] == "[")
            at -= 1
            if not depth:
                break
    if at >= 1 and _is_field(statement[at]):
        return _owner(statement, at - 1)
    return statement[at] if at >= 0 and (statement[at][0].isalpha() or statement[at][0] == "_") else ""


def _parameters(header: Statement) -> tuple[list[str], list[str]]:
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
        elif token[0].isalpha() or token[0] == "_":
            last = token
    return names, pointers


def _declared(statements: Sequence[Statement]) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Names of shared arrays, of local arrays, and of local pointers."""
    shared, arrays, pointers = set(), set(), set()
    for statement in statements:
        if "__shared__" in statement:
            for at, token in enumerate(statement):
                if token == "[" and statement[at - 1] != "]":
                    shared.add(statement[at - 1])
            if "[" not in statement:
                shared.add(statement[-1])
        elif "[" in statement[:3] and (statement[-1] == "=" or not _ASSIGNING.intersection(statement)):
            arrays.add(statement[statement.index("[") - 1])
        elif "=" in statement and (at := statement.index("=")) >= 2 and statement[at - 2] in ("*", "&"):
            pointers.add(statement[at - 1])
    return frozenset(shared), frozenset(arrays), frozenset(pointers)


_Value = tuple[str, int, list[str], bool, bool]  # target, origins, variables, whether divided, whether computed


def _read_value(flow: Flow, target: str, value: Statement, memory: frozenset[str]) -> _Value:
    bits, names, divided, computed, depth, inside = 0, [], False, False, 0, 0
    for at, token in enumerate(value):
        if token in _OPERATORS:
            if token == "[":
                inside += 1
            elif token == "]":
                inside -= 1
            elif token == "(":
                depth += 1
                computed |= not inside and at > 0 and (value[at - 1][-1].isalnum() or value[at - 1][-1] == "_")
            elif token == ")":
                depth -= 1
            elif not inside:
                computed = True
                divided |= not depth and token in ("/", ">>")
        elif token in memory:
            if value[at + 1 : at + 2] == ("[",):
                bits |= DATA
                flow.loads.setdefault(target, set()).add(" ".join(subscript(value, at + 1)))
                if token in flow.shared:
                    flow.staged.add(target)
        elif token in _SOURCES:
            bits |= _SOURCES[token]
        elif token[0].isalpha() or token[0] == "_":
            names.append(token)
    return target, bits, names, divided, computed


def _list_fixed(values: Sequence[_Value], flow: Flow, function: Function) -> set[str]:
    times = Counter(target for target, *_ in values)
    times.update(statement[0] for statement in function.statements if statement[1:2] in (("++",), ("--",)))
    return {
        target
        for target, _, names, _, _ in values
        if times[target] == 1
        and not flow.origins[target]
        and target not in flow.reads.get(target, ())
        and target not in flow.arrays
        and all(name in function.constants or name in _LIMITS for name in names)
    }


def _propagate(flow: Flow, values: Sequence[_Value]) -> None:
    """Add to each variable's origins what the values hold that are assigned to it."""
    origins = flow.origins
    for _ in range(_PASSES):
        changed = False
        for target, bits, names, divided, computed in values:
            for name in names:
                bits |= origins.get(name, 0)
            if bits & DATA:
                bits |= computed * COMPUTED
            elif divided and bits & (THREAD | LATER_THREAD):
                bits = (bits & ~THREAD) | QUOTIENT
            known = origins.get(target)
            if known is None or bits | known != known:
                origins[target] = (known or 0) | bits
                changed = True
        if not changed:
            break


_OPERATORS = frozenset("[ ] ( ) + - * / % >> << & | ^ < >".split())  # noqa: SIM905


def subscript(statement: Sequence[str], opening: int) -> Sequence[str]:
    """The tokens within the brackets that open at a position."""
    depth = 0
    for at in range(opening, len(statement)):
        depth += (statement[at] == "[") - (statement[at] == "]")
        if not depth:
            return statement[opening + 1 : at]
    return statement[opening + 1 :]


def _name_roles(flow: Flow, function: Function, functions: frozenset[str], parameters: frozenset[str]) -> None:
    tokens = set().union(*function.statements)
    for token in tokens:
        if token in flow.origins:  # first, since a variable may be called "half"
            flow.roles[token] = "0" if token in flow.fixed else _variable(flow.origins[token])
        else:
            flow.roles[token] = _same_everywhere(token) or _role(flow, function, functions, parameters, token)


@lru_cache(maxsize=1 << 14)
def _same_everywhere(token: str) -> str:
    """The role of a token that no author chose; "" for names."""
    if token[0].isalpha() or token[0] == "_":
        if token in _LIMITS:
            return "0"
        return token if token in _KEPT or token in _SOURCES or token[:-2] in ("blockDim", "gridDim") else ""
    if _is_field(token):
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


def _is_field(token: str) -> bool:
    return token[:2] == "->" or (token[0] == "." and token[1:2].isalpha())


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
