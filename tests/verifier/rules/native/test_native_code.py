"""What the static rules for C++ and CUDA reject, and what they must allow."""

import pytest

from musadata.verifier.rules.native.native_code import check_native_code
from musadata.verifier.rules.native.tokens import read_tokens

KERNEL = "__global__ void k(float* x) { x[0] = 1.0f; }\n"


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("auto y = at::relu(x);", "legality.aten"),
        ("auto y = torch::matmul(a, b);", "legality.aten"),
        ("auto f = &at::relu;", "legality.aten"),
        ("auto y = torch::nn::functional::relu(x);", "legality.aten"),
        ("auto y = a.matmul(b);", "legality.aten"),
        ("using at::native::add; namespace at { namespace native { enum class add { One }; } }", "legality.aten"),
        ("namespace at::native { enum Add { One }; } auto y = at::native::Add(x);", "legality.aten"),
        ("enum Sum { One }; auto y = at::native::Sum::of(x);", "legality.aten"),
        ("#include <cublas_v2.h>\ncublasHandle_t handle;", "legality.library"),
        ("#include <cub/cub.cuh>\nusing namespace cub;", "legality.device_template"),
        (
            "#include <cub/cub.cuh>\n#define CALL(a, b) a##b\nauto f = CALL(cu, b)::DeviceReduce::Sum;",
            "legality.library",
        ),
        ("#include <cub/cub.cuh>\ntypedef cub::BlockReduce<float, 256> Reduce;", "legality.device_template"),
        ("#include <cub/cub.cuh>\nauto f = cub::DeviceReduce::Sum(a, b, c, d, n);", "legality.library"),
        ("#include <thrust/functional.h>\nthrust::plus<float> add;", "legality.device_template"),
        ("#include <thrust/sort.h>\nthrust::sort(thrust::device, a, b);", "legality.library"),
        ("#include <cublas_v2.h>\n#define C(a) cu##a\nauto f = C(blasSgemm);", "legality.library"),
        ("#include <cub/cub.cuh>\nauto f = C10_CONCATENATE(cu, b)::DeviceReduce::Sum;", "legality.library"),
        ("#include <ATen/native/cuda/Loops.cuh>\nusing namespace at::native;", "legality.library"),
        ("#include <fstream>\nusing namespace std;\nvoid f() { ofstream file; }", "legality.system"),
        ('#include <unistd.h>\nvoid f() { unlink("x"); }', "legality.system"),
        ("#include <unistd.h>\n#define J(a, b) a##b\nvoid f() { J(un, link)(0); }", "legality.system"),
        ('extern "C" void __ubsan_handle_type_mismatch_v1(void*, unsigned long) {}', "legality.system"),
        ("cublasSgemm(h, a);", "legality.library"),
        ("thrust::sort(a, b);", "legality.library"),
        ('auto t = py::module_::import("torch");', "legality.python_escape"),
        ('PyRun_SimpleString("x");', "legality.python_escape"),
        ("std::thread t(f);", "legality.system"),
        ('system("ls");', "legality.system"),
        ('void* h = dlopen("x.so", 1);', "legality.system"),
        ("emulator::musadata_reset_errors();", "legality.system"),
        ('extern "C" void musadata_configure(int, int);', "legality.system"),
        ('__attribute__((no_sanitize("thread"))) void f();', "legality.system"),
        ('#include "/etc/passwd"', "legality.system"),
        ('#define F "/etc/passwd"\n#include F', "legality.system"),
        ('asm(".incbin \\"/etc/shadow\\"");', "legality.system"),
        ("cudaGraphLaunch(g, s);", "legality.graph"),
        ("cudaHostRegister(p, n, 0);", "legality.host"),
        ('TORCH_LIBRARY_IMPL(aten, CUDA, m) { m.impl("clone", &f); }', "legality.patch"),
        ('extern "C" cudaError_t __real_cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);', "legality.system"),
    ],
)
def test_native_code_is_scanned(code, rule):
    assert rule in {finding.rule for finding in check_native_code([KERNEL + code])}


@pytest.mark.parametrize(
    "code",
    [
        "// at::relu(x); cublasSgemm(); #include <cub/cub.cuh>",
        "#include <cub/cub.cuh>\n#include <cublas_v2.h>\nint cube, cubic;",  # not used
        "#include <cub/cub.cuh>\n#define CASE(n) case n: run_##n(); break;\nvoid f(int k) { switch (k) { CASE(2) } }",
        "#include <cublas_v2.h>\n#define CUBLAS_CHECK(x) check(x == CUBLAS_STATUS_SUCCESS)\nint a;",
        "#include <ATen/native/cuda/KernelUtils.cuh>\n#include <ATen/core/dispatch/Dispatcher.h>\nint a;",
        "#include <thread>\n#include <fstream>\n#include <unistd.h>\n#include <signal.h>\nint thread_id, read;",
        "#include <unistd.h>\nstatic void link(int a) {}\nvoid f() { link(1); }",
        "int emulator = 3; float y = emulator * 2.0f;",
        '/* system("ls") */ const char* s = "torch::matmul(a, b)";',
        'const char* s = R"(at::relu(x))";',
        'auto y = torch::empty_like(x); auto z = at::zeros({1}, x.options()); TORCH_CHECK(x.is_cuda(), "exp");',
        "float v = max(a, b) + expf(c) + std::exp(d) + std::numeric_limits<float>::max();",
        "struct Op { float add(float a) { return a; } }; Op op; float r = op.add(1.0f);",
        "#include <cuda_runtime.h>\n#include <torch/extension.h>\n#include <cooperative_groups.h>\n#include <vector>",
        "auto s = at::cuda::getCurrentCUDAStream(); int n = 1'000'000;",
        "namespace at { namespace native { namespace detail { enum class Mode { Near, Far }; }}}\n"
        "using at::native::detail::Mode; int f(at::native::detail::Mode m) { return m == Mode::Near; }",
        'TORCH_LIBRARY_IMPL(mine, CUDA, m) { m.impl("clone", &f); }',
        "int n = size ? *size : x.max().cpu().item<int>(); auto y = x.to(torch::kCPU);",  # counted where they run
    ],
)
def test_honest_native_code_is_not_refused(code):
    assert check_native_code([KERNEL + code]) == ()


def test_tokens_survive_any_text():
    assert [t.text for t in read_tokens('a \\\n b\n\'c\' "d\\"" 0x1F R"x(y)x" /* open')][:2] == ["a", "b"]
    assert [t.line for t in read_tokens("a\n\nb \\\nc\nd")] == [1, 3, 4, 5]


def test_tokens_of_numbers_and_of_names_that_end_in_digits():
    texts = [token.text for token in read_tokens("x1.item() + 1.f + 1'000u + .5e-3f - a1->b2.c3")]
    assert texts == [
        "x1",
        ".",
        "item",
        "(",
        ")",
        "+",
        "1.f",
        "+",
        "1'000u",
        "+",
        ".5e-3f",
        "-",
        "a1",
        "->",
        "b2",
        ".",
        "c3",
    ]
