"""The port changes CUDA's names and nothing else, and refuses what has no other name."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.cpp import Code
from musadata.verifier.backends.musa.port import NoCounterpart, port_header, port_name, port_source, port_sources
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.rules.native.tokens import read_tokens
from tests.adversarial.programs import read_programs

INCLUDE = Path(__file__).with_name("include")
ALIASES = dict(re.findall(r"^#define (\w+) (\w+)$", (INCLUDE / "musa_aliases.h").read_text(), re.MULTILINE))
RENAMED = st.sampled_from(sorted(set(ALIASES.values()) - {"CUDA", "__CUDA_ARCH__"}))
OWN = [
    "my_cudaMalloc",
    "CHECK_CUDA",
    "relu_cuda",
    "cuda",
    "CUDA",
    "cudamalloc",
    "n_kCUDA",
    "is_cuda_tensor",
    "cu",
    "int",
]
PIECES = [
    *ALIASES.values(), *OWN, " ", "\n", "(", ")", "{", "}", "<<<1, 2>>>", "::", ".", "->", "#include", "\\", "é",
    "#include <cuda_runtime.h>\n", '#include "own.cuh"\n', "#include <c10/cuda/CUDAGuard.h>\n",
    "at::cuda", "c10::cuda::", "DeviceType::CUDA",
    "#ifdef __CUDA_ARCH__\n", "__CUDA_ARCH__ >= 800", "1'000", '"cudaFree"', "'c'", "// cudaFree\n", "/* cuda.h */",
    'R"(cudaFree)"',
]  # fmt: skip
CODE = st.lists(st.sampled_from(PIECES)).map("".join)


def ported(source: str) -> str:
    """The port, or the source itself if pieces put together at random cannot be ported."""
    try:
        return port_source(source)
    except NoCounterpart:
        return source


LITERAL = st.text(alphabet=st.characters(blacklist_characters='"\\\n\r')).filter(lambda text: "CUDA" not in text)


@given(LITERAL, RENAMED)  # the word CUDA itself is renamed in a message
def test_strings_and_comments_are_left_as_they_are(text, name):
    source = f'const char* s = "{text} {name}"; // {name} {text}\nauto r = R"({name})"; int x;\n'
    assert port_source(source) == source
    comment = f"/* {name} {text.replace('*/', '')} */ int x;"
    assert port_source(comment) == comment


def test_messages_name_the_platform_that_they_are_about():
    source = 'TORCH_CHECK(x.defined(), "x must be a CUDA tensor, on \\"cuda:0\\" as LIB_CUDA is");  // a CUDA tensor'
    assert port_source(source) == source.replace("be a CUDA", "be a MUSA")
    for kept in ('const char* s = "CUDA";', 'auto s = R"(a CUDA tensor)";', 'char s[] = "USE_CUDA x";'):
        assert port_source(kept) == kept


@given(RENAMED, st.text(alphabet="abcxyz_", min_size=1, max_size=8))
def test_names_inside_identifiers_are_left_as_they_are(name, other):
    assert port_source(f"int {other}{name};") == f"int {other}{name};"
    assert port_source(f"int {other}_{name}_{other};") == f"int {other}_{name}_{other};"


@given(CODE)
def test_porting_twice_is_porting_once(source):
    once = ported(source)
    assert ported(once) == once


@given(CODE)
def test_only_names_change_and_every_line_stays_on_its_line(source):
    before, after = (
        [str(code[found.start() : found.end()]) for found in code.find(r"\s+")]
        for code in (Code(source), Code(ported(source)))
    )
    assert before == after
    assert source.count("\n") == ported(source).count("\n")


@given(st.text())
def test_any_text_is_ported_or_refused(source):
    ported(source)


@pytest.mark.parametrize(("musa", "cuda"), sorted(ALIASES.items()))
def test_every_alias_is_what_the_port_calls_it(musa, cuda):
    if cuda == "CUDA":
        assert port_source("c10::DeviceType::CUDA") == f"c10::DeviceType::{musa}"
    else:
        assert port_name(cuda) == musa
        assert port_name(musa) == musa


@pytest.mark.parametrize("header", sorted(path for path in INCLUDE.rglob("*.h") if path.name != "musa_aliases.h"))
def test_every_alias_header_is_where_the_port_looks_for_it(header):
    name = str(header.relative_to(INCLUDE))
    cuda = re.findall(r"#include <((?:c10|ATen)/cuda/\S+)>", header.read_text())
    assert port_header(cuda[0] if cuda else name.replace("musa", "cuda")) == name


HONEST = read_programs("honest")


@pytest.mark.parametrize("program", [p for p in HONEST if p.value("musa")], ids=lambda program: program.name)
def test_honest_program_that_musa_cannot_express_is_refused(program):
    with pytest.raises(NoCounterpart, match=program.value("musa")):
        port_source(program.source)


@pytest.mark.parametrize("program", [p for p in HONEST if not p.value("musa")], ids=lambda program: program.name)
def test_aliases_bring_ported_programs_back(program):
    """Python is no C++, but the names in it, strings cut open, are those that the port has to know."""
    cuda = program.source.replace('"', " ").replace("'", " ")
    back = port_source(cuda)
    for musa, name in ALIASES.items():
        back = re.sub(rf"\b{musa}\b", name, back)
    back = back.replace("::musa", "::cuda")
    included = re.compile(r"#\s*include.*")
    assert _words(included.sub("", back)) == _words(included.sub("", cuda))


def _words(text: str) -> list[str]:
    return [token.text for token in read_tokens(text) if token.kind == "word"]


@pytest.mark.parametrize(
    ("cuda", "musa"),
    [
        ("kernel<<<g, b, 0, stream>>>(x)", "kernel<<<g, b, 0, stream>>>(x)"),
        ("__shfl_down_sync(0xffffffff, v, 16)", "__shfl_down_sync(0xffffffff, v, 16)"),
        ("atomicAdd(&x, __float2half(1.0f))", "atomicAdd(&x, __float2half(1.0f))"),
        ("nv_bfloat16 x; __nv_bfloat162 y;", "__mt_bfloat16 x; __mt_bfloat162 y;"),
        ("at::cuda::getCurrentCUDAStream()", "at::musa::getCurrentMUSAStream()"),
        ("using namespace c10::cuda;", "using namespace c10::musa;"),
        ("torch::TensorOptions().device(torch::kCUDA)", "torch::TensorOptions().device(torch::kPrivateUse1)"),
        ("x.device().type() == c10::DeviceType::CUDA", "x.device().type() == c10::DeviceType::PrivateUse1"),
        ("TORCH_LIBRARY_IMPL(own, CUDA, m) {}", "TORCH_LIBRARY_IMPL(own, PrivateUse1, m) {}"),
        ("x.is_cuda()", "x.is_privateuseone()"),
        ("#if __CUDA_ARCH__ >= 800", "#if __MUSA_ARCH__ >= 220"),
        ("#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900", "#if defined(__MUSA_ARCH__) && __MUSA_ARCH__ < 310"),
        ("#include<cuda_fp16.h>", "#include<musa_fp16.h>"),
        ('#  include "own.cuh"', '#  include "own.muh"'),
        ("#include <ATen/cuda/CUDAUtils.h>", "#include <ATen/musa/MUSAUtils.h>"),
        ("cuDeviceGet(&d, 0) == CUDA_SUCCESS; CUdevice d;", "muDeviceGet(&d, 0) == MUSA_SUCCESS; MUdevice d;"),
        ("cublasHandle_t h; CUBLAS_STATUS_SUCCESS", "mublasHandle_t h; MUBLAS_STATUS_SUCCESS"),
        ("cuda::std::numeric_limits<int>", "musa::std::numeric_limits<int>"),
        ("struct cudaDeviceProp p;", "struct musaDeviceProp p;"),
    ],
)
def test_names_are_those_of_musa(cuda, musa):
    assert port_source(cuda) == musa


@pytest.mark.parametrize(
    "source",
    [
        "#define CUDA_KERNEL_LOOP(i, n) for (int i = 0; i < n; ++i)\nvoid f() { CUDA_KERNEL_LOOP(i, 3) {} }",
        "torch::Tensor cudaRelu(torch::Tensor x) { return x; }\nauto y = cudaRelu(x);",
        "struct cudaParameters { int n; };\ncudaParameters p;",
        "namespace cuda { int x; } int y = cuda::x;",
    ],
)
def test_what_a_source_defines_itself_is_its_own_whatever_its_name(source):
    assert port_source(source) == source


def test_own_names_are_known_to_all_sources_of_a_program():
    sources = CandidateSources(
        "x",
        cpp=("void cudaRelu(float* x);",),
        cuda=('#include "tile.cuh"\nvoid cudaRelu(float* x) { cudaFree(x); cudaTile(x); }',),
        functions=(("cudaRelu", "cudaRelu"),),
        headers=(("tile.cuh", "void cudaTile(float* x) {}"),),
        defines=("-U__CUDA_NO_HALF_OPERATORS__", "-DTILE=cudaSuccess"),
    )
    moved = port_sources(sources)
    assert moved.cpp == sources.cpp
    assert moved.cuda == ('#include "tile.muh"\nvoid cudaRelu(float* x) { musaFree(x); cudaTile(x); }',)
    assert moved.headers == (("tile.muh", "void cudaTile(float* x) {}"),)
    assert moved.defines == ("-U__MUSA_NO_HALF_OPERATORS__", "-DTILE=musaSuccess")
    assert port_sources(moved) == moved


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ('asm volatile("mov.u32 %0, %%laneid;" : "=r"(x));', "inline PTX"),
        ("#include <mma.h>", "wmma"),
        ("nvcuda::wmma::fill_fragment(f, 0)", "wmma"),
        ("__grid_constant__ const CUtensorMap map", "tensor memory accelerator"),
        ("__pipeline_memcpy_async(a, b, 16);", "cp.async"),
        ("#include <cooperative_groups/memcpy_async.h>", "cp.async"),
        ("#include <cuda/pipeline>", "cp.async"),
        ("cg::this_cluster().sync();", "thread block clusters"),
        ("#if CUDART_VERSION >= 12000", "CUDA's version"),
        ("#if __CUDA_ARCH__ >= 700", "__CUDA_ARCH__"),
        ("int x = __CUDA_ARCH__ / 100;", "__CUDA_ARCH__"),
        ('torch::Device("cuda:0")', "device named in a C++ string"),
        ("__nv_fast_expf(x)", "device library"),
        ("cudaGridDependencySynchronize();", "programmatic dependent launches"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_its_line(source, what):
    with pytest.raises(NoCounterpart, match=f"MUSA has no counterpart of .*{re.escape(what)}.* \\(line 2\\)"):
        port_source(f"\n{source}\n")


def test_refusal_names_each_thing_once_in_the_order_of_the_source():
    with pytest.raises(NoCounterpart) as caught:
        port_source('#include <mma.h>\nasm("x");\nasm("y");\nusing namespace nvcuda;')
    assert str(caught.value) == "MUSA has no counterpart of tensor core fragments (wmma) (line 1); inline PTX (line 2)"
