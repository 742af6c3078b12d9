"""Telling a candidate's own mistakes from what PyTorch's headers have and the small ones lack, in nvcc's words."""

import re

# PyTorch's namespaces, and those of libraries whose headers PyTorch's include.
_SPACES = r"(?:at|torch|c10|caffe2|pybind11|py|torch_abi|std|thrust|cub|nvcuda|cooperative_groups)"
_MENTIONED = re.compile(rf"\b{_SPACES}::|namespace \"{_SPACES}\"|'{_SPACES}'")  # the last in g++'s words
_UNDEFINED = re.compile(r'identifier "(?P<name>\w+)" is undefined')
_FOREIGN = re.compile(
    r"(?:TORCH|AT|C10|CAFFE2|PYBIND11|CUDA|CUBLAS|CUSPARSE|NCCL)_|Py[A-Z_]|THP|THC|gpu[A-Z]"
    r"|cu(?:blas|sparse|dnn|solver|rand|fft|tensor)|nccl|nvtx|nvml"
)
_MORE = "too many arguments in function call"  # for what the small headers declare
_NO_SPACE = 'name followed by "::"'
_NEWER = "conflicts with a previous declaration"  # such as that of C++20's lerp, where PyTorch's standard is C++17
_ABSENT = re.compile(r"(?:torch|ATen|THC|c10|caffe2|pybind11)/\S+: No such file|undefined (?:reference|symbol)")
_CLASH = re.compile(
    r"already|redeclar|redefin|previous|ambiguous|more than one|default argument|incompatible|conflict|multiple"
    r"|must precede its first use|overload functions"
)
_USING = re.compile(rf"\busing\s+namespace\s+(?:::\s*)?{_SPACES}\b")
_ERROR = re.compile(r"error\b[^:\n]*: (?P<text>.+(?:\n +(?:argument|operand|object) types? (?:are|is):.*)?)")


def may_clash(stderr: str) -> bool:
    """Whether nvcc's errors may come from compiling sources together that PyTorch compiles apart."""
    return any(_CLASH.search(found["text"]) for found in _ERROR.finditer(stderr))


def may_need_full_headers(stderr: str, texts: list[str]) -> bool:
    """Whether PyTorch's own headers, which take nvcc tens of seconds, may compile what failed with the small ones.

    They will not where every error is about syntax, unknown variables, or arguments of the candidate's own functions.

    Args:
        stderr: of nvcc, whose errors come from EDG's parser, or from the host's preprocessor.
        texts: the candidate's sources.
    """
    errors = [found["text"] for found in _ERROR.finditer(stderr)]
    if not errors or _ABSENT.search(stderr):
        return True
    using = any(_USING.search(text) for text in texts)
    return any(_is_foreign(error, using) for error in errors)


def _is_foreign(error: str, using: bool) -> bool:
    unknown = _UNDEFINED.search(error)
    if unknown is not None:
        return using or _FOREIGN.match(unknown["name"]) is not None
    return any(said in error for said in (_NO_SPACE, _NEWER, _MORE)) or _MENTIONED.search(error) is not None
