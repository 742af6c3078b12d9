"""The CUDA source of a candidate as a syntax tree, with what a mutation must know of a place in it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_FLOATS = ("float", "scalar_t", "float4", "double")


@dataclass(frozen=True)
class Place:
    """A node of a CUDA source. `types` maps names declared in its function to their types."""

    node: Node
    function: Node
    device: bool
    types: dict[str, str]

    @property
    def text(self) -> str:
        return text_of(self.node)

    def inside(self, *kinds: str) -> Node | None:
        """The nearest enclosing node of one of these kinds, not looking out of the function."""
        node = self.node.parent
        while node is not None and node != self.function:
            if node.type in kinds:
                return node
            node = node.parent
        return None


def text_of(node: Node | None) -> str:
    return node.text.decode() if node is not None and node.text is not None else ""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


def cuda_texts(candidate: str) -> list[str]:
    """The string literals of a Python program that hold kernels and stand in it verbatim, exactly once."""
    literals = [node.value for node in ast.walk(ast.parse(candidate)) if isinstance(node, ast.Constant)]
    kernels = [value for value in literals if isinstance(value, str) and "__global__" in value]
    return [text for text in kernels if candidate.count(text) == 1]


def places(source: str) -> Iterator[Place]:
    """All nodes inside functions, outermost first, in the order of the source."""
    waiting = [_parser().parse(source.encode()).root_node]
    while waiting:
        node = waiting.pop()
        body = node.child_by_field_name("body")
        if node.type == "function_definition" and body is not None:
            head = source.encode()[node.start_byte : body.start_byte].decode()
            device = "__global__" in head or "__device__" in head
            types = _declared(node)
            yield from (Place(inner, node, device, types) for inner in _inner(body))
        else:
            waiting += reversed(node.children)


def _inner(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _inner(child)


def _declared(function: Node) -> dict[str, str]:
    """Names of parameters and locals with their types; pointers and arrays count as what they hold."""
    types: dict[str, str] = {}
    for node in _inner(function):
        if node.type in ("parameter_declaration", "declaration"):
            kind = text_of(node.child_by_field_name("type"))
            for declarator in node.children_by_field_name("declarator"):
                name = _declared_name(declarator)
                if name:
                    types[name] = kind
    return types


def _declared_name(node: Node | None) -> str:
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator") or next(
            (child for child in node.named_children if child.type in ("identifier", "init_declarator")), None
        )
    return text_of(node)


def is_float(place: Place, node: Node | None) -> bool:
    """Whether an expression is surely of floating type, by its literals and the names in it outside subscripts."""
    if node is None:
        return False
    if node.type == "number_literal":
        return "." in text_of(node) or text_of(node).endswith("f")
    if node.type == "identifier":
        return place.types.get(text_of(node)) in _FLOATS
    if node.type == "subscript_expression":
        return is_float(place, node.child_by_field_name("argument"))
    if node.type == "call_expression":
        name = text_of(node.child_by_field_name("function"))
        return name.endswith("f") or name in ("static_cast<float>", "dot", "__half2float", "__bfloat162float")
    if node.type in ("binary_expression", "parenthesized_expression", "unary_expression"):
        return any(is_float(place, child) for child in node.named_children)
    return False
