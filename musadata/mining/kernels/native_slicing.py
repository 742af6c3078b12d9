"""Cutting the code that one binding needs out of an extension's native files."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tree_sitter import Node

from musadata.mining.kernels.native_bindings import BindingBlock
from musadata.mining.kernels.native_parsing import declared_name, parse_tree
from musadata.mining.kernels.pairs import Link
from musadata.mining.kernels.repository import Repository

REMOVED: dict[str, str] = yaml.safe_load(Path(__file__).with_name("removed_names.yaml").read_text(encoding="utf-8"))
MAX_CHARACTERS = 200_000  # of native code of one wrapper; more is a library
HEADERS = (".h", ".hpp", ".cuh", ".muh", ".inl")
DEVICE = (".cu", ".cuh", ".mu", ".muh")
TYPES = ("struct_specifier", "class_specifier", "enum_specifier", "union_specifier")
WORD = re.compile(r"[A-Za-z_]\w*")
INCLUDE_LINE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"].*$", re.MULTILINE)
PYTHON_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<Python\.h>[^\n]*\n", re.MULTILINE)
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*if", re.MULTILINE)
CONDITION_LINE = re.compile(r"^[ \t]*#[ \t]*(?:if|elif)[^\n]*", re.MULTILINE)
OPERATOR = "operator()"  # stands for all overloaded operators; no word of a text
PROVIDED = re.compile(
    r"#[ \t]*define[ \t]+(\w+)|\b(?:struct|class|union|enum(?:[ \t]+class)?|namespace|using)\s+(\w+)"
    r"|\btypedef\b[^;]*?\b(\w+)\s*;|\(\s*\*\s*(\w+)\s*\)|\b(\w+)\s*(?:\[[^\]\n]*\]\s*)*(?:=|;|\{|\()"
)
KEYWORDS = frozenset(("if", "for", "while", "switch", "return", "else", "do", "std", "const", "inline", "namespace"))
ENUMERATED = re.compile(r"\benum\b[^{};]*\{([^}]*)\}")
CONTAINERS = ("translation_unit", "namespace_definition", "declaration_list", "linkage_specification")
CONDITIONS = ("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif")


class TooMuchNativeCode(Exception):
    """A binding needs more native code than a row should hold; the message says how much."""


@dataclass(frozen=True)
class NativeSlice:
    """Native code that some bindings of one extension need.

    `files`: path -> text without unneeded definitions, sorted by path. `blocks`: the binding code, by path.
    `functions`: names for `load_inline` to bind if there is no block.
    """

    files: dict[str, str]
    blocks: dict[str, str]
    functions: tuple[str, ...]
    library: str


@dataclass(frozen=True)
class _Span:
    """A definition or declaration that can be removed. Offsets are in bytes of its file."""

    name: str
    start: int
    end: int


def slice_native(repository: Repository, links: Sequence[Link]) -> NativeSlice:
    """What the bindings of `links`, all of one extension, need.

    Raises:
        TooMuchNativeCode: it is longer than `MAX_CHARACTERS`.
    """
    names = {item.name for link in links for item in link.reached}
    names |= {link.binding.target.rpartition("::")[2] for link in links}
    names |= {call.rpartition("::")[2] for link in links for call in link.binding.calls}
    paths = {item.path for link in links for item in link.reached} | {link.binding.path for link in links}
    paths |= {path for link in links if link.extension.inline for path in repository.files_of(link.extension)}
    blocks = _bindings(repository, links)
    names |= {word for text in blocks.values() for word in WORD.findall(text)}  # other backends of the same names
    files = slice_files(repository, paths, names, blocks)
    bound = () if blocks else tuple(dict.fromkeys(link.binding.name for link in links))
    return NativeSlice(files, blocks, bound, links[0].binding.library)


def slice_files(
    repository: Repository, paths: Collection[str], names: set[str], kept: Collection[str] = ()
) -> dict[str, str]:
    """The files, and what they include, without definitions that the named functions do not need, sorted by path.

    Args:
        kept: files that are kept even if nothing is left of them.

    Raises:
        TooMuchNativeCode: what is left is longer than `MAX_CHARACTERS`.
    """
    units = {path: {path, *repository.visible_from(path)} for path in sorted({*paths, *kept})}
    wanted = sorted(set().union(*units.values()))
    pruned = _prune({path: _without_blocks(repository, path) for path in wanted}, names, units)
    files = {path: text for path, text in pruned.items() if path in kept or _has_code(text)}
    total = sum(map(len, files.values()))
    if total > MAX_CHARACTERS:
        raise TooMuchNativeCode(f"{total} characters in {len(files)} files")
    return files


def _without_blocks(repository: Repository, path: str) -> str:
    text = repository.native_text(path)
    for block in reversed(repository.native[path].blocks):
        text = text[: block.start] + text[block.end :]
    return text


def _has_code(text: str) -> bool:
    """Whether a text holds more than directives, comments and white space."""
    plain = re.sub(
        r"//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*(pragma|include|ifndef|endif)[^\n]*$", "", text, flags=re.S | re.M
    )
    return bool(plain.strip())


def _prune(texts: dict[str, str], names: set[str], units: dict[str, set[str]]) -> dict[str, str]:
    """The texts without functions, types and declarations that the remaining code does not mention.

    Args:
        units: the files that are needed, each with itself and all that it includes. Of those, a file is needed if the
            code of the unit that is kept mentions something that it provides.
    """
    encoded = {path: text.encode() for path, text in texts.items()}
    spans = {path: list(_spans(data)) for path, data in encoded.items()}
    rest = {path: _cut(data, spans[path]) for path, data in encoded.items()}
    loose = {path: _words(data) for path, data in rest.items()}
    provided = {path: {span.name for span in spans[path]} | _provided(rest[path]) for path in texts}
    bodies: dict[str, dict[str, set[str]]] = {path: {} for path in texts}  # by file and name: the words in it
    for path, data in encoded.items():
        for span in spans[path]:
            bodies[path].setdefault(span.name, set()).update(_words(data[span.start : span.end]))
    active = {unit: {unit} for unit in units}
    done, before = set(names), -1
    while before != (before := len(done) + sum(map(len, active.values()))):
        for unit, inside in units.items():
            needed = names.union(*(loose[path] for path in active[unit]))
            needed |= {
                word for path in active[unit] for name in bodies[path].keys() & done for word in bodies[path][name]
            }
            done |= needed
            calls = {OPERATOR} if bodies[unit].keys() & names else set[str]()  # operators are used without their names
            active[unit] |= {path for path in inside if provided[path] & (needed | calls)}
    kept = set().union(*active.values())
    return {
        path: _written(data, [span for span in spans[path] if span.name not in done]) if path in kept else ""
        for path, data in encoded.items()
    }


def _provided(rest: bytes) -> set[str]:
    """The names that a file defines outside of functions and types; `OPERATOR` if it overloads operators."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", rest.decode("utf-8", "replace"), flags=re.S)
    found = {name for match in PROVIDED.finditer(text) for name in match.groups() if name}
    found |= {word for body in ENUMERATED.findall(text) for word in WORD.findall(body)}
    return (found - KEYWORDS) | ({OPERATOR} if re.search(r"\boperator\b", text) else set())


def _words(data: bytes) -> set[str]:
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", data.decode("utf-8", "replace"), flags=re.S)
    return set(WORD.findall(INCLUDE_LINE.sub("", code)))


def _cut(data: bytes, spans: Iterable[_Span]) -> bytes:
    for span in sorted(spans, key=lambda item: -item.start):
        data = data[: span.start] + data[span.end :]
    return data


def _written(data: bytes, spans: Iterable[_Span]) -> str:
    text = _cut(data, spans).decode("utf-8", "replace")
    text = re.sub(r"^namespace[\w\s:]*\{\s*\}[^\n]*$", "", text, flags=re.M)
    return re.sub(r"\n[ \t]*(\n[ \t]*)+\n", "\n\n", text).strip() + "\n"


def _spans(data: bytes) -> Iterator[_Span]:
    """Functions and declarations of functions at namespace level, each with the comment directly above it."""
    stack = [parse_tree(data)]
    while stack:
        node = stack.pop()
        for child in node.children:
            if child.type in CONTAINERS + CONDITIONS:
                stack.append(child)
                continue
            span = _span(child)
            if span is not None:
                yield span


def _span(node: Node) -> _Span | None:
    inner = node
    while inner.type == "template_declaration":
        inner = next((item for item in reversed(inner.named_children) if item.type != "comment"), inner.children[-1])
    before = node.prev_sibling  # where the parser failed right before, part of the definition may lie there
    if node.has_error or (before is not None and before.type == "ERROR"):
        return None
    name = _span_name(inner)
    if not name or "::" in name or name.startswith("operator") or name.isupper():
        return None
    start = node
    while (above := start.prev_sibling) is not None and above.type == "comment":
        code = above.prev_sibling
        shares_line = code is not None and code.end_point[0] == above.start_point[0]
        if above.end_point[0] + 1 < start.start_point[0] or shares_line:
            break
        start = above
    behind = node.next_sibling
    end = behind.end_byte if inner.type in TYPES and behind is not None and behind.type == ";" else node.end_byte
    return _Span(name, start.start_byte, end)


def _span_name(node: Node) -> str:
    """What a function, a type, or a macro that defines or registers a function, is needed for; "" for anything else."""
    if node.type == "function_definition" and node.child_by_field_name("body") is not None:
        return declared_name(node)
    if node.type == "declaration" and _is_function_declarator(node):
        return declared_name(node)
    if node.type in TYPES and node.child_by_field_name("body") is not None:
        named = node.child_by_field_name("name")
        return (named.text or b"").decode("utf-8", "replace").partition("<")[0] if named is not None else ""
    call = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
    if call is None or call.type != "call_expression":
        return ""
    given = call.child_by_field_name("arguments")  # a call at namespace level is the use of a macro
    first = given.named_children[0] if given is not None and given.named_children else None
    registers = first is not None and first.type == "identifier"
    return (first.text or b"").decode("utf-8", "replace") if registers and first is not None else ""


def _is_function_declarator(node: Node) -> bool:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type in ("pointer_declarator", "reference_declarator"):
        declarator = next((item for item in declarator.children if item.type.endswith("declarator")), None)
    return declarator is not None and declarator.type == "function_declarator"


def _bindings(repository: Repository, links: Sequence[Link]) -> dict[str, str]:
    """Per file, the binding blocks, reduced to the links' names."""
    wanted = {link.binding.name for link in links}
    files = {path for link in links for path in repository.files_of(link.extension)}
    files |= {link.binding.path for link in links}
    found: dict[str, str] = {}
    for path in sorted(files):
        for block in repository.native[path].blocks if path in repository.native else ():
            if block.library == links[0].binding.library:
                text = _write_block(block, wanted)
                if text:
                    found[path] = f"{found[path]}\n\n{text}" if path in found else text
    return found


def _write_block(block: BindingBlock, wanted: set[str]) -> str:
    statements = [text for name, text in block.statements if name in wanted]
    if not statements:
        return ""
    head = re.sub(r"(PYBIND11_MODULE\s*\(\s*)\w+", r"\1TORCH_EXTENSION_NAME", block.head)
    return head + "\n" + "".join(f"    {text}\n" for text in statements) + block.tail


def flatten(repository: Repository, native: NativeSlice) -> tuple[str, str]:
    """The slice as one text for the host compiler and one for the device compiler, own includes expanded."""
    host, device = _Flattener(repository, native), _Flattener(repository, native)
    for path in native.files:
        if not path.endswith(HEADERS):
            (device if path.endswith(DEVICE) else host).add(path)
    for path in native.blocks:
        writer = device if path.endswith(DEVICE) else host
        if path not in writer.seen:
            writer.add(path)
    return host.text(), device.text()


class _Flattener:
    def __init__(self, repository: Repository, native: NativeSlice):
        self._repository, self._native = repository, native
        self.seen: set[str] = set()
        self._parts: list[str] = []

    def add(self, path: str) -> None:
        self._parts.append(self._expanded(path))
        if path in self._native.blocks:
            self._parts.append(self._native.blocks[path])

    def text(self) -> str:
        text = "\n\n".join(part.strip() for part in self._parts if part.strip())
        without = PYTHON_INCLUDE.sub("", text)  # often only for Windows, which wants an entry point
        text = text if re.search(r"\b_?Py[A-Z]\w*_\w+", without) else without
        for removed, successor in REMOVED.items():
            own = re.search(rf"[\w>&*]\s+(?:{removed})\s*\([^;{{}}()]*\)\s*\{{", text)  # a function of the repository
            text = text if own else re.sub(removed, successor, text)
        return self._defined(text) + (text if CONDITIONAL.search(text) else _included_once(text))

    def _defined(self, text: str) -> str:
        """Definitions of the macros by which the repository's build compiles device code, where the text asks."""
        asked = " ".join(CONDITION_LINE.findall(text))
        names = [name for name in sorted(self._repository.macros) if re.search(rf"\b{name}\b", asked)]
        return "".join(f"#define {name} 1\n" for name in names if f"#define {name}" not in text)

    def _expanded(self, path: str) -> str:
        """A file's text with the repository's own headers expanded, each once."""
        self.seen.add(path)
        text = re.sub(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n?", "", self._native.files.get(path, ""), flags=re.M)

        def replace(found: re.Match[str]) -> str:
            near = self._repository.included(path, found[1].lstrip("./"))
            if not near:
                return found[0]
            return self._expanded(near[0]).rstrip() if near[0] not in self.seen else ""

        return INCLUDE_LINE.sub(replace, text)


def _included_once(text: str) -> str:
    seen: set[str] = set()

    def keep(found: re.Match[str]) -> str:
        again = found[0].strip() in seen
        seen.add(found[0].strip())
        return "" if again else found[0]

    return re.sub(r"\n{3,}", "\n\n", re.sub(r"^[ \t]*#[ \t]*include[^\n]*\n", keep, text, flags=re.M))
