"""What PyTorch's and CUDA's headers declare is there for those that include them."""

import pytest

from musadata.verifier.backends.emulated.artifacts import compile_sources
from musadata.verifier.compilation.compile_errors import CompileError
from musadata.verifier.compilation.includes import refuse_missing_includes
from musadata.verifier.compilation.sources import CandidateSources

STREAM = "void go() { auto stream = at::cuda::getCurrentCUDAStream(); }\n"
GUARD = "void go(torch::Tensor x) { const at::cuda::OptionalCUDAGuard guard(at::device_of(x)); }\n"
CHECK = "void go() { C10_CUDA_CHECK(cudaGetLastError()); }\n"
LOOP = "__global__ void k(float* x, int n) { CUDA_KERNEL_LOOP(i, n) { x[i] = 1; } }\n"
INFINITE = "__global__ void k(float* x) { x[0] = -CUDART_INF_F; }\n"
BINDINGS = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"


def include(*headers):
    return "".join(f"#include <{header}>\n" for header in headers)


def refuse(cuda, **others):
    refuse_missing_includes(CandidateSources("candidate", cuda=(cuda,), **others))


# As nvcc 13 with PyTorch 2.15's own headers has it.
@pytest.mark.parametrize(
    ("use", "without", "home", "with_"),
    [
        (STREAM, "c10/cuda/CUDAException.h", "c10/cuda/CUDAStream.h", "ATen/cuda/CUDAContext.h"),
        (STREAM, "torch/extension.h", "c10/cuda/CUDAStream.h", "c10/cuda/CUDAGuard.h"),
        (GUARD, "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAGuard.h"),
        (GUARD, "c10/cuda/CUDAStream.h", "c10/cuda/CUDAGuard.h", "ATen/cuda/CUDAEvent.h"),
        (CHECK, "torch/extension.h", "c10/cuda/CUDAException.h", "c10/cuda/CUDAStream.h"),
        (LOOP, "ATen/cuda/CUDAContext.h", "ATen/cuda/detail/KernelUtils.h", "ATen/cuda/detail/KernelUtils.h"),
        (INFINITE, "cuda_fp16.h", "math_constants.h", "math_constants.h"),
        (BINDINGS, "cuda_runtime.h", "pybind11/pybind11.h", "torch/extension.h"),
    ],
)
def test_a_name_needs_a_header_that_brings_its_own(use, without, home, with_):
    with pytest.raises(CompileError, match=rf"^cuda_source:2: error: '\w+' is not declared here: #include <{home}>\n"):
        refuse(include(without) + use)
    refuse(include(with_) + use)


@pytest.mark.parametrize(
    "source",
    [
        "// at::cuda::getCurrentCUDAStream()\n",
        '/* C10_CUDA_CHECK */ const char* text = "CUDART_INF_F";\n',
        "#define CUDA_KERNEL_LOOP(i, n) for (int i = threadIdx.x; i < n; i += blockDim.x)\n" + LOOP,
        "cudaDeviceProp getDeviceProperties(int device);\nvoid go() { getDeviceProperties(0); }\n",
        "#if CUDART_VERSION >= 12000\n#endif\n",
        "__global__ void k(float* x) { x[0] = FLT_MAX; assert(x[0] > 0); }\n",
    ],
)
def test_what_is_the_candidates_own_or_no_code_needs_none(source):
    refuse(source)


def test_headers_of_the_candidate_include_for_it():
    own = (("a.h", '#include "b.h"\n'), ("b.h", include("ATen/cuda/CUDAContext.h")))
    refuse('#include "a.h"\n' + STREAM, headers=own, separate=True)
    with pytest.raises(CompileError, match=r"CUDAStream\.h"):
        refuse(STREAM, headers=own, separate=True)


def test_sources_of_a_kind_are_one_unit_where_load_inline_makes_them_one():
    texts = (include("ATen/cuda/CUDAContext.h"), STREAM)
    refuse_missing_includes(CandidateSources("candidate", cuda=texts))
    with pytest.raises(CompileError, match=r"^cuda_source_1:1"):
        refuse_missing_includes(CandidateSources("candidate", cuda=texts, separate=True))


def test_the_first_use_of_each_name_is_told_and_its_line_shown():
    with pytest.raises(CompileError) as refused:
        refuse(STREAM + STREAM.replace("go", "again") + CHECK)
    assert str(refused.value).splitlines()[::2] == [
        "cuda_source:1: error: 'getCurrentCUDAStream' is not declared here: #include <c10/cuda/CUDAStream.h>",
        "cuda_source:3: error: 'C10_CUDA_CHECK' is not declared here: #include <c10/cuda/CUDAException.h>",
    ]


def test_the_emulator_refuses_them():
    with pytest.raises(CompileError, match=r"CUDAStream\.h"):
        compile_sources(CandidateSources("candidate", cuda=(STREAM,)))
