"""Modules whose `forward` takes tensors in a tuple, list, dictionary or object: a subclass takes each by itself."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from musadata.mining.reading.messages import Said
from musadata.mining.reading.parsing import Definition, ParsedModule, parse_beside
from musadata.mining.slicing.constructors import find_method
from musadata.mining.slicing.definition_index import PackageIndex

SUFFIX = "__unpacked"  # of the module that holds the subclass
MAX_ITEMS = 6
ITEMS = 3  # of a list of any length
OTHER_ITEMS = (2, 4)
ITERATING = frozenset({"zip", "enumerate", "reversed", "cat", "stack", "concat", "sum", "list", "tuple"})
# What tensors have as well; an object that has something else is none.
OF_TENSORS = frozenset({"shape", "device", "dtype", "data", "T", "mT", "H", "ndim", "is_cuda", "requires_grad", "grad"})
OF_TENSORS |= {"real", "imag", "layout", "is_sparse", "names"}
LIST_NAMES = re.compile(r"_?list$")
LISTS = re.compile(r"(typing\.)?([Ll]ist|[Tt]uple|Sequence|Iterable)\b(?!.*\b(int|float|str)\b)")
UNTYPED = frozenset({"len", "isinstance", "type", "print"})  # what may be called on anything


@dataclass
class _Uses:
    """How a method uses one of its parameters.

    `names`: of the items, where it unpacks them. `handed_on`: to a module of its own, which may do so. `places`: whose
    items it reads by number. `attributes`: those of an object that it reads. `is_star`: all inputs by position.
    `is_open`: it reads how many items there are.
    """

    names: tuple[str, ...] = ()
    count: int = 0
    handed_on: bool = False
    places: set[int] = field(default_factory=set)
    keys: dict[str, None] = field(default_factory=dict)
    attributes: dict[str, None] = field(default_factory=dict)
    is_star: bool = False
    is_open: bool = False
    is_other: bool = False


def unpack_inputs(
    index: PackageIndex, module: ParsedModule, definition: Definition, error: str = ""
) -> Iterator[Definition]:
    """Subclasses whose `forward` takes what the class takes packed, item by item; none if it takes nothing packed.

    `error`: of a call with a tensor; where a part of the module unpacks what it is handed, it says how many items.
    """
    uses = _packed_uses(index, definition, error)
    is_open = any(item.is_open and item.count == ITEMS and not (item.names or item.keys) for item in uses.values())
    for count in (ITEMS, *OTHER_ITEMS) if is_open else (0,) if uses else ():
        for item in uses.values():
            item.count = count if item.is_open and item.count else item.count
        yield _subclass(index, module, definition, uses, count)


def takes_list(index: PackageIndex, definition: Definition) -> bool:
    """Whether `forward` takes a list by its name or annotation, or reads it by number alone: the rows of a tensor
    would do as well, and are not what is meant."""
    forward = find_method(index, definition, "forward")
    if forward is None:
        return False
    required = forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)]
    uses = [(item, _uses(forward, item.arg)) for item in required]
    return any(
        found.places or LIST_NAMES.search(item.arg) or LISTS.match(_annotated(item))
        for item, found in uses
        if _is_packed(found)
    )


def _annotated(parameter: ast.arg) -> str:
    return ast.unparse(parameter.annotation).strip("'\"") if parameter.annotation else ""


def _packed_uses(index: PackageIndex, definition: Definition, error: str) -> dict[str, _Uses]:
    """How `forward` uses its inputs, if it takes one of them packed; else nothing."""
    forward = find_method(index, definition, "forward")
    if forward is None or forward.args.kwonlyargs or forward.args.posonlyargs:
        return {}
    required = [item.arg for item in forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)]]
    uses = {name: _uses(forward, name) for name in required}
    if forward.args.vararg is not None and not forward.args.defaults:
        uses[forward.args.vararg.arg] = _uses(forward, forward.args.vararg.arg)
        uses[forward.args.vararg.arg].is_star = True
    stated = Said.UNPACK.read(error)
    if stated and any(len(item.names) == int(stated["want"]) for item in uses.values()):
        stated = None  # it is this method that unpacks
    for item in uses.values():
        if item.handed_on and not _is_packed(item):
            item.count = int(stated["want"]) if stated else item.count
    return uses if any(_is_packed(item) for item in uses.values()) else {}


def _subclass(
    index: PackageIndex, module: ParsedModule, definition: Definition, uses: dict[str, _Uses], number: int
) -> Definition:
    """The subclass; `number` tells several of one class apart."""
    taken: list[str] = []
    given: list[str] = []
    for name, item in uses.items():
        if _is_packed(item):
            names = [_unique(one, taken) for one in _item_names(name, item)]
            given.append(_packed(item, names))
        else:
            names = [_unique(name, taken)]
            given += names
        taken += names
    own = definition.names[0]
    lines = [
        "from types import SimpleNamespace",
        "",
        "",
        f"class {own}{SUFFIX}({own}):",
    ]
    lines += [f"    def forward(self, {', '.join(taken)}):", f"        return super().forward({', '.join(given)})", ""]
    made = parse_beside(module, f"{SUFFIX}_{own}_{number}", "\n".join(lines), [own])
    index.add(made)
    return made.classes()[0]


def _is_packed(uses: _Uses) -> bool:
    return not uses.is_other and bool(uses.names or uses.count or uses.keys or uses.attributes)


def _uses(forward: ast.FunctionDef, name: str) -> _Uses:
    found = _Uses()
    known: set[ast.AST] = set()  # uses of the name that have been read as a part of what holds them
    nodes = [node for statement in _until_rebound(forward, name) for node in ast.walk(statement)]
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    called = {item.attr for item in functions if isinstance(item, ast.Attribute) and _is_name(item.value, name)}
    for node in nodes:
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], (ast.Tuple, ast.List))
        ):
            items = node.targets[0].elts
            if _is_name(node.value, name) and not any(isinstance(item, ast.Starred) for item in items):
                known.add(node.value)
                found.names = found.names or tuple(
                    getattr(item, "id", f"{name}{place}") for place, item in enumerate(items)
                )
        elif isinstance(node, ast.Subscript) and _is_name(node.value, name):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if type(key) is int or isinstance(key, str):
                known.add(node.value)
                found.keys |= {key: None} if isinstance(key, str) else {}
                if isinstance(key, int):
                    found.places.add(key)
                    found.count = max(found.count, key + 1)
            elif isinstance(node.slice, (ast.Name, ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Slice)):
                known.add(node.value)  # as the levels of a pyramid
                found.count = max(found.count, ITEMS)
        elif isinstance(node, ast.Attribute) and _is_read(node.value, name) and node.attr not in OF_TENSORS | called:
            known.add(node.value)
            found.attributes[node.attr] = None
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            sides = (node.left, node.right)
            lists = any(isinstance(side, (ast.List, ast.ListComp)) for side in sides)
            joined = [side for side in sides if lists and _is_name(side, name)]
            known.update(joined)
            found.count = max(found.count, ITEMS if joined else 0)
        elif isinstance(node, (ast.For, ast.comprehension)) and _is_name(node.iter, name):
            known.add(node.iter)
            found.count = max(found.count, ITEMS)
        elif isinstance(node, ast.Call):
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            held = [item for item in node.args if _is_name(item, name)]
            if held and isinstance(node.func, ast.Attribute) and _is_name(node.func.value, "self"):
                known.update(held)
                found.handed_on = True
            elif held and function in ITERATING | UNTYPED:
                known.update(held)
                found.count = max(found.count, ITEMS if function in ITERATING else 0)
                found.is_open = found.is_open or function == "len"
    found.is_other = any(_is_read(node, name) and node not in known for node in nodes)
    return found


def _until_rebound(forward: ast.FunctionDef, name: str) -> list[ast.stmt]:
    """The statements up to the one that binds the name anew, as `x = x[0]` does."""
    for place, statement in enumerate(forward.body):
        if isinstance(statement, ast.Assign) and any(
            _is_name(node, name) and not _is_read(node, name)
            for target in statement.targets
            for node in ast.walk(target)
        ):
            return forward.body[: place + 1]
    return forward.body


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_read(node: ast.AST, name: str) -> bool:
    return _is_name(node, name) and isinstance(getattr(node, "ctx", None), ast.Load)


def _item_names(name: str, uses: _Uses) -> list[str]:
    if uses.keys:
        return [
            re.sub(r"\W", "_", key) if re.sub(r"\W", "_", key).isidentifier() else f"{name}_{key}" for key in uses.keys
        ]
    return list(uses.names or uses.attributes) or [f"{name}{place + 1}" for place in range(min(uses.count, MAX_ITEMS))]


def _packed(uses: _Uses, names: list[str]) -> str:
    if uses.keys:
        return "{" + ", ".join(f"{key!r}: {name}" for key, name in zip(uses.keys, names, strict=True)) + "}"
    if uses.is_star:
        return ", ".join(names)
    if uses.attributes:
        return (
            f"SimpleNamespace({', '.join(f'{key}={name}' for key, name in zip(uses.attributes, names, strict=True))})"
        )
    return f"({', '.join(names)},)" if uses.names else f"[{', '.join(names)}]"


def _unique(name: str, taken: list[str]) -> str:
    return name if name not in taken and name not in ("self", "_") else _unique(f"{name}_", taken)
