"""What a C++ or CUDA file defines, launches and binds to Python, by tree-sitter-cuda; tolerates local parse errors."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from musadata.mining.kernels.native_bindings import (
    Binding,
    BindingBlock,
    binding_blocks,
    plain_name,
    read_macros,
    without_templates,
)

SUFFIXES = (".cu", ".cuh", ".mu", ".muh", ".cpp", ".cc", ".cxx", ".h", ".hpp", ".inl")
LANGUAGE = Language(tree_sitter_cuda.language())
# Macros that the grammar cannot parse; they are replaced by spaces, which keeps all offsets.
BLANKED = re.compile(
    rb"\b[A-Z][A-Z0-9_]*_(?:API|EXPORT|INLINE|NAMESPACE)\b|\bC10_HOST_DEVICE\b"
    rb"|\b(?:__launch_bounds__|C10_LAUNCH_BOUNDS_\d)\s*\((?:[^()]|\([^()]*\))*\)"
    rb"|\b(?:__restrict__|__forceinline__|C10_DEVICE|CUTLASS_DEVICE|CUTLASS_HOST_DEVICE|CUTLASS_GRID_CONSTANT)\b"
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
INCLUDE = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)[>\"]", re.MULTILINE)
KERNEL = re.compile(r"__global__")
MARK = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+[^\n(]*\b__global__\b[ \t]*(?:void)?[ \t]*$", re.MULTILINE)
LAUNCH = re.compile(r"([A-Za-z_][\w:]*)\s*(?:<(?:[^;{}()<>]|<[^;{}()<>]*>)*>)?\s*<<<")
REGISTERED = re.compile(r"\bREGISTER_\w*(?:DEVICE_IMPL|DISPATCH)\s*\(\s*(\w+)\s*,\s*(?:CUDA\s*,\s*)?&?\s*(\w+)")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
PASTED = re.compile(r"(\w*)\s*##\s*(\w+)(?:\s*##\s*(\w*))?")
BODY = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\([^)\n]*\))?((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
MAX_GENERATED = 400  # uses of macros in one file
DISPATCHED = re.compile(r"\bDISPATCH_\w*IMPL\s*\(\s*(\w+)")


@dataclass(frozen=True)
class NativeFunction:
    """A function or kernel. Lines are 1-based and inclusive.

    `scope`: its namespaces and class ("a::b"). `calls`: names that it calls, launches or passes on, as written.
    `mentions`: every name in it, outside of strings. `methods`: names that it calls on objects.
    `parameters`: number of its template parameters. `launches`: kernels that it launches, with the number of template
    arguments, which selects the overload.
    """

    name: str
    path: str
    first: int
    last: int
    is_kernel: bool
    calls: frozenset[str]
    scope: str = ""
    mentions: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    parameters: int = 0
    launches: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True)
class NativeFile:
    """One file's functions, bindings, registrations (dispatch name -> function) and included files.

    `members`: the types that the members of each class name. `macros`: the words in the body of each macro.
    `pastes`: macros that make a name of an argument, each with what it puts before and behind the argument.
    """

    path: str
    functions: tuple[NativeFunction, ...]
    bindings: tuple[Binding, ...]
    registrations: tuple[tuple[str, str], ...]
    includes: tuple[str, ...] = ()
    blocks: tuple[BindingBlock, ...] = ()
    macros: tuple[tuple[str, frozenset[str]], ...] = ()
    members: tuple[tuple[str, frozenset[str]], ...] = ()
    pastes: tuple[tuple[str, str, str], ...] = ()


def parse_native(path: str, data: bytes, marks: frozenset[str] = frozenset()) -> NativeFile:
    """Read one file; never fails, since text that cannot be parsed is skipped.

    Args:
        marks: macros that stand for `__global__`.
    """
    text = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), data.decode("utf-8", "replace"))
    root = parse_tree(text.encode())
    functions = (*_functions(path, root, marks), *_generated(path, text, marks))
    registrations = tuple((found[1], found[2]) for found in REGISTERED.finditer(text))
    includes = tuple(found[1].lstrip("./") for found in INCLUDE.finditer(text))
    scopes = list(binding_blocks(path, text))
    bindings = tuple(binding for _, found in scopes for binding in found)
    return NativeFile(
        path=path,
        functions=functions,
        bindings=bindings,
        registrations=registrations,
        includes=includes,
        blocks=tuple(block for block, _ in scopes),
        members=tuple(_members(root)),
        macros=tuple(_macros(text)),
        pastes=tuple(_pastes(text)),
    )


def kernel_marks(data: bytes) -> set[str]:
    """The macros of a file that stand for `__global__`."""
    return {found[1].decode() for found in MARK.finditer(data)}


def parse_tree(data: bytes) -> Node:
    """The root of the syntax tree, in which macros that the grammar does not know are blank."""
    clean = BLANKED.sub(lambda found: re.sub(rb"[^\n]", b" ", found.group()), data)
    return Parser(LANGUAGE).parse(clean).root_node


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _walk(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        item = stack.pop()
        yield item
        stack.extend(reversed(item.children))


def _functions(path: str, root: Node, marks: frozenset[str]) -> Iterator[NativeFunction]:
    for node in _walk(root):
        body = node.child_by_field_name("body") if node.type == "function_definition" else None
        if body is None:
            continue
        *qualifiers, name = declared_name(node).split("::")
        if name:
            head = (node.text or b"")[: body.start_byte - node.start_byte].decode("utf-8", "replace")
            before = node.prev_sibling
            stray = before is not None and before.type == "ERROR" and KERNEL.search(_text(before)) is not None
            template = node.parent if node.parent is not None and node.parent.type == "template_declaration" else node
            yield NativeFunction(
                name=name,
                path=path,
                first=template.start_point[0] + 1,
                last=node.end_point[0] + 1,
                is_kernel=bool(KERNEL.search(head)) or stray or not marks.isdisjoint(re.findall(r"\w+", head)),
                calls=_calls(body, _declared(node)),
                scope="::".join([*_enclosing(node), *qualifiers]),
                mentions=frozenset(re.findall(r"[A-Za-z_]\w+", STRING.sub("", _text(node)))),
                methods=_methods(body),
                parameters=_template_parameters(node),
                launches=_launches(body),
            )


def _generated(path: str, text: str, marks: frozenset[str]) -> Iterator[NativeFunction]:
    """The functions that macros define where they are used at the beginning of a line."""
    macros = {name: macro for name, macro in read_macros(text).items() if "{" in macro.body and macro.parameters}
    if not macros:
        return
    used = re.compile(rf"^({'|'.join(map(re.escape, macros))})[ \t]*\(([^(){{}};]*)\)", re.MULTILINE)
    for found in list(used.finditer(text))[:MAX_GENERATED]:
        arguments = [item.strip() for item in found[2].split(",")]
        if len(arguments) == len(macros[found[1]].parameters):
            line = text.count("\n", 0, found.start())
            for function in _functions(path, parse_tree(macros[found[1]].expand(arguments).encode()), marks):
                words = frozenset(re.findall(r"[A-Za-z_]\w+", found.group()))
                last = line + 1 + found.group().count("\n")
                yield replace(function, mentions=function.mentions | words, first=line + 1, last=last)


def declared_name(node: Node) -> str:
    """The name that a definition or declaration of a function gives, "" if there is none."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator")
        declarator = inner or next((item for item in declarator.children if item.type.endswith("declarator")), None)
    named = declarator.child_by_field_name("declarator") if declarator is not None else None
    return plain_name(_text(named)) if named is not None else ""


def _enclosing(node: Node) -> list[str]:
    """The namespaces and classes that a definition stands in, outermost first."""
    found: list[str] = []
    parent = node.parent
    while parent is not None:
        if parent.type.startswith(("namespace_def", "class_spec", "struct_spec")):
            named = parent.child_by_field_name("name")
            found += [plain_name(_text(named))] if named is not None else []
        parent = parent.parent
    return list(reversed(found))


def _template_parameters(node: Node) -> int:
    template = node.parent
    if template is None or template.type != "template_declaration":
        return 0
    parameters = template.child_by_field_name("parameters")
    return len(parameters.named_children) if parameters is not None else 0


def _launches(body: Node) -> frozenset[tuple[str, int]]:
    """Names before `<<<`, with the number of their template arguments."""
    found = set()
    for item in LAUNCH.finditer(_text(body)):
        arguments = item.group()[len(item[1]) :].removesuffix("<<<").strip()
        flat = without_templates(re.sub(r"[(\[{][^()\[\]{}]*[)\]}]", "", arguments[1:-1]))
        found.add((plain_name(item[1]), flat.count(",") + 1 if arguments else 0))
    return frozenset(found)


def _declared(function: Node) -> set[str]:
    """The names of a function's parameters and variables."""
    found = set()
    for node in _walk(function):
        if node.type in ("parameter_declaration", "optional_parameter_declaration", "init_declarator", "declaration"):
            for item in node.children_by_field_name("declarator"):
                found |= set(re.findall(r"[A-Za-z_]\w*", _text(item).partition("=")[0].partition("(")[0]))
    return found


def _calls(body: Node, declared: Collection[str]) -> frozenset[str]:
    """Names that a body calls, launches or passes as arguments; what it declares itself is no function."""
    text = _text(body)
    found = {plain_name(item[1]) for item in LAUNCH.finditer(text)}
    found |= set(DISPATCHED.findall(text))
    for node in _walk(body):
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            arguments = node.child_by_field_name("arguments")
            if function is not None and function.type != "field_expression":
                found.add(plain_name(_text(function)))
            for item in arguments.children if arguments is not None else ():
                if item.type in ("identifier", "template_function", "pointer_expression", "qualified_identifier"):
                    name = plain_name(_text(item))
                    found |= {name} - set(declared)
        elif node.type == "init_declarator":
            value = node.child_by_field_name("value")
            if value is not None and value.type in ("pointer_expression", "template_function", "qualified_identifier"):
                found.add(plain_name(_text(value)))
    return frozenset(name for name in found if name)


def _methods(body: Node) -> frozenset[str]:
    """Names that a body calls on objects."""
    found = set()
    for node in _walk(body):
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        if function is not None and function.type == "field_expression":
            found.add(plain_name(_text(function.child_by_field_name("field") or function)))
    return frozenset(found)


def _macros(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    for found in BODY.finditer(text):
        yield found[1], frozenset(re.findall(r"[A-Za-z_]\w+", STRING.sub("", found[2])))


def _members(root: Node) -> Iterator[tuple[str, frozenset[str]]]:
    for node in _walk(root):
        if node.type in ("struct_specifier", "class_specifier"):
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            fields = [item for item in body.children if item.type == "field_declaration"] if body is not None else []
            kinds = [kind for item in fields if (kind := item.child_by_field_name("type")) is not None]
            if name is not None and kinds:
                words = frozenset(word for kind in kinds for word in re.findall(r"[A-Za-z_]\w+", _text(kind)))
                yield plain_name(_text(name)), words


def _pastes(text: str) -> Iterator[tuple[str, str, str]]:
    for name, macro in read_macros(text).items():
        for found in PASTED.finditer(macro.body):
            before, word, behind = found[1], found[2], found[3] or ""
            if before in macro.parameters and word not in macro.parameters:
                yield name, "", word
            elif word in macro.parameters and before not in macro.parameters and behind not in macro.parameters:
                yield name, before, behind
