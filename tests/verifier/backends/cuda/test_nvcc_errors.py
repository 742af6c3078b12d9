"""PyTorch's own headers, which cost tens of seconds, are asked only where they may know what the small ones do not."""

import pytest

from musadata.verifier.backends.cuda import nvcc as compiling
from musadata.verifier.backends.cuda.nvcc import compile_candidate
from musadata.verifier.backends.cuda.nvcc_errors import may_clash, may_need_full_headers
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits
from musadata.verifier.compilation.sources import CandidateSources

OWN = [
    'cuda_source(2): error: expected a ";"\n  y[i] = at::Half(1)\n',
    'cuda_source(2): error: identifier "j" is undefined\n',
    'cuda_source(2): error: a value of type "const char *" cannot be used to initialize an entity of type "float"\n',
    'cuda_source(2): error: no instance of overloaded function "__shfl_xor" matches the argument list\n'
    "            argument types are: (int)\n",
    "cuda_source(3): error: too few arguments in function call\n",
    "cuda_source(2): error: expression must have a constant value\n",
]
FOREIGN = [
    'cuda_source(3): error: class "at::Tensor" has no member "no_such"\n',
    'cuda_source(3): error: namespace "at::cuda" has no member "Foo"\n',
    'cuda_source(3): error: namespace "std" has no member "regex"\n',
    "cuda_source:9: error: 'float lerp(float, float, float)' conflicts with a previous declaration\n",
    "cpp_source:445: error: 'iota' is not a member of 'std'\n",
    'cuda_source(3): error: identifier "AT_DISPATCH_FOO" is undefined\n',
    "cuda_source(3): error: too many arguments in function call\n",
    'cuda_source(3): error: identifier "cublasHandle_t" is undefined\n',
    'cuda_source(3): error: name followed by "::" must be a class or namespace name\n',
    'cuda_source(3): error: no instance of overloaded function "atomicAdd" matches the argument list\n'
    "            argument types are: (c10::Half *, c10::Half)\n",
    "cuda_source:1:10: fatal error: ATen/native/cuda/Loops.cuh: No such file or directory\n",
    "/usr/bin/ld: candidate.o: undefined reference to `at::native::foo'\ncollect2: error: ld returned 1 exit status\n",
]


@pytest.mark.parametrize("said", OWN)
def test_errors_that_no_header_would_mend_do_not_ask_for_more(said):
    assert not may_need_full_headers(said, ["at::Tensor f();"])


@pytest.mark.parametrize("said", FOREIGN)
def test_errors_about_what_pytorch_may_have_do(said):
    assert may_need_full_headers(said, [])
    assert may_need_full_headers(OWN[0] + said, [])


@pytest.mark.parametrize("said", ["", "Segmentation fault\n"])
def test_a_compiler_that_names_no_error_is_tried_again(said):
    assert may_need_full_headers(said, [])


def test_any_unknown_name_may_be_pytorchs_where_its_namespace_is_opened():
    assert may_need_full_headers(OWN[1], ["using namespace at;"])
    assert not may_need_full_headers(OWN[0], ["using namespace at;"])


CLASHES = [
    "cuda_source(139): error: cannot overload functions distinguished by return type alone\n",
    'cuda_source(14): error: variable "N" has already been defined (previous definition at line 11 of cpp_source)\n',
    'cuda_source(3): error: function template "twice" has already been defined\n',
    'cuda_source(2): error: invalid redeclaration of type name "Pair" (declared at line 2 of cpp_source)\n',
    'cuda_source(9): error: "scale" is ambiguous\n',
    'cuda_source(3): error: explicit specialization of function "f(F) [with F=float]" must precede its first use (at\n',
]


@pytest.mark.parametrize("said", CLASHES)
def test_names_that_two_units_define_may_clash(said):
    assert may_clash(OWN[1] + said)


@pytest.mark.parametrize("said", OWN)
def test_other_errors_are_not_compiled_apart(said):
    assert not may_clash(said)


def test_a_wrong_candidate_is_refused_without_pytorchs_headers(nvcc, monkeypatch, tmp_path):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path))
    ways = []

    def count(*arguments):
        for way in WAYS(*arguments):
            ways.append(way.full)
            yield way

    WAYS = compiling._ways
    monkeypatch.setattr(compiling, "_ways", count)
    source = "#include <torch/extension.h>\n__global__ void k(float* x, int n) { x[n] = y; }\n"
    with pytest.raises(CompileError, match='cuda_source:2: error: identifier "y" is undefined'):
        compile_candidate(CandidateSources("wrong", cuda=(source,)), nvcc, CompileLimits(memory_mb=16384))
    assert ways == [False, False, True]  # the last one is offered, and not taken
