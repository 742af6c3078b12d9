"""What a kernel's code says that its counters need: names of its pointers, its vector types, and whether the accesses
of its threads can be put together into instructions of warps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from musadata.verifier.compilation.speculative_compile import predict_sources

_LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
_STEPS = re.compile(r"__syncthreads\w*|__syncwarp|__shfl\w*_sync|__(any|all|ballot|match_any|match_all|reduce\w*)_sync")
_VECTOR = re.compile(r"\b(?:u?(?:char|short|int|long|longlong)|float|double|half|__half|__nv_bfloat16)([234])\b")
_ALIGN = re.compile(rb"__align__\s*\((?:[^()]|\([^()]*\))*\)")
_BYTES = {"char": 1, "short": 2, "int": 4, "long": 8, "float": 4, "double": 8, "half": 2, "bfloat16": 2}
_UNSEEN = (
    (re.compile(r"\basm\b"), "inline PTX"),
    (re.compile(r"\bwmma\b"), "tensor core fragments"),
    (re.compile(r"\bstruct\s+__align__"), "vectors of a width that is a parameter"),
    (re.compile(r"__pipeline_|memcpy_async|\bmemcpy\b"), "copies that are not accesses of threads"),
    (re.compile(r"coalesced_threads|__activemask|tiled_partition|cooperative_groups"), "groups of some lanes"),
    (re.compile(r"\bgoto\b"), "jumps"),
    (re.compile(r"\[[&=][^\]]*\]\s*[({]"), "lambdas"),
    (re.compile(r"\b[A-Z][A-Z0-9_]{3,}\s*\([^;{}]*\)\s*\{"), "macros with loops or conditions"),
)
_MASKED = re.compile(r"(?:_sync|__syncwarp)\(\s*([^,()]+)[,)]")
_BY_REFERENCE = re.compile(r"\(&\s*(\w+)\)\s*\[")  # arrays of the caller, in its registers
_PART = re.compile(r"(\w+)\s*\[(?:[^\[\]]*\+\s*)?([0-9]+)\]")
_WHOLE_WARP = re.compile(r"(0[xX][fF]{8}[uU]?|~0[uU]?|-1|FULL_MASK|FULL_WARP|WARP_MASK)")


@dataclass(frozen=True)
class KernelCode:
    """One `__global__` function.

    Attributes:
        pointers: names of the parameters that are pointers, in order.
        window: bytes of the widest vector type that it names; 0 for none.
        unseen: what it does that counts of accesses do not show; "" for nothing.
        skips: an access stands under a condition in a loop whose turns do not bring the warp into step.
        nested: such loops stand in each other.
        constants: whether the source has `__constant__` variables.
    """

    name: str
    text: str
    pointers: tuple[str, ...]
    window: int
    unseen: str
    skips: bool
    nested: bool
    constants: bool
    called: tuple[str, ...] = ()  # texts of the device functions that it calls
    gathered: frozenset[str] = frozenset()  # pointers of which it accesses elements that values in memory choose


@dataclass
class _Function:
    node: Node
    text: str
    calls: set[str] = field(default_factory=set)
    steps: bool = False
    accesses: list[list[str]] = field(default_factory=list)  # "loop" and "condition" around each, from the inside


def read_kernels(source: str) -> dict[str, KernelCode]:
    """The kernels of a candidate by name; none where its CUDA C++ cannot be read without running it."""
    return read_cuda("\n".join(text for one in predict_sources(source) for text in one.cuda))


def read_cuda(code: str) -> dict[str, KernelCode]:
    """The kernels of CUDA C++ by name."""
    functions = _find_functions(code)
    for function in functions.values():
        function.calls = {name for name in _called(function.node) if name in functions}
    for function in functions.values():
        function.steps = any(_STEPS.search(functions[name].text) for name in _reached(function, functions))
    for name, function in functions.items():
        function.accesses = list(_list_accesses(function, functions, frozenset({name})))
    constants = "__constant__" in code
    return {
        name: _describe(name, function, functions, constants)
        for name, function in functions.items()
        if re.search(r"\b__global__\b", function.text.partition("{")[0])
    }


def _describe(name: str, function: _Function, functions: Mapping[str, _Function], constants: bool) -> KernelCode:
    reached = _reached(function, functions) - {name}
    called = [one for other, one in functions.items() if other in reached]
    whole = "\n".join(one.text for one in [function, *called])
    return KernelCode(
        name=name,
        text=function.text,
        pointers=tuple(_pointers(function.node)),
        window=max(map(_vector_bytes, _VECTOR.finditer(whole)), default=0),
        unseen=_find_unseen(whole) or _find_parts([function, *called]),
        skips=any("condition" in _inside_loops(around) for around in function.accesses),
        nested=any(around.count("loop") > 1 for around in function.accesses),
        constants=constants,
        called=tuple(one.text for one in called),
        gathered=_find_gathered(function.node),
    )


def _inside_loops(around: list[str]) -> list[str]:
    """What stands inside the outermost loop; nothing where there is none."""
    outermost = max((place for place, what in enumerate(around) if what == "loop"), default=0)
    return around[:outermost]


def _vector_bytes(found: re.Match[str]) -> int:
    kind = found[0][:-1].removeprefix("__").removeprefix("nv_")
    kind = "long" if kind.endswith("longlong") else kind
    kind = kind.removeprefix("u") if kind.startswith("u") else kind
    width = _BYTES[kind] * int(found[1])
    return min(width, 16) if found[1] != "3" else 0


def _find_unseen(text: str) -> str:
    found = next((what for form, what in _UNSEEN if form.search(text)), "")
    if not found and not all(_WHOLE_WARP.fullmatch(mask[1].strip()) for mask in _MASKED.finditer(text)):
        return "collectives of some lanes"
    return found


def _find_parts(functions: Sequence[_Function]) -> str:
    """Neighbours that are accessed one by one where vectors are accessed too: counted, both look the same."""
    for function in functions:
        places: dict[str, set[str]] = {}
        for node in _walk(function.node) if _VECTOR.search(function.text) else ():
            if node.type == "subscript_expression" and (part := _PART.fullmatch((node.text or b"").decode())):
                places.setdefault(part[1], set()).add(part[2])
        own = _local_arrays(function.node) | set(_BY_REFERENCE.findall(function.text))
        if any(len(parts) > 1 for base, parts in places.items() if base not in own):
            return "vectors, and their components one by one"
    return ""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def _find_functions(code: str) -> dict[str, _Function]:
    found: dict[str, _Function] = {}
    text_of = code.encode()
    blank = _ALIGN.sub(lambda found: b" " * len(found[0]), text_of)  # of which the grammar knows nothing
    for node in _walk(_parser().parse(blank).root_node):
        if node.type == "function_definition" and (name := _name_of(node)):
            whole = node.parent if node.parent and node.parent.type == "template_declaration" else node
            text = text_of[whole.start_byte : whole.end_byte].decode(errors="replace")
            found.setdefault(name, _Function(node, text))
    return found


def _walk(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _name_of(function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    name = declarator.child_by_field_name("declarator") if declarator else None
    return (name.text or b"").decode() if name is not None else ""


def _pointers(function: Node) -> Iterator[str]:
    parameters = next((node for node in _walk(function) if node.type == "parameter_list"), None)
    for parameter in parameters.named_children if parameters else ():
        declarator = parameter.child_by_field_name("declarator")
        if declarator is not None and declarator.type in ("pointer_declarator", "array_declarator"):
            names = [node for node in _walk(declarator) if node.type == "identifier"]
            yield (names[0].text or b"").decode() if names else ""


def _find_gathered(function: Node) -> frozenset[str]:
    """The pointers that are indexed by what was loaded from memory."""
    pointers, loaded = set(_pointers(function)), set[str]()
    made = [
        (_text(node.child_by_field_name(to)), node.child_by_field_name(value))
        for node in _walk(function)
        for kind, to, value in (("init_declarator", "declarator", "value"), ("assignment_expression", "left", "right"))
        if node.type == kind
    ]
    for _ in made:  # until nothing is added
        more = {name for name, value in made if value is not None and _is_loaded(value, pointers, loaded)} - loaded
        if not more:
            break
        loaded |= more
    accesses = [node for node in _walk(function) if node.type == "subscript_expression"]
    return frozenset(
        name
        for node in accesses
        if (name := _text(node.child_by_field_name("argument"))) in pointers
        and any(_is_loaded(part, pointers, loaded) for part in node.children[1:])
    )


def _is_loaded(node: Node, pointers: set[str], loaded: set[str]) -> bool:
    """Whether an expression has a value from memory in it."""
    return any(
        (one.type == "subscript_expression" and _text(one.child_by_field_name("argument")) in pointers)
        or (one.type == "identifier" and _text(one) in loaded)
        for one in _walk(node)
    )


def _text(node: Node | None) -> str:
    return ((node.text if node else b"") or b"").decode(errors="replace")


def _called(function: Node) -> Iterator[str]:
    for node in _walk(function):
        if node.type == "call_expression":
            yield _callee(node)


def _callee(call: Node) -> str:
    text = ((called := call.child_by_field_name("function")) and called.text) or b""
    return text.decode(errors="replace").partition("<")[0].rpartition("::")[2]


def _reached(function: _Function, functions: Mapping[str, _Function]) -> set[str]:
    """The names of all functions that a call leads to, with its own."""
    found = {name for name, one in functions.items() if one is function}
    waiting = set(function.calls)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting |= functions[name].calls
    return found


def _list_accesses(
    function: _Function, functions: Mapping[str, _Function], above: frozenset[str]
) -> Iterator[list[str]]:
    """What stands around each access, from the inside up to a loop that brings the warp into step in every turn."""
    own = _local_arrays(function.node)
    for node in _walk(function.node):
        if _is_access(node, own):
            yield _list_around(node, function, functions)
        elif node.type == "call_expression" and (name := _callee(node)) in functions and name not in above:
            around = _list_around(node, function, functions)
            for inner in _list_accesses(functions[name], functions, above | {name}):
                yield [*inner, *around]


def _is_access(node: Node, own: set[str]) -> bool:
    if node.type == "subscript_expression":
        base = node.child_by_field_name("argument")
        while base is not None and base.type == "subscript_expression":
            base = base.child_by_field_name("argument")
        return base is None or (base.text or b"").decode(errors="replace") not in own
    if node.type == "pointer_expression":
        return (node.text or b"").startswith(b"*")
    return node.type == "call_expression" and _callee(node).startswith(("atomic", "__ld", "__st"))


def _local_arrays(function: Node) -> set[str]:
    """Arrays in a thread's own registers or stack."""
    found = set()
    for node in _walk(function):
        if node.type == "declaration" and not re.search(rb"\b(__shared__|extern)\b", node.text or b""):
            for part in _walk(node):
                if part.type == "array_declarator":
                    inner = part.child_by_field_name("declarator")
                    found.add(((inner.text if inner else b"") or b"").decode(errors="replace"))
    return found


def _list_around(node: Node, function: _Function, functions: Mapping[str, _Function]) -> list[str]:
    around: list[str] = []
    child, parent = node, node.parent
    while parent is not None and child != function.node:
        if parent.type in _LOOPS:
            if _brings_into_step(parent, functions):
                return around
            if _ends_early(parent):
                around.append("condition")
            around.append("loop")
        elif _is_conditional(parent, child):
            around.append("condition")
        child, parent = parent, parent.parent
    return around


def _is_conditional(parent: Node, child: Node) -> bool:
    """Whether `child` runs only if something in `parent` is so."""
    if parent.type in ("if_statement", "conditional_expression", "switch_statement"):
        return child != parent.child_by_field_name("condition")
    if parent.type == "binary_expression":
        operator = parent.child_by_field_name("operator")
        is_lazy = operator is not None and operator.type in ("&&", "||")
        return is_lazy and child == parent.child_by_field_name("right")
    return False


def _ends_early(loop: Node) -> bool:
    return any(node.type in ("continue_statement", "break_statement", "return_statement") for node in _walk(loop))


def _brings_into_step(loop: Node, functions: Mapping[str, _Function]) -> bool:
    """Whether each turn of the loop itself passes a barrier or a collective."""
    body = loop.child_by_field_name("body")
    for node in _walk(body) if body else ():
        if node.type != "call_expression":
            continue
        name = _callee(node)
        if not (_STEPS.fullmatch(name) or (name in functions and functions[name].steps)):
            continue
        above, child = node.parent, node
        while above is not None and child != body and above.type not in _LOOPS and not _is_conditional(above, child):
            child, above = above, above.parent
        if child == body or child.parent == loop:
            return True
    return False
