"""CUDA C++ into plain C++: launches, shared memory, casts and inline PTX; every line stays on its line.

Everything else that CUDA adds to C++ (built-in variables, qualifiers, intrinsics) is in the header shims.
"""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import yaml

from musadata.verifier.backends.emulated import ptx
from musadata.verifier.backends.emulated.conversions import saturate_casts
from musadata.verifier.backends.emulated.shared import rewrite_shared
from musadata.verifier.backends.emulated.variables import announce_variables
from musadata.verifier.compilation.compile_errors import Unsupported
from musadata.verifier.compilation.declarations import ALIGNMENT, in_directive
from musadata.verifier.compilation.header_folder import read_forwarding_headers
from musadata.verifier.compilation.lexer import (
    Kind,
    Token,
    Unbalanced,
    closing_index,
    join,
    opening_index,
    skip_space,
    skip_space_back,
    split,
    split_commas,
)

# Headers of a CUDA machine: what is not emulated of them is left out, and whoever uses it does not compile.
_FOREIGN_HEADERS = re.compile(
    r"(cuda|cu(blas|rand|dnn|sparse|solver|fft|b/|te/|tlass/)|thrust/|nccl|nv|mma|sm_|cooperative_groups|texture|surface|npp)"
)
_INCLUDE_LINE = re.compile(r"^([ \t]*)#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_INCLUDE = Path(__file__).with_name("include")
_FOREIGN_NAMES: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("foreign_names.yaml").read_text(encoding="utf-8")
)


def rewrite(source: str) -> str:
    """The plain C++ of one CUDA source; unchanged where it holds none of CUDA's syntax.

    Raises:
        Unsupported: the source needs something that is not emulated.
    """
    tokens: Sequence[Token] = split(source)
    _refuse_foreign(tokens)
    try:
        tokens = _keep_launch_bounds(announce_variables(rewrite_shared(tokens)))
        tokens = _rewrite_assembly(tokens)
        kernels = _kernel_names(tokens)
        tokens = _spell_kernel_casts(_drop_kernel_casts(tokens), kernels)
        tokens = saturate_casts(_spell_conversions(_spell_noinline(tokens)))
        return join(_rewrite_launches(tokens, kernels))
    except Unbalanced:
        return source  # the compiler says where


def leave_out_foreign_headers(source: str, own: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """The source without the includes of headers that are not emulated, and these; `own` are the candidate's headers.

    Many programs include headers that they do not use.
    """
    left_out: list[str] = []

    def replace(include: re.Match[str]) -> str:
        header = include[2].strip()
        if header in own or not _FOREIGN_HEADERS.match(header) or _is_emulated(header):
            return include[0]
        left_out.append(f"header {header} (line {source.count(chr(10), 0, include.start()) + 1})")
        return include[1]

    return _INCLUDE_LINE.sub(replace, source), tuple(left_out)


def _is_emulated(header: str) -> bool:
    return header in read_forwarding_headers(_INCLUDE) or (_INCLUDE / header).is_file()


def _refuse_foreign(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.kind is Kind.WORD and token.text in _FOREIGN_NAMES:
            raise Unsupported(f"{_FOREIGN_NAMES[token.text]} ({token.text}, line {token.line})")


# Beside kernels, for the host's linker: which version of a function of the C library is meant.
_SYMBOL_VERSION = re.compile(r'\s*"\s*\.symver\s+\w+\s*,\s*\w+@{1,3}[\w.]+\s*;?\s*"\s*')


def _rewrite_assembly(tokens: Sequence[Token]) -> list[Token]:
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if not token.is_word("asm", "__asm__", "__asm"):
            result.append(token)
            index += 1
            continue
        start = skip_space(tokens, index + 1)
        while start < len(tokens) and tokens[start].is_word("volatile", "__volatile__"):
            start = skip_space(tokens, start + 1)
        if start >= len(tokens) or not tokens[start].is_sign("("):
            result.append(token)
            index += 1
            continue
        end = closing_index(tokens, start)
        inside = tokens[start + 1 : end]
        text = "" if _SYMBOL_VERSION.fullmatch(join(inside)) else ptx.translate(inside, token.line)
        lines = join(tokens[index : end + 1]).count("\n")
        result.append(Token(Kind.SIGN, text + "\n" * lines, token.line))
        index = end + 1
    return result


# Calls that launch a kernel, and which of their arguments it is; ported kernels are tried here under an alias.
_LAUNCH_CALL = re.compile(r"(?:cuda|musa)Launch(Kernel|CooperativeKernel|KernelExC|KernelEx)")
_KERNEL_POSITIONS = {"Kernel": 0, "CooperativeKernel": 0, "KernelExC": 1, "KernelEx": 1}
_POINTER_CAST = re.compile(
    r"\s*(\(\s*(const\s+)?void\s*(const\s*)?\*\s*\)"
    r"|(reinterpret|static)_cast\s*<\s*(const\s+)?void\s*(const\s*)?\*\s*>)"
)


def _drop_kernel_casts(tokens: Sequence[Token]) -> list[Token]:
    """`cudaLaunchKernel((void*)kernel, ...)` hides the kernel's type, which the emulation needs."""
    result = list(tokens)
    for index, token in enumerate(tokens):
        called = _LAUNCH_CALL.fullmatch(token.text) if token.kind is Kind.WORD else None
        call = skip_space(tokens, index + 1)
        if called is None or call >= len(tokens) or not tokens[call].is_sign("("):
            continue
        start = call + 1
        arguments = split_commas(tokens[start : closing_index(tokens, call)])
        for argument in arguments[: _KERNEL_POSITIONS[called[1]]]:
            start += len(argument) + 1
        cast = _POINTER_CAST.match(join(tokens[start : start + 16]))
        left = cast.end() if cast else 0
        while left > 0:
            left -= len(tokens[start].text)
            result[start] = Token(Kind.SPACE, re.sub(r"[^\n]", " ", tokens[start].text), token.line)
            start += 1
    return result


_RUNTIME_CALL = re.compile(r"(cuda|musa)[A-Z]\w*")
_NAME_AFTER_CAST = re.compile(r"[\s(&]*(?:\w+\s*::\s*)*(\w+)")


def _spell_kernel_casts(tokens: Sequence[Token], kernels: frozenset[str]) -> list[Token]:
    """`pointer = (void*)kernel<int>` notes what is hidden; the runtime's own functions see what they are given."""
    result = list(tokens)
    of_runtime: list[bool] = []  # for each open parenthesis, whether such a function is called
    for index, token in enumerate(tokens):
        cast = None
        if token.is_sign("(") or token.is_word("reinterpret_cast", "static_cast"):
            cast = _POINTER_CAST.match(join(tokens[index : index + 16]))
        if cast and not (of_runtime and of_runtime[-1]):
            end, left = index, cast.end()
            while left > 0:
                left -= len(tokens[end].text)
                end += 1
            name = _NAME_AFTER_CAST.match(join(tokens[end : end + 32]))
            if name and name[1] in kernels:
                lines = join(tokens[index:end]).count("\n")
                for at in range(index, end):
                    result[at] = Token(Kind.SPACE, "", tokens[at].line)
                text = f'emulator::Hidden{{"{name[1]}"}}->*' + "\n" * lines
                result[end - 1] = Token(Kind.SIGN, text, token.line)
        if token.is_sign("("):
            before = skip_space_back(tokens, index - 1)
            of_runtime.append(before >= 0 and bool(_RUNTIME_CALL.fullmatch(tokens[before].text)))
        elif token.is_sign(")") and of_runtime:
            of_runtime.pop()
    return result


def _keep_launch_bounds(tokens: Sequence[Token]) -> list[Token]:
    """Make kernels check at their beginning what `__launch_bounds__` promises."""
    result = list(tokens)
    for index, token in enumerate(tokens):
        opening = skip_space(tokens, index + 1)
        if not token.is_word("__launch_bounds__") or in_directive(tokens[:index]):
            continue
        if opening >= len(tokens) or not tokens[opening].is_sign("("):
            continue
        closing = closing_index(tokens, opening)
        parameters = next((at for at in range(closing + 1, len(tokens)) if tokens[at].text in ("(", ";")), len(tokens))
        if parameters == len(tokens) or tokens[parameters].is_sign(";"):
            continue
        body = skip_space(tokens, closing_index(tokens, parameters) + 1)
        if body < len(tokens) and tokens[body].is_sign("{"):
            bounds = join(tokens[opening + 1 : closing]).replace("\n", " ")
            result[body] = Token(Kind.SIGN, f"{{ emulator::keep_launch_bounds({bounds});", tokens[body].line)
    return result


def _spell_noinline(tokens: Sequence[Token]) -> list[Token]:
    """`__noinline__` is an attribute's name to the C++ library and a whole attribute to CUDA."""
    result = list(tokens)
    for index, token in enumerate(tokens):
        if token.is_word("__noinline__"):
            before = skip_space_back(tokens, index - 1)
            if before < 0 or not (tokens[before].is_sign("(") or tokens[before].is_sign(",")):
                result[index] = Token(Kind.WORD, "__attribute__((noinline))", token.line)
    return result


_CONVERSION = [".", "operator", "__half", "(", ")"]


def _spell_conversions(tokens: Sequence[Token]) -> list[Token]:
    """`value.operator __half()`: here c10::Half has no such member, as its header knows nothing of CUDA."""
    result = list(tokens)
    for index, token in enumerate(tokens):
        if not token.is_word("operator") or index == 0:
            continue
        places = [index - 1, index]
        while len(places) < len(_CONVERSION):
            places.append(skip_space(tokens, places[-1] + 1))
        if places[-1] < len(tokens) and [tokens[at].text for at in places] == _CONVERSION:
            for at in places:
                result[at] = Token(Kind.SPACE, "", tokens[at].line)
            result[index] = Token(Kind.WORD, "->*emulator::as_half", token.line)
    return result


def _kernel_names(tokens: Sequence[Token]) -> frozenset[str]:
    """The functions that are declared `__global__`; what is launched under another name is a variable."""
    names = set()
    for index, token in enumerate(tokens):
        if token.is_word("__global__"):
            position = index + 1
            while position < len(tokens) and not tokens[position].is_sign("{") and not tokens[position].is_sign(";"):
                before = tokens[skip_space_back(tokens, position - 1)]
                if tokens[position].is_sign("("):
                    if not before.is_word("__launch_bounds__", "__maxnreg__", *ALIGNMENT):
                        names.add(before.text)
                        break
                    position = closing_index(tokens, position)
                position += 1
    return frozenset(names)


def _rewrite_launches(tokens: Sequence[Token], kernels: frozenset[str]) -> list[Token]:
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        if not tokens[index].is_sign("<<<"):
            result.append(tokens[index])
            index += 1
            continue
        start = _callee_start(result)
        end = _configuration_end(tokens, index)
        call = skip_space(tokens, end + 1)
        if start is None or call >= len(tokens) or not tokens[call].is_sign("("):
            result.append(tokens[index])  # not a launch: the compiler's to refuse
            index += 1
            continue
        close = closing_index(tokens, call)
        callee = result[start:]
        arguments = _rewrite_launches(tokens[call + 1 : close], kernels)
        is_variable = bool(kernels) and _kernel_name(callee).rpartition("::")[2] not in kernels
        # A macro's parameters and what it pastes together have their names after the preprocessor only.
        is_of_macro = is_variable and in_directive(result)
        end_of_name = skip_space_back(callee, len(callee) - 1) + 1
        name = f"EMULATOR_NAME({join(callee[:end_of_name])})" if is_of_macro else f'"{_kernel_name(callee)}"'
        text = _launch(name, callee, tokens[index + 1 : end], tokens[end + 1 : call], arguments, is_variable)
        del result[start:]
        result.append(Token(Kind.SIGN, text, tokens[index].line))
        index = close + 1
    return result


def _launch(
    name: str,
    callee: Sequence[Token],
    configuration: Sequence[Token],
    between: Sequence[Token],
    arguments: Sequence[Token],
    is_variable: bool,
) -> str:
    kernel = join(callee)
    of_variable = ".of_variable()" if is_variable else ""
    tail = join(between) + ("," if any(token.kind is not Kind.SPACE for token in arguments) else "") + join(arguments)
    return (
        f"emulator::launch({name}, emulator::LaunchConfig({join(configuration)}){of_variable}, "
        f"[&](auto... emulator_arguments) {{ {kernel}(emulator_arguments...); }}{tail})"
    )


def _kernel_name(callee: Sequence[Token]) -> str:
    """The kernel's name without template arguments."""
    name = ""
    angle = 0
    for token in callee:
        angle += {"<": 1}.get(token.text, 0) if token.kind is Kind.SIGN else 0
        if angle == 0 and (token.kind is Kind.WORD or token.is_sign("::")):
            name += token.text
        if token.kind is Kind.SIGN:
            angle -= {">": 1, ">>>": 3}.get(token.text, 0)
    return name


def _callee_start(tokens: Sequence[Token]) -> int | None:
    """Where the expression that names the kernel begins, in the tokens before `<<<`."""
    index = skip_space_back(tokens, len(tokens) - 1)
    if index < 0:
        return None
    if tokens[index].kind is Kind.SIGN and tokens[index].text in (">", ">>>"):
        index = _template_start(tokens, index)
        index = skip_space_back(tokens, index - 1)
    if index >= 0 and (tokens[index].is_sign(")") or tokens[index].is_sign("]")):
        index = opening_index(tokens, index)
        if tokens[index].is_sign("("):
            return index
        index = skip_space_back(tokens, index - 1)
    if index < 0 or not _ends_name(tokens, index):
        return None
    return _qualified_start(tokens, index)


def _ends_name(tokens: Sequence[Token], index: int) -> bool:
    """A word, or what a macro pastes to one: in `a ## 2d_kernel` a number."""
    before = skip_space_back(tokens, index - 1)
    pasted = before >= 1 and tokens[before].is_sign("#") and tokens[before - 1].is_sign("#")
    return tokens[index].kind is Kind.WORD or (pasted and tokens[index].kind is Kind.NUMBER)


def _qualified_start(tokens: Sequence[Token], index: int) -> int:
    """Walks back over `a::b<int>::` and `a ## b ##` before the word at `index`."""
    while True:
        before = skip_space_back(tokens, index - 1)
        if before >= 2 and tokens[before].is_sign("#") and tokens[before - 1].is_sign("#"):
            index = skip_space_back(tokens, before - 2)
            continue
        if before < 0 or not tokens[before].is_sign("::"):
            return index
        scope = skip_space_back(tokens, before - 1)
        if scope >= 0 and tokens[scope].is_sign(">"):
            scope = skip_space_back(tokens, _template_start(tokens, scope) - 1)
        index = scope if scope >= 0 and tokens[scope].kind is Kind.WORD else before


def _template_start(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    while index >= 0:
        token = tokens[index]
        if token.kind is Kind.SIGN:
            if token.text in (")", "]", "}"):
                index = opening_index(tokens, index)
            depth += {">": 1, ">>>": 3, "<": -1}.get(token.text, 0)
            if depth == 0:
                return index
        index -= 1
    raise Unbalanced("template arguments before a launch are never opened")


def _configuration_end(tokens: Sequence[Token], index: int) -> int:
    position = index + 1
    while position < len(tokens):
        token = tokens[position]
        if token.kind is Kind.SIGN and token.text in "([{":
            position = closing_index(tokens, position)
        elif token.is_sign(">>>"):
            return position
        elif token.is_sign(";"):
            break
        position += 1
    raise Unbalanced(f"launch on line {tokens[index].line} has no >>>")
