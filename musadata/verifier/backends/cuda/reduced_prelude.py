"""Which candidates need little of the C++ standard library, and how they are spared the rest of it.

PyTorch's headers bring most of the standard library along. Most candidates use a vector, a tuple and `std::max` of it,
and nvcc parses it twice: with all of it a candidate takes 3.1 CPU seconds, with what most of them need 2.0. So one that
names nothing else is compiled with less:

- without streams, algorithms, smart pointers and the mathematical special functions;
- without lambdas of the device, for which CUDA's headers include <functional>.

(With the library's C++17 declarations under the C++20 language it would be 1.5, but then nvcc leaves calls on the
device that only C++20's library allows out of the code.)

What is declared is what it would be otherwise, so nothing changes its meaning; what is not declared does not compile,
and then there are the whole headers.
"""

import re

from musadata.verifier.backends.cuda.phases import Prelude
from musadata.verifier.backends.torch_abi.bridge import include_folder
from musadata.verifier.compilation.sources import CandidateSources

_UNUSED = """
algorithm chrono deque fstream functional iomanip ios iostream istream iterator list map memory mutex numeric ostream
queue random set sstream stack streambuf thread unordered_map unordered_set
"""
_PRELUDE = "#define TORCH_ABI_LEAN\n#include <torch/extension.h>\n#include <cstdio>\n#include <cstdlib>\n"
FLAGS = ("-D_GLIBCXX_BITS_SPECFUN_H",)  # the guard of the special functions' header, where there is one

_TYPES = """
array byte exception initializer_list int16_t int32_t int64_t int8_t intptr_t invalid_argument logic_error nullopt_t
nullptr_t numeric_limits optional out_of_range pair ptrdiff_t runtime_error size_t string string_view tuple
tuple_element tuple_size uint16_t uint32_t uint64_t uint8_t uintptr_t vector
"""
_FUNCTIONS = """
abs acos acosh asin asinh atan atan2 atanh begin cbrt ceil copy copysign cos cosh data end equal erf erfc exchange exp
exp2 expm1 fabs fill fill_n floor fma fmax fmin fmod forward forward_as_tuple fprintf frexp get getenv hypot ignore
isfinite isinf isnan isnormal ldexp lgamma llround log log10 log1p log2 logb lround make_optional make_pair make_tuple
max memcmp memcpy memmove memset min move nan nearbyint nullopt pow printf remainder rint round signbit sin sinh
snprintf sqrt stod stof stoi stol stoll strcmp strlen swap tan tanh tgamma tie to_string trunc tuple_cat
"""
_TRAITS = """
common_type common_type_t conditional conditional_t decay decay_t declval enable_if enable_if_t false_type
index_sequence index_sequence_for integer_sequence integral_constant is_arithmetic is_arithmetic_v is_convertible
is_convertible_v is_enum is_floating_point is_floating_point_v is_integral is_integral_v is_same is_same_v is_signed
is_signed_v is_unsigned is_unsigned_v is_void is_void_v make_index_sequence make_integer_sequence make_signed_t
make_unsigned_t remove_const_t remove_cv_t remove_pointer_t remove_reference remove_reference_t true_type
underlying_type_t void_t
"""
_NAMES = frozenset((_TYPES + _FUNCTIONS + _TRAITS).split())

# What the prelude includes, or what declares nothing of the C++ library beyond it.
_INCLUDED = """
array cassert cfloat climits cmath cstddef cstdint cstdio cstdlib cstring initializer_list limits optional stdexcept
string string_view tuple type_traits utility vector
assert.h float.h limits.h math.h stddef.h stdint.h stdio.h stdlib.h string.h
cuda.h cuda_bf16.h cuda_fp16.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h math_constants.h
vector_types.h
"""
_HEADERS = frozenset((_INCLUDED + _UNUSED).split())
_INCLUDE = re.compile(r"#\s*include(?P<next>\w*)\s*(?:[<\"](?P<name>[^>\"\n]*)[>\"])?")
_OF_STD = re.compile(r"\bstd\s*::\s*(?P<name>\w*)(?P<list>\s*\(\s*\{)?")
_OTHERWISE = re.compile(
    r"\bnamespace\b[^;{]*\bstd\b"  # all names of the library, or more of them
    r"|\]\s*__(?:host|device)__"  # a lambda of the device
    r"|__has_include|__cpp_lib_|\bimport\b"
)


def build_prelude() -> Prelude:
    """What such a candidate begins with."""
    return Prelude(_PRELUDE, include_folder(), unused=tuple(_UNUSED.split()))


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
    return header in _HEADERS or header in own or (include_folder() / header).is_file()
