"""Modules whose `forward` takes tensors in a tuple, list or object: a subclass takes each by itself."""

import ast
import re
from dataclasses import dataclass, field

from musadata.mining.reading.parsing import Definition, ParsedModule, parse_beside
from musadata.mining.slicing.constructors import find_method
from musadata.mining.slicing.definition_index import PackageIndex

SUFFIX = "__unpacked"  # of the module that holds the subclass
MAX_ITEMS = 6
ITEMS = 3  # of a list of any length
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

    `names`: of the items, where it unpacks them. `count`: how many items it needs. `by_number`: it reads some of them
    by number. `attributes`: those of an object that it reads.
    """

    names: tuple[str, ...] = ()
    count: int = 0
    by_number: bool = False
    attributes: dict[str, None] = field(default_factory=dict)
    is_other: bool = False

    @property
    def is_packed(self) -> bool:
        return not self.is_other and bool(self.names or self.count or self.attributes)


def unpack_inputs(index: PackageIndex, module: ParsedModule, definition: Definition) -> Definition | None:
    """A subclass whose `forward` takes what the class takes packed, item by item; None if it takes nothing packed."""
    uses = {item.arg: found for item, found in _required(index, definition)}
    if not any(item.is_packed for item in uses.values()):
        return None
    taken: list[str] = []
    given: list[str] = []
    for name, item in uses.items():
        names = [_unique(one, taken) for one in (_item_names(name, item) if item.is_packed else [name])]
        taken += names
        given.append(_packed(item, names) if item.is_packed else names[0])
    own = definition.names[0]
    text = (
        f"from types import SimpleNamespace\n\n\nclass {own}{SUFFIX}({own}):\n"
        f"    def forward(self, {', '.join(taken)}):\n"
        f"        return super().forward({', '.join(given)})\n"
    )
    made = parse_beside(module, f"{SUFFIX}_{own}", text, [own])
    index.add(made)
    return made.classes()[0]


def takes_list(index: PackageIndex, definition: Definition) -> bool:
    """Whether `forward` takes a list by its name or annotation, or reads it by number alone: the rows of a tensor
    would do as well, and are not what is meant."""
    return any(
        found.is_packed and (found.by_number or LIST_NAMES.search(item.arg) or LISTS.match(_annotated(item)))
        for item, found in _required(index, definition)
    )


def _annotated(parameter: ast.arg) -> str:
    return ast.unparse(parameter.annotation).strip("'\"") if parameter.annotation else ""


def _required(index: PackageIndex, definition: Definition) -> list[tuple[ast.arg, _Uses]]:
    """What `forward` must be given, and how it uses it; nothing where it takes some of it by name alone."""
    forward = find_method(index, definition, "forward")
    if forward is None or forward.args.kwonlyargs or forward.args.posonlyargs:
        return []
    required = forward.args.args[1 : len(forward.args.args) - len(forward.args.defaults)]
    return [(item, _uses(forward, item.arg)) for item in required]


def _uses(forward: ast.FunctionDef, name: str) -> _Uses:
    found = _Uses()
    known: set[ast.AST] = set()  # uses of the name that have been read as a part of what holds them
    nodes = [node for statement in _until_rebound(forward, name) for node in ast.walk(statement)]
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    called = {item.attr for item in functions if isinstance(item, ast.Attribute) and _is_name(item.value, name)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=items) | ast.List(elts=items)], value=ast.Name(id=held) as value):
                if held == name and not any(isinstance(item, ast.Starred) for item in items):
                    known.add(value)
                    found.names = found.names or tuple(
                        getattr(item, "id", f"{name}{place}") for place, item in enumerate(items)
                    )
            case ast.Subscript(value=ast.Name(id=held) as value, slice=ast.Constant(int(key))) if held == name:
                known.add(value)
                found.by_number = True
                found.count = max(found.count, key + 1)
            case ast.Attribute(value=value, attr=attribute) if _is_read(value, name):
                if attribute not in OF_TENSORS | called:
                    known.add(value)
                    found.attributes[attribute] = None
            case ast.For(iter=ast.Name(id=held) as value) | ast.comprehension(iter=ast.Name(id=held) as value):
                if held == name:
                    known.add(value)
                    found.count = max(found.count, ITEMS)
            case ast.Call(func=function, args=arguments):
                target = getattr(function, "attr", getattr(function, "id", ""))
                handed = [item for item in arguments if _is_name(item, name) and target in ITERATING | UNTYPED]
                known.update(handed)
                found.count = max(found.count, ITEMS if handed and target in ITERATING else 0)
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
    return list(uses.names or uses.attributes) or [f"{name}{place + 1}" for place in range(min(uses.count, MAX_ITEMS))]


def _packed(uses: _Uses, names: list[str]) -> str:
    if uses.attributes:
        fields = zip(uses.attributes, names, strict=True)
        return f"SimpleNamespace({', '.join(f'{key}={name}' for key, name in fields)})"
    return f"({', '.join(names)},)" if uses.names else f"[{', '.join(names)}]"


def _unique(name: str, taken: list[str]) -> str:
    return name if name not in taken and name not in ("self", "_") else _unique(f"{name}_", taken)
