"""What is read from a kernel's code, and when its threads cannot be put together into warps."""

import pytest

from musadata.sampling.profiling.kernel_code import read_cuda

LOOP = (
    "__global__ void k(const float* x, float* y, int n) {{ const int i = threadIdx.x; float s = 0; {body} y[i] = s; }}"
)


def read(body: str, more: str = ""):
    return read_cuda(more + LOOP.format(body=body))["k"]


def test_pointers_and_vectors_are_read_from_the_code():
    code = "__global__ void k(const float* __restrict__ x, int n, float y[], const float4* z) { float4 v = z[0]; }"
    kernel = read_cuda(code)["k"]
    assert kernel.pointers == ("x", "y", "z") and kernel.window == 16
    assert read("s += x[i];").window == 0


FOUR = "const float4 four = *reinterpret_cast<const float4*>(row + i);"


def test_vectors_of_a_called_function_are_one_access_and_its_template_is_quoted():
    load = f"template <int COUNT> __device__ void load(float (&to)[COUNT], const float* row, int i) {{ {FOUR}"
    load += " to[0] = four.x; to[1] = four.y; }\n"
    kernel = read("float own[4]; load<4>(own, x, i); s += own[0];", load)
    assert kernel.window == 16 and not kernel.unseen
    assert kernel.called[0].startswith("template <int COUNT>")


def test_components_beside_vectors_cannot_be_told_from_them():
    load = f"__device__ float load(const float* row, int i, bool fits) {{ if (fits) {{ {FOUR} return four.x; }}"
    load += " return row[0] + row[i + 1]; }\n"
    assert "one by one" in read("s += load(x, i, n > 4);", load).unseen


@pytest.mark.parametrize(
    ("body", "skips", "nested"),
    [
        ("s += x[i];", False, False),
        ("if (i < n) s += x[i];", False, False),
        ("for (int k = 0; k < n; ++k) s += x[k];", False, False),
        ("for (int k = 0; k < n; ++k) { if (k + i < n) s += x[k + i]; }", True, False),
        ("for (int k = 0; k < n; ++k) s += k + i < n ? x[k + i] : 0.0f;", True, False),
        ("for (int k = 0; k < n && x[k] > 0; ++k) s += 1;", True, False),
        ("for (int k = 0; k < n; ++k) { if (k > i) break; s += x[k]; }", True, False),
        ("for (int k = 0; k < n; ++k) { if (k < i) s += x[k]; __syncthreads(); }", False, False),
        ("for (int k = 0; k < n; ++k) for (int j = 0; j < i; ++j) s += x[k + j];", False, True),
        ("for (int k = 0; k < n; ++k) { for (int j = 0; j < i; ++j) s += x[j]; __syncwarp(); }", False, False),
        ("float own[4]; for (int k = 0; k < 4; ++k) if (i) own[k] = 1; s = own[0];", False, False),
    ],
)
def test_accesses_that_lanes_may_skip_are_seen(body, skips, nested):
    kernel = read(body)
    assert (kernel.skips, kernel.nested) == (skips, nested)


def test_an_access_in_a_called_function_stands_where_the_call_does():
    called = "__device__ float at(const float* x, int i) { return x[i]; }\n"
    assert read("for (int k = 0; k < n; ++k) { if (k < i) s += at(x, k); }", called).skips
    kernel = read("s += at(x, i);", called)
    assert not kernel.skips and "at" in kernel.called[0]


@pytest.mark.parametrize(
    "body",
    [
        'asm("bar.sync 0;");',
        "wmma::load_matrix_sync(a, x, 16);",
        "unsigned m = __activemask();",
        "if (i < 16) s += __shfl_down_sync(0xffff, s, 8);",
        "__pipeline_memcpy_async(y, x, 16);",
        "CUDA_KERNEL_LOOP(k, n) { if (k < i) s += x[k]; }",
        "auto read = [&](int k) { return x[k]; };",
        "__syncwarp(0xffff);",
    ],
)
def test_what_accesses_do_not_show_is_named(body):
    assert read(body).unseen
    assert not read("s += __shfl_down_sync(0xffffffffu, s, 8);").unseen


def test_alignment_of_a_structure_hides_no_kernel():
    move = "template <int N, typename T>\n__device__ void move(T* to, const T* from) {\n"
    move += "    struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector { T of[N]; };\n"
    move += "    *reinterpret_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(from);\n}\n"
    kernel = "__global__ void copy(const float* x, float* y) {\n    __align__(16) float part[4];\n"
    with_vectors = kernel + "    move<4>(part, x);\n    move<4>(y, part);\n}\n"
    plain = "__global__ void one(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n"
    found = read_cuda(move + with_vectors + plain)
    assert (found["copy"].unseen, found["one"].unseen) == ("vectors of a width that is a parameter", "")
    assert "__align__(16) float part[4];" in found["copy"].text
