"""Telling a candidate's mistakes from features that exist on a real CUDA machine and are missing here."""

import re
from functools import cache
from pathlib import Path

from musadata.verifier.compilation.diagnostics import Diagnostic

# Errors about a name, member, overload or conversion of PyTorch that is missing; the full headers decide whether it
# exists. Other errors that merely mention a tensor are the candidate's own.
_MISSING_FROM_TORCH = re.compile(
    r"'[^']*\b(at|torch|c10|pybind11|py|torch_abi)\b[^']*' has no member|has no member named"
    r"|is not a member of '?(at|torch|c10|pybind11|py|caffe2)"
    r"|'((torch|at|c10|caffe2|py|pybind11)(::\w+)*|(TORCH|AT|C10|PYBIND11)_\w+|Py\w+|THP\w+)'"
    r" (was not|has not been|does not)"
    # found without their namespace by the type of their arguments
    r"|'(is\w+Type|to\w+Type|promote\w*Types|can_?[cC]ast|scalarTypeToTypeMeta)' was not"
    r"|no matching function for call to '(at|torch|c10|pybind11)::"
    r"|is ambiguous|no match for 'operator|incomplete type 'torch_abi::|torch_abi::"
    r"|(from|to) '?(const )?(at|c10|torch)::\w+.*' to '?(const )?(at|c10|torch)::"
    r"|reference of type '(const )?(at|c10|torch)::\w+"
)
# Names of the C++ library whose header was not included, or only declares them.
_MISSING_FROM_STD = re.compile(r"'std'|'std::\w+' has not been declared|\bstd::.*\bincomplete|\bincomplete.*\bstd::")
_MISSING_HEADER = re.compile(r"(torch|ATen|THC|c10|caffe2|pybind11)/\S+: No such file")
_UNKNOWN_NAME = re.compile(
    r"'(?:\w+::)*(\w+)' (?:was not declared|does not name a type|has not been declared|is not a member)"
)
_FOREIGN_HEADER = re.compile(r"^((?:cuda|cu|nv|cub|thrust|mma|sm_|cooperative_groups)\S*): No such file")


_STATED = re.compile(r"static assertion failed: (.+) (?:is|are) not emulated$")  # by our own headers
_CLASH = re.compile(
    r"redefin|redeclar|conflict|ambigua|ambiguous|ambiguat|default argument|previous|multiple definition|already"
    r"|undefined symbol|different|after instantiation"
)


def may_clash(errors: tuple[Diagnostic, ...]) -> bool:
    """Whether the errors may come from compiling sources together that PyTorch compiles apart."""
    return not errors or any(_CLASH.search(error.message) for error in errors)


def may_need_full_headers(errors: tuple[Diagnostic, ...], stderr: str) -> bool:
    """Whether the errors are about PyTorch's names, of which the small headers hold only the common ones."""
    return bool(_MISSING_HEADER.search(stderr)) or any(_MISSING_FROM_TORCH.search(error.message) for error in errors)


def may_lack_standard_headers(errors: tuple[Diagnostic, ...]) -> bool:
    """Whether the errors may be about names of the C++ library that PyTorch's own headers happen to bring along."""
    return any(_MISSING_FROM_STD.search(error.message) for error in errors)


def may_lack_headers(errors: tuple[Diagnostic, ...]) -> bool:
    """Whether the errors mention names that a header which is not there may declare."""
    return any(_UNKNOWN_NAME.search(error.message) for error in errors)


def name_missing_feature(errors: tuple[Diagnostic, ...]) -> str:
    """What is missing here although CUDA has it, or "" if the errors are the candidate's own."""
    for error in errors:
        said = _STATED.search(error.message)
        if said:
            return f"{said[1]} (line {error.line})"
        header = _FOREIGN_HEADER.match(error.message)
        if header:
            return f"header {header[1]} (line {error.line})"
        unknown = _UNKNOWN_NAME.search(error.message)
        if unknown and unknown[1] in _cuda_names():
            return f"{unknown[1]} (line {error.line})"
    return ""


@cache
def _cuda_names() -> frozenset[str]:
    """Functions and types that CUDA's own headers declare."""
    names = Path(__file__).with_name("cuda_names.txt")
    lines = names.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))
