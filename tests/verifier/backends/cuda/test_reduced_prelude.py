"""Candidates that name little of the standard library are compiled with little of it, and mean the same."""

import pytest

from musadata.verifier.backends.cuda import reduced_prelude
from musadata.verifier.backends.cuda.nvcc import compile_candidate
from musadata.verifier.backends.cuda.phases import SOURCE, share_phases
from musadata.verifier.compilation.contained_run import CompileLimits, run_contained
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.compilation.sources import CandidateSources

LIMITS = CompileLimits(memory_mb=16384)
KERNEL = """
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <iostream>
#include <vector>
__global__ void relu(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = std::max(x[i], 0.0f) / std::numeric_limits<float>::max();
}
std::vector<torch::Tensor> forward(torch::Tensor x) {
  TORCH_CHECK(x.is_contiguous(), "strides ", x.strides(), " of ", x.dtype(), 1.5f, true, 2ll);
  auto y = torch::empty_like(x);
  float std = std::sqrt(2.0f);
  relu<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return {y};
}
"""
NEED_MORE = [
    "void f() { std::cout << 1; }",
    "void f(std::vector<int>& v) { std::sort(v.begin(), v.end()); }",
    "int f() { return std::max({1, 2, 3}); }",
    "using namespace std;",
    "namespace library = ::std;",
    "namespace std { template <> struct hash<int*>; }",
    "int a = std:: /* hidden */ cerr.good();",
    "#include <cub/cub.cuh>",
    "#include <../vector>",
    "#include NAME",
    "#if __has_include(<span>)\n#endif",
    "auto twice = [=] __device__(float x) { return 2 * x; };",
]


def candidate(cuda, *defines):
    return CandidateSources("candidate", cuda=(cuda,), functions=(("forward", ""),), defines=defines)


def test_candidate_with_a_vector_and_a_maximum_needs_the_reduced_prelude_only():
    assert reduced_prelude.suffices(candidate(KERNEL, "-DTILE=std::min(1,2)"))


@pytest.mark.parametrize("more", NEED_MORE)
def test_candidate_that_names_more_of_the_library_needs_the_whole_prelude(more):
    assert not reduced_prelude.suffices(candidate(KERNEL + more))


def test_headers_and_definitions_of_a_candidate_count():
    assert not reduced_prelude.suffices(candidate(KERNEL, "-DSORT=std::sort"))
    sources = candidate('#include "own.h"\n')
    assert not reduced_prelude.suffices(sources)
    for text, expected in (("int own;", True), ("std::thread own;", False)):
        assert (
            reduced_prelude.suffices(CandidateSources("candidate", cuda=sources.cuda, headers=(("own.h", text),)))
            == expected
        )


@pytest.fixture(scope="module")
def compile_reduced(nvcc, command_of, tmp_path_factory):
    """Compile a text behind the reduced prelude; the exit status and the folder."""
    command = command_of(nvcc.path, *reduced_prelude.FLAGS)
    script = share_phases(find_toolchain(), nvcc.version, command, reduced_prelude.build_prelude())
    assert script is not None

    def compile_text(text):
        folder = tmp_path_factory.mktemp("reduced")
        (folder / SOURCE).write_text(text)
        return run_contained(["/bin/sh", str(script)], folder, LIMITS), folder

    return compile_text


def test_every_name_and_header_that_the_reduced_prelude_suffices_for_is_there(compile_reduced):
    headers = "".join(f"#include <{header}>\n" for header in sorted(reduced_prelude._HEADERS))
    names = "".join(f"using std::{name};\n" for name in sorted(reduced_prelude._NAMES))
    done, _ = compile_reduced(f"{headers}namespace own {{\n{names}}}\n")
    assert done.code == 0, done.stderr


def test_device_code_behind_the_reduced_prelude_is_the_same(compile_reduced, nvcc, tmp_path):
    done, folder = compile_reduced(KERNEL)
    assert done.code == 0, done.stderr
    (tmp_path / SOURCE).write_text(KERNEL)
    flags = [
        "-ptx",
        "-arch=sm_90",
        "-std=c++20",
        "--expt-relaxed-constexpr",
        "-w",
        f"-I{reduced_prelude.build_prelude().headers}",
    ]
    command = [nvcc.path, *flags, "-ccbin", find_toolchain().compiler, SOURCE, "-o", "candidate.ptx"]
    assert run_contained(command, tmp_path, LIMITS).code == 0
    assert (folder / "candidate.ptx").read_text() == (tmp_path / "candidate.ptx").read_text()


def test_candidate_that_hides_what_it_names_gets_the_whole_library(nvcc):
    text = "#define LIBRARY std\nLIBRARY::ostringstream stream;\n"
    assert reduced_prelude.suffices(candidate(text))
    assert compile_candidate(CandidateSources("candidate", cuda=(text,)), nvcc, LIMITS).is_file()
