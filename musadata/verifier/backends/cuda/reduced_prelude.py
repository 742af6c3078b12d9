"""A prelude with less of the C++ standard library, and which candidates it suffices for.

PyTorch's headers include most of the standard library. Most candidates use only a vector, a tuple and `std::max`, and
nvcc parses the library twice: with all of it a candidate takes 3.1 CPU seconds, with what most of them need 2.0. So a
candidate that names nothing else is compiled with less:

- without streams, algorithms, smart pointers and the mathematical special functions;
- without lambdas of the device, for which CUDA's headers include <functional>.

(With the library's C++17 declarations under the C++20 language it would be 1.5, but then nvcc leaves calls on the
device that only C++20's library allows out of the code.)

The remaining declarations are the same, so nothing changes its meaning. A candidate that needs others does not compile,
and is compiled again with the whole headers.
"""

import re
from pathlib import Path

from musadata.verifier.backends.cuda.phases import Prelude
from musadata.verifier.backends.torch_abi.bridge import include_folder
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.rules.name_lists import read_name_lists

APART = Path(__file__).with_name("include")  # small headers that no prelude includes
_PRELUDE = "#define TORCH_ABI_REDUCED\n#include <torch/extension.h>\n#include <cstdio>\n#include <cstdlib>\n"
FLAGS = ("-D_GLIBCXX_BITS_SPECFUN_H",)  # the guard of the special functions' header, where there is one

_WORDS = read_name_lists(Path(__file__).with_suffix(".txt"))
_NAMES = frozenset(_WORDS["names"])  # of std::
_HEADERS = frozenset(_WORDS["included"] + _WORDS["unused"])
_INCLUDE = re.compile(r"#\s*include(?P<next>\w*)\s*(?:[<\"](?P<name>[^>\"\n]*)[>\"])?")
_OF_STD = re.compile(r"\bstd\s*::\s*(?P<name>\w*)(?P<list>\s*\(\s*\{)?")
_OTHERWISE = re.compile(
    r"\bnamespace\b[^;{]*\bstd\b"  # all names of the library, or more of them
    r"|\]\s*__(?:host|device)__"  # a lambda of the device
    r"|__has_include|__cpp_lib_|\bimport\b"
)


def build_prelude() -> Prelude:
    """The prelude for candidates for which it suffices."""
    return Prelude(_PRELUDE, include_folder(), unused=_WORDS["unused"])


def suffices(sources: CandidateSources) -> bool:
    """Whether a candidate names, includes and asks for nothing that the prelude lacks."""
    own = {name for name, _ in sources.headers}
    return all(_suffices(text, own) for text in [*sources.texts(), *sources.defines])


def _suffices(text: str, own: set[str]) -> bool:
    return (
        _OTHERWISE.search(text) is None
        and all(found["name"] in _NAMES and not found["list"] for found in _OF_STD.finditer(text))
        and all(_has(found["name"], own) and not found["next"] for found in _INCLUDE.finditer(text))
    )


def _has(header: str | None, own: set[str]) -> bool:
    if header is None or ".." in header:
        return False
    return header in _HEADERS or header in own or any((place / header).is_file() for place in (include_folder(), APART))
