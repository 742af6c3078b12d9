"""What a C++ or CUDA file binds to Python: `PYBIND11_MODULE`, functions on a `py::module`, and operator registries."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from musadata.cpp import Code, Unbalanced

OPENED = re.compile(
    r"\b(?:(PYBIND11_MODULE|(?:STABLE_)?TORCH_LIBRARY(?:_FRAGMENT|_IMPL)?(?:_EXPAND)?)\s*\(|RegisterOperators\s*\(\s*\)"
    r"|void\s+\w+\s*\(\s*(?:pybind11|py)::module_?\s*&\s*(\w+)\s*\)\s*(?=\{))"
)
SUBMODULE = re.compile(r"\b(\w+)\s*=\s*(\w+)\s*\.\s*def_submodule\s*\(\s*\"(\w+)\"")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)\n]*)\)[ \t]*((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
SCHEMA_NAME = re.compile(r'"\s*([\w:.]+)')
NOT_TARGETS = re.compile(
    r"^\s*(?:py::|pybind11::)(?:arg|call_guard|return_value|doc|keep_alive|kw_only)"
    r"|^\s*(?:torch|c10)::(?:k[A-Z]|DispatchKey)|^\s*R?\"|^\s*\{"
)
CALLED = re.compile(r"([A-Za-z_][\w:]*)\s*(?:<[^<>;]*>)?\s*\(")
NAMESPACE_OR_BRACE = re.compile(r"(?:\b((?:inline\s+)?namespace\b[\s\w:]*?)\s*)?\{|\}")
EXTENSION = "TORCH_EXTENSION_NAME"


@dataclass(frozen=True)
class Binding:
    """A name that Python sees, with its submodules ("mesh.hash"). `library`: the name in `PYBIND11_MODULE`, or
    "torch.ops.NAMESPACE"."""

    name: str
    target: str
    library: str
    path: str
    line: int
    calls: frozenset[str] = frozenset()  # of a lambda


@dataclass(frozen=True)
class BindingBlock:
    """A piece of code that binds names. Offsets are in characters, `end` is exclusive.

    `head` and `tail`: what stands around its statements. `statements`: the name that each binds and its text, in order.
    """

    head: str
    library: str
    path: str
    start: int
    end: int
    statements: tuple[tuple[str, str], ...]
    tail: str = "}"


@dataclass(frozen=True)
class Macro:
    """A macro with arguments."""

    parameters: tuple[str, ...]
    body: str

    def expand(self, arguments: list[str]) -> str:
        """The body for some arguments: `#a` is a string, `a ## b` one word."""
        text = self.body
        for name, value in zip(self.parameters, arguments, strict=False):
            plain = value.strip().replace("\\", r"\\")
            text = re.sub(rf"(?<!#)#\s*{re.escape(name)}\b", f'"{plain}"', text)
            text = re.sub(rf"\b{re.escape(name)}\b", plain, text)
        return re.sub(r"\s*##\s*", "", text)


def read_macros(text: str) -> dict[str, Macro]:
    """The macros with arguments that a text defines."""
    found = {}
    for define in DEFINE.finditer(text):
        parameters = tuple(item.strip() for item in define[2].split(",") if item.strip())
        found[define[1]] = Macro(parameters, re.sub(r"\\\n", " ", define[3]).strip())
    return found


def binding_blocks(path: str, text: str) -> Iterator[tuple[BindingBlock, list[Binding]]]:
    """Every block that binds names, and the bindings in it.

    Args:
        text: the file, in which comments are blank.
    """
    macros = {name: macro for name, macro in read_macros(text).items() if macro.parameters}
    code = Code(text).without_directives()
    done = 0
    for found in OPENED.finditer(code.mask):
        if found.start() < done:
            continue
        if "RegisterOperators" in found.group():
            start, end = found.end(), _statement_end(code, found.end())
            head, tail, module, library = "static auto registered = torch::RegisterOperators()", ";", "", "torch.ops"
        else:
            opening = _block_start(code, found)
            if opening < 0:
                continue
            start, end = opening + 1, _closing(code, opening)
            library, module = _library(text, found, opening)
            head, tail = text[found.start() : start], "}"
            if found[2]:
                head = f"PYBIND11_MODULE({EXTENSION}, {module}) {{"
        done = end
        opened, closed = _namespaces(code.mask, found.start())
        read = list(_statements(code, start, end, module, macros))
        bindings = [item for place, line in read for item in _bindings(line, library, path, text.count("\n", 0, place))]
        statements = tuple((_bound_name(line)[0], line.text) for _, line in read)
        finish = end + (0 if tail == ";" and end == len(text) else 1)
        place = _head_start(text, found)
        yield BindingBlock(opened + head, library, path, place, finish, statements, tail + closed), bindings


def _namespaces(shape: str, place: int) -> tuple[str, str]:
    """What opens the namespaces around a place, and what closes them; ("", "") outside of all."""
    around: list[str] = []
    for found in NAMESPACE_OR_BRACE.finditer(shape, 0, place):
        if found.group() != "}":
            around.append(found[1] or "")
        elif around:
            around.pop()
    spaces = [" ".join(opening.split()) for opening in around if opening]
    return "".join(f"{opening} {{\n" for opening in spaces), "\n}" * len(spaces)


@dataclass(frozen=True)
class _Statement:
    """One `def`, `impl` or `op`: its text, the submodules before its name, and its arguments."""

    text: str
    within: str
    arguments: list[str]


def _head_start(text: str, found: re.Match[str]) -> int:
    """Where the statement begins that a match lies in: `static auto registry = torch::RegisterOperators()`."""
    if "RegisterOperators" not in found.group():
        return found.start()
    return max(text.rfind(mark, 0, found.start()) for mark in ";}\n{") + 1


def _block_start(code: Code, found: re.Match[str]) -> int:
    """The place of a block's opening brace, -1 if there is none: the macro is only defined or mentioned."""
    place = found.end() if found[2] else _closing(code, found.end() - 1) + 1
    brace = re.compile(r"\s*\{").match(code.mask, place)
    return brace.end() - 1 if brace else -1


def _library(text: str, found: re.Match[str], opening: int) -> tuple[str, str]:
    """The library of a block, and its variable."""
    if found[2]:
        return EXTENSION, found[2]
    inner = text[found.end() : opening].rstrip().removesuffix(")")
    parts = [part.strip() for part in split_arguments(inner)]
    variable = parts[-1]
    if found[1] == "PYBIND11_MODULE":
        return parts[0], variable
    return f"torch.ops.{EXTENSION if EXTENSION in parts[0] else parts[0]}", variable


def _statements(
    code: Code, start: int, end: int, module: str, macros: Mapping[str, Macro]
) -> Iterator[tuple[int, _Statement]]:
    """The statements of a block, with their places."""
    within = {module: ""}
    for named in SUBMODULE.finditer(code.text, start, end):
        if named[2] in within:
            within[named[1]] = f"{within[named[2]]}{named[3]}."
    names = "|".join(map(re.escape, within))
    using = "|".join(name for name, macro in macros.items() if re.search(r"\.\s*(?:def|impl|op)\s*\(", macro.body))
    first = rf"\b({names})\s*\.\s*(def|impl)\s*\(" if module else r"()\.\s*(op)\s*\("
    pattern = re.compile(first + (rf"|\b({using})\s*\(" if using else ""))
    place = start
    while found := pattern.search(code.mask, place, end):
        place, inner = _called(code, found)
        if found.lastindex == 3:
            yield from ((found.start(), item) for item in _expanded(macros, found[3], split_arguments(inner), within))
            continue
        yield found.start(), _statement(found[1], found[2], inner, within)
        chained = re.compile(r"\s*\.\s*(def|impl)\s*\(")
        while (more := chained.match(code.mask, place)) is not None:
            place, inner = _called(code, more)
            yield more.start(), _statement(found[1], more[1], inner, within)


def _called(code: Code, found: re.Match[str]) -> tuple[int, str]:
    """Where a call ends whose bracket a match ends with, and what is between its brackets."""
    last = _closing(code, found.end() - 1)
    return last + 1, code.text[found.end() : last]


def _statement(variable: str, kind: str, inner: str, within: Mapping[str, str]) -> _Statement:
    if kind == "op":
        return _Statement(f".op({inner})", "", split_arguments(inner))
    base = next(iter(within))
    chain = "".join(f'.def_submodule("{part}")' for part in within[variable].split(".") if part)
    return _Statement(f"{base}{chain}.{kind}({inner});", within[variable], split_arguments(inner))


def _expanded(
    macros: Mapping[str, Macro], name: str, arguments: list[str], within: Mapping[str, str]
) -> Iterator[_Statement]:
    """The statements that a use of a macro stands for."""
    text = macros[name].expand(arguments)
    for _ in range(3):  # macros in its body
        for other in re.finditer(r"\b(\w+)\s*\(", text):
            if other[1] in macros and other[1] != name:
                end, inner = _called(Code(text), other)
                text = text[: other.start()] + macros[other[1]].expand(split_arguments(inner)) + text[end:]
                break
    code = Code(text)
    for found in code.find(r"\b(\w+)\s*\.\s*(def|impl)\s*\("):
        if found[1] in within:
            yield _statement(found[1], found[2], _called(code, found)[1], within)


def _bound_name(statement: _Statement) -> tuple[str, str]:
    """The name that a statement binds, and its namespace if it gives one."""
    named = SCHEMA_NAME.search(statement.arguments[0]) if statement.arguments else None
    if named is None:
        return "", ""
    space, _, name = named[1].rpartition("::")
    return statement.within + name.partition(".")[0], space


def _bindings(statement: _Statement, library: str, path: str, line: int) -> list[Binding]:
    """What a statement binds: a lambda or a function; [] for anything else."""
    name, space = _bound_name(statement)
    library = f"torch.ops.{space}" if library == "torch.ops" else library
    given = [item for item in statement.arguments[1:] if not NOT_TARGETS.match(item)]
    if not name or not given or library == "torch.ops.":
        return []
    target = given[0].strip()
    if target.startswith("["):
        calls = frozenset(plain_name(item) for item in CALLED.findall(target))
        return [Binding(name, f"<{name}>", library, path, line + 1, calls)]
    words = re.findall(r"[A-Za-z_][\w:]*", re.sub(r",\s*py::const_", "", without_templates(target)))
    return [Binding(name, plain_name(words[-1]), library, path, line + 1)] if words else []


def plain_name(name: str) -> str:
    """A qualified name without template arguments, pointers and leading colons."""
    return without_templates(re.sub(r"\s+", "", name)).partition("<")[0].strip("&*~:")


def without_templates(text: str) -> str:
    """A text without what is in angle brackets."""
    while "<" in text and (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def split_arguments(text: str) -> list[str]:
    """The arguments of a call, split at commas outside of brackets, template arguments and strings."""
    return [str(part) for part in Code(text).split_commas()] if text.strip() else []


def _closing(code: Code, place: int) -> int:
    """Where the bracket here is closed; the code's end if it is not."""
    try:
        return code.closing(place)
    except Unbalanced:
        return len(code.mask)


def _statement_end(code: Code, place: int) -> int:
    try:
        return code.outside(";", place)
    except Unbalanced:
        return len(code.mask)
