"""What nvcc makes of candidates; no device is needed for it."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from musadata.verifier.backends.cuda import nvcc as nvcc_module
from musadata.verifier.backends.cuda.nvcc import compile_candidate
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.contained_run import CompileLimits
from musadata.verifier.compilation.host_toolchain import find_toolchain
from musadata.verifier.compilation.sources import CandidateSources, from_load_inline
from tests.verifier.backends.emulated.misplaced import ACCEPTED, REFUSED

LIMITS = CompileLimits(memory_mb=16384)
OVERLOADS = Path(__file__).parents[1] / "emulated" / "overloads.cu"
CPP = "torch::Tensor scale(torch::Tensor x);"
CUDA = """
#include <cuda_fp16.h>
__global__ void scale_kernel(__half* x, int n) {
  int i = blockIdx.x * TILE + threadIdx.x;
  if (i < n) x[i] = x[i] * __float2half(FACTOR);
}
torch::Tensor scale(torch::Tensor x) {
  const int n = x.numel();
  scale_kernel<<<(n + TILE - 1) / TILE, TILE>>>(reinterpret_cast<__half*>(x.data_ptr()), n);
  return x;
}
"""


def test_definitions_among_the_flags_reach_the_candidate(nvcc):
    flags = ["-O2", "-DTILE=16", "-DFACTOR=2.0f", "-U__CUDA_NO_HALF_OPERATORS__"]
    sources = from_load_inline("scale", CPP, CUDA, functions="scale", extra_cuda_cflags=flags)
    assert compile_candidate(sources, nvcc, LIMITS).is_file()


def test_errors_are_told_in_the_candidates_own_lines(nvcc):
    wrong = CUDA.replace("TILE", "16").replace("FACTOR", "missing")
    with pytest.raises(CompileError, match=r'^cuda_source:5: error.*"?missing"? (is undefined|was not declared)'):
        compile_candidate(from_load_inline("scale", CPP, wrong, functions="scale"), nvcc, LIMITS)


def test_limits_hold_for_every_phase(nvcc):
    sources = from_load_inline("scale", CPP, CUDA, functions="scale", extra_cuda_cflags=["-DTILE=16", "-DFACTOR=2.0f"])
    with pytest.raises(CompileError, match="takes more space for its output than it may"):
        compile_candidate(sources, nvcc, CompileLimits(memory_mb=16384, output_mb=1))


# Both units include what stands in a header of the repository, as `load_inline` has no files.
SHARED = """
#include <cuda_runtime.h>
const int THREADS = 64;
namespace { inline int blocks(int n, int each = THREADS) { return (n + each - 1) / each; } }
template <class T> __device__ T twice(T x) { return x + x; }
static __global__ void double_kernel(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = twice(x[i]);
}
"""
BINDING = """
#include <torch/extension.h>
void launch(float* x, int n);
torch::Tensor scale(torch::Tensor x) { launch(x.data_ptr<float>(), x.numel()); return x; }
"""
LAUNCH = "void launch(float* x, int n) { double_kernel<<<blocks(n), THREADS>>>(x, n); }"


def test_what_both_units_define_is_compiled_apart_as_pytorch_does(nvcc):
    sources = from_load_inline("twice", SHARED + BINDING, SHARED + LAUNCH, functions="scale")
    assert compile_candidate(sources, nvcc, LIMITS).is_file()


def test_sources_that_ask_whether_they_are_cuda_go_to_the_hosts_compiler_as_with_pytorch(nvcc):
    asking = "#ifdef __CUDACC__\nstatic int threads() { return 64; }\n#else\nint threads();\n#endif\n"
    own = asking + BINDING + "int threads() { return 32; }"
    sources = from_load_inline("twice", own, asking + SHARED + LAUNCH, functions="scale")
    assert compile_candidate(sources, nvcc, LIMITS).is_file()


def test_what_one_unit_defines_twice_is_an_error(nvcc):
    with pytest.raises(CompileError, match=r"THREADS.*already been defined"):
        sources = from_load_inline("twice", SHARED + BINDING, SHARED + SHARED + LAUNCH, functions="scale")
        compile_candidate(sources, nvcc, LIMITS)


@pytest.mark.slow
def test_thrust_may_be_included(nvcc):
    kernels = "#include <thrust/sort.h>\n#include <thrust/device_vector.h>\n" + SHARED + LAUNCH
    assert compile_candidate(from_load_inline("thrust", BINDING, kernels, functions="scale"), nvcc, LIMITS).is_file()


@pytest.mark.slow
def test_overloaded_functions_are_as_the_emulator_has_them(nvcc):
    assert compile_candidate(CandidateSources("overloads", cuda=(OVERLOADS.read_text(encoding="utf-8"),)), nvcc, LIMITS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*REFUSED, *ACCEPTED])
def test_execution_spaces_are_as_the_emulator_has_them(nvcc, name):
    sources = CandidateSources("space", cuda=({**REFUSED, **ACCEPTED}[name],))
    with pytest.raises(CompileError) if name in REFUSED else nullcontext():
        compile_candidate(sources, nvcc, LIMITS)


def test_what_candidates_share_of_full_headers_is_made_once_many_have_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path))
    asked = []
    monkeypatch.setattr(nvcc_module, "share_phases", lambda *_: asked.append(1) or tmp_path / "compile.sh")
    compiler = nvcc_module.Nvcc("nvcc", "13.0", "90", tmp_path)
    ways = [nvcc_module._full_way(compiler, find_toolchain(), ()) for _ in range(6)]
    assert [way.compiling[0] for way in ways] == ["nvcc"] * 4 + ["/bin/sh"] * 2
    assert len(asked) == 2


def test_pytorchs_own_headers_are_compiled_in_its_own_standard(nvcc, tmp_path):
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils/cpp_extension.py").write_text("cuda_flags = cuda_flags + ['-std=c++17']\n")
    older = replace(find_toolchain(), torch_root=tmp_path)
    *small, full = nvcc_module._ways(from_load_inline("scale", CPP, CUDA), nvcc, older)
    assert "-std=c++17" in full.compiling and "-std=c++17" in full.compiling_host
    assert all("-std=c++20" in way.compiling_host for way in small)


def test_sources_for_the_hosts_compiler_have_the_library_that_pytorch_brings_along(nvcc, monkeypatch):
    monkeypatch.setattr(nvcc_module, "may_need_full_headers", lambda *_: False)
    cpp = (
        f"#ifdef __NVCC__\n#error not for nvcc\n#endif\n{CPP}\nint first(std::queue<int> all) {{ return all.front(); }}"
    )
    cuda = CUDA.replace("TILE", "16").replace("FACTOR", "2.0f")
    sources = from_load_inline(
        "scale", cpp, cuda, functions="scale", extra_cuda_cflags=["-U__CUDA_NO_HALF_OPERATORS__"]
    )
    assert compile_candidate(sources, nvcc, LIMITS).is_file()
