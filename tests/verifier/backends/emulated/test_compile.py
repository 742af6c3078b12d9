"""Compiling is a pure function of the sources: contained, cached, with errors in the candidate's own lines."""

import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from musadata.errors import MusadataError
from musadata.verifier.backends.emulated import artifacts
from musadata.verifier.backends.emulated.artifacts import compile_sources
from musadata.verifier.compilation import build_cache
from musadata.verifier.compilation import host_toolchain as toolchain
from musadata.verifier.compilation.compile_errors import CompileError, Unsupported
from musadata.verifier.compilation.contained_run import CompileLimits, Finished, run_contained
from musadata.verifier.compilation.sources import CandidateSources

KERNEL = """#include <torch/extension.h>
__global__ void kernel(float* x) { x[threadIdx.x] = 1; }
torch::Tensor run(torch::Tensor x) {
  kernel<<<1, x.numel()>>>(x.data_ptr<float>());
  return x;
}
"""
DECLARATION = "torch::Tensor run(torch::Tensor x);"


def sources(cuda: str = KERNEL, cpp: str = DECLARATION, functions=("run",), defines=()) -> CandidateSources:
    bound = None if functions is None else tuple((name, name) for name in functions)
    return CandidateSources("test", (cpp,), (cuda,), bound, tuple(defines))


def error_of(candidate: CandidateSources, **options) -> str:
    with pytest.raises(CompileError) as caught:
        compile_sources(candidate, **options)
    return str(caught.value)


def test_same_sources_give_the_same_artifact_without_compiling_again():
    first = compile_sources(sources())
    before = first.stat()
    assert compile_sources(sources()) == first
    assert first.stat().st_mtime_ns == before.st_mtime_ns
    assert compile_sources(sources(KERNEL + "// another\n")) != first


def test_the_name_of_the_extension_changes_nothing():
    other = CandidateSources("other", (DECLARATION,), (KERNEL,), (("run", "run"),))
    assert compile_sources(other) == compile_sources(sources())


def test_errors_name_the_candidates_own_line_and_show_it():
    text = error_of(sources(KERNEL.replace("return x;", "return undefined_thing;")))
    assert text.startswith("cuda_source:5: error: 'undefined_thing' was not declared in this scope")
    assert text.endswith("    return undefined_thing;")


def test_errors_hold_no_path_of_this_machine_and_repeat_themselves():
    broken = sources(
        KERNEL.replace("x.numel()>>>", "x.numel(), 0, 0, 0>>>").replace("x[threadIdx.x] = 1", "x[threadIdx.q] = 1")
    )
    text = error_of(broken)
    assert text == error_of(broken)
    assert "/tmp" not in text and str(Path.home()) not in text and "musadata" not in text
    assert "cuda_source:2" in text and "cuda_source:4" in text


def test_error_inside_our_headers_is_put_where_the_candidate_caused_it():
    text = error_of(sources(KERNEL.replace("(x.data_ptr<float>())", "(x)")))
    assert text.startswith("cuda_source:4: error: ")


def test_bound_function_must_be_declared_in_cpp_sources_as_in_pytorch():
    assert "cpp_sources must declare" in error_of(sources(cpp=""))


def test_declared_and_never_defined_function_is_an_undefined_symbol():
    text = error_of(sources(cpp=DECLARATION + "\nint other(int x);", functions=("run", "other")))
    assert "undefined symbol: other(int)" in text


def test_linker_that_fails_on_its_own_account_is_not_the_candidates_fault(monkeypatch):
    broken = replace(toolchain.find_toolchain(), linker_flags=("-lnothing-of-the-kind",))
    monkeypatch.setattr("musadata.verifier.backends.emulated.artifacts.find_toolchain", lambda: broken)
    with pytest.raises(MusadataError, match="no reason that lies in the sources"):
        compile_sources(sources(KERNEL + "// for another machine\n"))


def test_default_arguments_may_be_repeated_in_both_sources():
    cuda = KERNEL.replace("run(torch::Tensor x)", "run(torch::Tensor x, double scale = 1.0)")
    declaration = "torch::Tensor run(torch::Tensor x, double scale = 1.0);"
    assert compile_sources(sources(cuda, declaration)).is_file()


# A header of the repository: device code is for nvcc alone, and both kinds of sources hold it.
ASKING = """
#ifdef __CUDACC__
__host__ __device__ static inline int rounded(int n) { return (n + 31) / 32 * 32; }
#else
int rounded(int n);
#endif
"""


def test_sources_that_ask_whether_they_are_cuda_are_compiled_apart_as_pytorch_does():
    own = ASKING + "int rounded(int n) { return n; }" + DECLARATION
    assert compile_sources(sources(ASKING + KERNEL, own)).is_file()
    assert "redefinition" in error_of(sources(ASKING + ASKING + KERNEL, own))


def test_host_code_may_launch_kernels_of_the_other_source_by_the_runtimes_function():
    host = """
    __global__ void kernel(float* x);
    torch::Tensor run(torch::Tensor x) {
      float* data = x.data_ptr<float>();
      void* arguments[] = {&data};
      cudaLaunchKernel((const void*)kernel, dim3(1), dim3(x.numel()), arguments, 0, nullptr);
      return x;
    }
    """
    kernel = "__global__ void kernel(float* x) { x[threadIdx.x] = 1; }"
    library = compile_sources(sources(kernel, "#include <cuda_runtime.h>\n" + host))
    assert b"whose type a void* hides" not in library.read_bytes()


def test_checks_of_pytorch_may_follow_each_other_without_a_semicolon():
    checks = """#include <THC/THCAtomics.cuh>
    #define CHECK_BOTH(X) TORCH_CHECK(X.is_cuda(), "device") TORCH_CHECK(X.dim() == 1, "dims")
    void check(torch::Tensor x, bool deep) {
      CHECK_BOTH(x)
      if (deep) TORCH_CHECK_EQ(x.size(0), 1); else AT_ASSERT(x.defined());
    }
    """
    assert compile_sources(sources(checks + KERNEL)).is_file()


def test_half_operators_are_as_absent_as_in_pytorchs_own_build_unless_taken_back():
    cuda = KERNEL.replace("x[threadIdx.x] = 1;", "__half a = __float2half(1), b = a + a; x[0] = __half2float(b);")
    cuda = cuda.replace("extension.h>", "extension.h>\n#include <cuda_fp16.h>")
    assert "operator+" in error_of(sources(cuda))
    compile_sources(sources(cuda, defines=["-U__CUDA_NO_HALF_OPERATORS__"]))


def test_defines_reach_the_sources():
    cuda = KERNEL.replace("= 1;", "= TILE;")
    assert "TILE" in error_of(sources(cuda))
    compile_sources(sources(cuda, defines=["-DTILE=16"]))


@pytest.mark.parametrize(
    "use",
    [
        "static std::unordered_map<int64_t, int> seen; seen[1] = 2;",
        "std::function<int(int)> twice = [](int a) { return 2 * a; };",
        "std::vector<int> v(3); std::iota(v.begin(), v.end(), 0);",
        "auto y = torch::tensor({1, 2, 3}, torch::dtype(torch::kInt32));",
    ],
)
def test_what_pytorchs_headers_bring_along_needs_no_include(use):
    compile_sources(sources(KERNEL.replace("return x;", use + " return x;")))


@pytest.mark.parametrize(
    "use",
    [
        "at::DeviceGuard guard(x.device()); torch::InferenceMode mode; at::NoGradGuard none;",
        "TORCH_CHECK(at::maybe_wrap_dim(-1, x.dim()) >= 0);",
        "TORCH_CHECK(!x.device().is_meta());",
        "auto y = torch::empty({1}, at::device(at::kCUDA).dtype(at::kFloat));",
    ],
)
def test_common_names_of_pytorch_need_none_of_its_own_headers(use, monkeypatch):
    monkeypatch.setattr(artifacts, "may_need_full_headers", lambda *_: False)
    compile_sources(sources(KERNEL.replace("return x;", use + " return x;")))


def test_unknown_name_of_the_standard_library_is_an_error_of_the_candidates():
    assert "is not a member of 'std'" in error_of(sources(KERNEL.replace("return x;", "std::unknown(1); return x;")))


def test_plain_headers_of_libcu_are_those_of_the_standard_library():
    head = "#include <cuda/std/cmath>\n#include <cuda/std/limits>\n"
    use = "x[0] = cuda::std::fmax(x[1], -::cuda::std::numeric_limits<float>::infinity());"
    compile_sources(sources(head + KERNEL.replace("x[threadIdx.x] = 1;", use)))


def test_grid_is_a_group():
    head = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
    ranks = "auto grid = cg::this_grid(); x[grid.thread_rank() % grid.size()] = grid.num_blocks(); grid.sync();"
    compile_sources(sources(head + KERNEL.replace("x[threadIdx.x] = 1;", ranks)))


@pytest.mark.parametrize(
    ("headers", "use"),
    [
        ("", "half2 h = __hgt2(half2(), half2()); x[0] = __hbge2(h, __hfma2_relu(h, h, h)); h = __hmax2_nan(h, h);"),
        (
            "",
            "auto b = __low2bfloat162(__hmul2_sat(__nv_bfloat162(), __nv_bfloat162())); x[0] = __bfloat162int_rz(b.x);",
        ),
        ("", "x[0] = norm3d(1, 2, 3) + __uhadd(1, 2) + __fns(7, 0, 2) + __isShared(x) + cyl_bessel_i0(1.0);"),
        (
            "cuComplex.h",
            "cuFloatComplex z = cuCmulf(make_cuFloatComplex(1, 2), make_cuFloatComplex(3, 4)); x[0] = z.x;",
        ),
        ("cuda/cmath cuda/std/algorithm", "x[0] = cuda::ceil_div(3, 2) + cuda::std::max(1, 2);"),
        ("cuda/atomic", "cuda::atomic_ref<float, cuda::thread_scope_device> a(x[0]); a.fetch_add(1.f);"),
        (
            "cooperative_groups.h",
            "namespace cg = cooperative_groups; auto t = cg::tiled_partition(cg::this_thread_block(), 16); int all;"
            "auto l = cg::labeled_partition(cg::coalesced_threads(), t.thread_rank() % 2); l.match_all(1, all);"
            "cg::invoke_one(t, [&] { x[0] = cg::thread_rank(l); });",
        ),
        (
            "cooperative_groups/memcpy_async.h",
            "namespace cg = cooperative_groups; __shared__ float s[64]; auto b = cg::this_thread_block();"
            "cg::memcpy_async(b, s, x, cuda::aligned_size_t<16>(64)); cg::memcpy_async(b, s, 32, x, 32); cg::wait(b);",
        ),
    ],
)
def test_rarer_names_of_cuda_are_known(headers, use):
    head = "".join(f"#include <{header}>\n" for header in headers.split())
    compile_sources(sources(head + KERNEL.replace("x[threadIdx.x] = 1;", use)))


def test_overloaded_functions_exist_for_the_types_of_cuda_and_for_no_others():
    text = Path(__file__).with_name("overloads.cu").read_text(encoding="utf-8")
    assert compile_sources(sources(text, cpp="", functions=None)).is_file()


def test_pytorchs_header_adds_atomics_for_more_types():
    use = "__global__ void k(at::Half* h, int64_t* n) { atomicAdd(h, h[1]); atomicAdd(n, 1); }"
    assert "atomicAdd" in error_of(sources(KERNEL + use))
    assert compile_sources(sources("#include <ATen/cuda/Atomic.cuh>\n" + KERNEL + use)).is_file()


def test_header_that_is_left_out_is_to_blame_for_unknown_names_alone():
    headed = "#include <cuda_fp4.h>\n" + KERNEL
    assert error_of(sources(headed.replace("= 1;", '= "1";'))).startswith("cuda_source:3: error: ")
    with pytest.raises(Unsupported, match=r"^header cuda_fp4.h \(line 1\)"):
        compile_sources(sources(headed.replace("= 1;", "= some_fp4_function(1);")))


def test_what_our_headers_refuse_and_what_only_nvcc_knows_is_unsupported():
    tiles = "cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block());"
    with pytest.raises(Unsupported, match=r"^tiles of more than a warp \(line"):
        compile_sources(sources("#include <cooperative_groups.h>\n" + KERNEL.replace("x[threadIdx.x] = 1;", tiles)))
    with pytest.raises(Unsupported, match="__vadd4"):
        compile_sources(sources(KERNEL.replace("x[threadIdx.x] = 1;", "x[0] = __vadd4(1, 2);")))


def test_unknown_cuda_function_is_unsupported_and_unknown_other_function_is_wrong():
    with pytest.raises(Unsupported, match="cudaGraph_t"):
        compile_sources(sources(KERNEL.replace("return x;", "cudaGraph_t g; cudaGraphCreate(&g, 0); return x;")))
    assert "no_such_function" in error_of(sources(KERNEL.replace("return x;", "no_such_function(); return x;")))


BOMBS = {
    "endless templates": "template <int N> struct A { static constexpr long v = A<N + 1>::v + A<N + 2>::v; };\n"
    "long x = A<0>::v;",
    "exponential macro": "".join(f"#define M{n + 1} M{n} M{n}\n" for n in range(40)).replace("M0 M0", "int; int;", 1)
    + "M40\n",
    "many errors": "\n".join(f"int f{n}() {{ return undefined_{n}; }}" for n in range(20_000)),
    "huge array": "int big[1ull << 33] = {1};",
    "endless constexpr": "constexpr int f() { for (long i = 0; i < (1l << 40); i++) {} return 1; }\n"
    "constexpr int x = f();",
    "deep nesting": "int x = " + "(" * 100_000 + "1" + ")" * 100_000 + ";",
}


QUICK_BOMBS = ("endless templates", "huge array")


@pytest.mark.parametrize(
    "name", [name if name in QUICK_BOMBS else pytest.param(name, marks=pytest.mark.slow) for name in BOMBS]
)
def test_compiler_bomb_is_contained(name):
    limits = CompileLimits(seconds=4, memory_mb=1500, output_mb=16)
    start = time.monotonic()
    text = error_of(sources(BOMBS[name] + KERNEL), limits=limits)
    assert len(text) < 8000
    assert time.monotonic() - start < 4 * 3 * 4


def test_temporary_folders_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    compile_sources(sources(KERNEL + "// for this test\n"))
    error_of(sources(KERNEL + "broken for this test\n"))
    assert list(tmp_path.iterdir()) == []


def test_missing_compiler_is_one_clear_sentence(monkeypatch):
    toolchain.find_toolchain.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    try:
        with pytest.raises(MusadataError, match=r"no-such-compiler: no C\+\+ compiler; install g\+\+"):
            toolchain.find_toolchain()
    finally:
        monkeypatch.undo()
        toolchain.find_toolchain.cache_clear()


def build_slowly(folder: str, log: str) -> None:
    def build(partial: Path) -> None:
        with Path(log).open("a") as stream:
            stream.write(f"{os.getpid()}\n")
        time.sleep(0.3)
        (partial / "done").write_text("whole")

    built = build_cache.build_once(Path(folder), build)
    assert (built / "done").read_text() == "whole"


def test_two_workers_never_build_twice_nor_see_a_half(tmp_path):
    context = multiprocessing.get_context("fork")
    arguments = (str(tmp_path / "thing"), str(tmp_path / "log"))
    workers = [context.Process(target=build_slowly, args=arguments) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert len((tmp_path / "log").read_text().split()) == 1


def test_failed_build_leaves_nothing_behind(tmp_path):
    def build(partial: Path) -> None:
        (partial / "half").write_text("x")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        build_cache.build_once(tmp_path / "thing", build)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]


@pytest.mark.parametrize("pidfd", [True, False])
def test_tool_is_waited_for_as_long_as_it_may_take_and_no_longer(tmp_path, monkeypatch, pidfd):
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    start = time.monotonic()
    assert run_contained(["/bin/sh", "-c", "exit 3"], tmp_path, CompileLimits(seconds=1)) == Finished(3, "")
    assert run_contained(["/bin/sleep", "60"], tmp_path, CompileLimits(seconds=1)).limit == "time"
    assert time.monotonic() - start < 30
