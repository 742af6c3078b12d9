"""CUDA C++ into plain C++: launches, shared memory, casts and inline PTX; every line stays on its line.

Everything else that CUDA adds to C++ (built-in variables, qualifiers, intrinsics) is in the header shims.
"""

import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import yaml

from musadata.cpp import ALIGNMENT, WORD, Code, Edit, Unbalanced
from musadata.verifier.backends.emulated import ptx
from musadata.verifier.backends.emulated.conversions import saturate_casts
from musadata.verifier.backends.emulated.shared import rewrite_shared
from musadata.verifier.backends.emulated.variables import announce_variables
from musadata.verifier.compilation.compile_errors import Unsupported
from musadata.verifier.compilation.header_folder import read_forwarding_headers

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
    code = Code(source)
    _refuse_foreign(code)
    try:
        code = announce_variables(rewrite_shared(code))
        code = code.edited(_keep_launch_bounds(code))
        code = code.edited(_rewrite_assembly(code))
        kernels = _kernel_names(code)
        for find_edits in (_drop_kernel_casts, partial(_spell_kernel_casts, kernels=kernels), _spell_names):
            code = code.edited(find_edits(code))
        return str(_rewrite_launches(saturate_casts(code), kernels))
    except Unbalanced:
        return source  # the compiler says where


def rewrite_host(source: str) -> str:
    """A C++ source that may launch kernels of CUDA sources by the runtime's functions."""
    code = Code(source)
    try:
        return str(code.edited(_drop_kernel_casts(code)))
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


def _refuse_foreign(code: Code) -> None:
    for word in code.find(WORD):
        if word[0] in _FOREIGN_NAMES:
            raise Unsupported(f"{_FOREIGN_NAMES[word[0]]} ({word[0]}, line {code.line(word.start())})")


# Beside kernels, for the host's linker: which version of a function of the C library is meant.
_SYMBOL_VERSION = re.compile(r'\s*"\s*\.symver\s+\w+\s*,\s*\w+@{1,3}[\w.]+\s*;?\s*"\s*')


def _rewrite_assembly(code: Code) -> Iterator[Edit]:
    for found in code.find(r"\b(?:asm|__asm__|__asm)\b(?:\s*\b(?:volatile|__volatile__)\b)*\s*\("):
        end = code.closing(found.end() - 1)
        inside = code[found.end() : end]
        is_version = _SYMBOL_VERSION.fullmatch(str(inside))
        text = "" if is_version else ptx.translate(inside, code.line(found.start()))
        yield found.start(), end + 1, text + code.lines(found.start(), end + 1)


# Calls that launch a kernel, and which of their arguments it is; ported kernels are tried here under an alias.
_LAUNCH_CALL = r"\b(?:cuda|musa)Launch(Kernel|CooperativeKernel|KernelExC|KernelEx)\s*\("
_KERNEL_POSITIONS = {"Kernel": 0, "CooperativeKernel": 0, "KernelExC": 1, "KernelEx": 1}
_POINTER_CAST = (
    r"(?:\(\s*(const\s+)?void\s*(const\s*)?\*\s*\)"
    r"|\b(reinterpret|static)_cast\s*<\s*(const\s+)?void\s*(const\s*)?\*\s*>)"
)


def _drop_kernel_casts(code: Code) -> Iterator[Edit]:
    """`cudaLaunchKernel((void*)kernel, ...)` hides the kernel's type, which the emulation needs."""
    for call in code.find(_LAUNCH_CALL):
        start = call.end()
        arguments = code[start : code.closing(start - 1)].split_commas()
        start += sum(len(one.mask) + 1 for one in arguments[: _KERNEL_POSITIONS[call[1]]])
        cast = re.compile(rf"\s*{_POINTER_CAST}").match(code.mask, start)
        if cast:
            yield start, cast.end(), " " + code.lines(start, cast.end())


_RUNTIME_CALL = re.compile(r"\b(cuda|musa)[A-Z]\w*\Z")
_NAME_AFTER_CAST = re.compile(r"[\s(&]*(?:\w+\s*::\s*)*(\w+)")


def _spell_kernel_casts(code: Code, kernels: frozenset[str]) -> Iterator[Edit]:
    """`pointer = (void*)kernel<int>` notes what is hidden; the runtime's own functions see what they are given."""
    for cast in code.find(_POINTER_CAST):
        name = _NAME_AFTER_CAST.match(code.mask, cast.end())
        if name and name[1] in kernels and not code.before(code.enclosing(cast.start()), _RUNTIME_CALL):
            yield *cast.span(), f'emulator::Hidden{{"{name[1]}"}}->*' + code.lines(*cast.span())


def _keep_launch_bounds(code: Code) -> Iterator[Edit]:
    """Make kernels check at their beginning what `__launch_bounds__` promises."""
    for found in code.find(r"\b__launch_bounds__\s*\("):
        closing = code.closing(found.end() - 1)
        parameters = re.compile(r"[^(;]*(\(?)").match(code.mask, closing + 1)
        if parameters and parameters[1] and not code.in_directive(found.start()):
            body = re.compile(r"\s*\{").match(code.mask, code.closing(parameters.start(1)) + 1)
            if body:
                bounds = str(code[found.end() : closing]).replace("\n", " ")
                yield body.end(), body.end(), f" emulator::keep_launch_bounds({bounds});"


def _spell_names(code: Code) -> Iterator[Edit]:
    """`__noinline__` is an attribute's name to the C++ library and a whole attribute to CUDA. c10::Half has no member
    `operator __half()` here, as its header knows nothing of CUDA. And nvcc only warns of `const const`."""
    for found in code.find(r"(?:[(,]\s*)?(\b__noinline__\b)"):
        if found.start(1) == found.start():
            yield *found.span(), "__attribute__((noinline))"
    for found in code.find(r"\b(const|volatile)(?:\s+\1\b)+"):
        yield *found.span(), found[1] + code.lines(*found.span())
    for found in code.find(r"\.operator\s+__half\s*\(\s*\)"):
        yield *found.span(), "->*emulator::as_half" + code.lines(*found.span())


_LAST_WORD = re.compile(r"([\w$]+)\Z")
_PASTED_WORD = re.compile(r"(\S)\s*#\s*#\Z")
_SCOPE = re.compile(r"::\Z")
_NOT_NAMES = ("__launch_bounds__", "__maxnreg__", *ALIGNMENT)


def _kernel_names(code: Code) -> frozenset[str]:
    """The functions that are declared `__global__`; what is launched under another name is a variable."""
    names = set()
    for found in code.find(r"\b__global__\b"):
        sign, place = re.compile(r"[({;]"), found.end()
        while (bracket := sign.search(code.mask, place)) and bracket[0] == "(":
            name = code.before(bracket.start(), _LAST_WORD)
            if name and name[1] not in _NOT_NAMES:
                names.add(name[1])
                break
            place = code.closing(bracket.start()) + 1
    return frozenset(names)


def _rewrite_launches(code: Code, kernels: frozenset[str]) -> Code:
    edits, done = list[Edit](), 0
    for found in code.find("<<<"):
        at = found.start()
        if at < done:
            continue  # among the arguments of another launch
        start, end = _callee_start(code, at), code.outside(">>>|;", at + 3)
        if not code.mask.startswith(">>>", end):
            raise Unbalanced(f"launch on line {code.line(at)} has no >>>")
        call = re.compile(r"\s*\(").match(code.mask, end + 3)
        if start is None or start < done or call is None:
            continue  # not a launch: the compiler's to refuse
        done = code.closing(call.end() - 1) + 1
        callee, arguments = code[start:at], _rewrite_launches(code[call.end() : done - 1], kernels)
        kernel = _kernel_name(callee.mask)
        is_variable = bool(kernels) and kernel.rpartition("::")[2] not in kernels
        # A macro's parameters and what it pastes together have their names after the preprocessor only.
        is_of_macro = is_variable and code.in_directive(at)
        name = f"EMULATOR_NAME({callee[: len(callee.mask.rstrip())]})" if is_of_macro else f'"{kernel}"'
        text = (
            f"emulator::launch({name}, emulator::LaunchConfig({code[at + 3 : end]}){'.of_variable()' * is_variable}, "
            f"[&](auto... emulator_arguments) {{ {callee}(emulator_arguments...); }}{code[end + 3 : call.end() - 1]}"
            f"{',' * bool(arguments.mask.strip())}{arguments})"
        )
        edits.append((start, done, text))
    return code.edited(edits)


def _kernel_name(callee: str) -> str:
    """The kernel's name without template arguments."""
    name, angle = "", 0
    for part in re.finditer(r"[A-Za-z_$][\w$]*|::|>>>|->|[<>]", callee):
        angle += part[0] == "<"
        name += part[0] if angle == 0 and part[0][0] not in "<>-" else ""
        angle -= {">": 1, ">>>": 3}.get(part[0], 0)
    return name


def _callee_start(code: Code, end: int) -> int | None:
    """Where the expression that names the kernel begins, before `<<<`."""
    mask = code.mask
    end = code.end_of_code(end)
    if mask.endswith(">", 0, end):
        end = code.end_of_code(_template_start(code, end - 1))
    if mask.endswith((")", "]"), 0, end):
        end = code.opening(end - 1)
        if mask[end] == "(":
            return end
    word = code.before(end, _LAST_WORD)
    # In `a ## 2d_kernel` a macro pastes a number to a word.
    if word is None or (word[1][0].isdigit() and not code.before(word.start(), _PASTED_WORD)):
        return None
    return _qualified_start(code, word.start())


def _qualified_start(code: Code, start: int) -> int:
    """Walks back over `a::b<int>::` and `a ## b ##` before the word at `start`."""
    while True:
        pasted, scope = code.before(start, _PASTED_WORD), code.before(start, _SCOPE)
        if pasted:
            word = code.before(pasted.end(1), _LAST_WORD)
            start = word.start() if word else pasted.start(1)
        elif scope:
            end = code.end_of_code(scope.start())
            if code.mask.endswith(">", 0, end):
                end = _template_start(code, end - 1)
            word = code.before(end, _LAST_WORD)
            start = word.start() if word else scope.start()
        else:
            return start


def _template_start(code: Code, place: int) -> int:
    depth, sign = 0, re.compile(r"[)\]}]|(?<!-)>(?!=)|<(?!=)")
    while place >= 0:
        found = sign.match(code.mask, place)
        if found and found[0] in ")]}":
            place = code.opening(place)
        elif found:
            depth += 1 if found[0] == ">" else -1
            if depth == 0:
                return place
        place -= 1
    raise Unbalanced("template arguments before a launch are never opened")
