"""On a real device: verdicts with times, and candidates that only misbehave there or only when they are timed."""

import pytest

from musadata.config import BackendType, VerifierConfig
from musadata.records import ErrorClass, VerifyStage
from musadata.verifier import Verifier
from musadata.verifier.backends.cuda.cuda_backend import find_device
from tests.adversarial.programs import read_exercise, read_programs

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(find_device() is None, reason="no CUDA device")]


@pytest.fixture(scope="module")
def verifier():
    with Verifier(VerifierConfig(backend=BackendType.CUDA)) as verifier:
        yield verifier


# An instruction that the emulator does not know, so that it has no opinion: timing alone must find what is wrong.
UNKNOWN_TO_THE_EMULATOR = (
    "__global__ void matmul_tiled(",
    '__device__ long long grid() {\n    long long id;\n    asm("mov.u64 %0, %%gridid;" : "=l"(id));\n'
    "    return id;\n}\n"
    "__global__ void matmul_tiled(",
)


def judge(verifier, name, *changes):
    program = next(item for item in read_programs("honest") if item.name == name)
    exercise = read_exercise(program.value("task"))
    source = program.source
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    verdict = verifier.verify(exercise.task, source, exercise.shape_sets)
    return verdict, {finding.rule for finding in verdict.findings}


def test_honest_kernel_is_timed_against_eager(verifier):
    verdict, _ = judge(verifier, "matmul_tiled")
    times = {timing.name: timing for timing in verdict.timings}
    assert verdict.accepted, verdict.findings
    assert verdict.stage is VerifyStage.TIME
    assert set(times) == {"candidate", "eager"}
    assert all(0 < t.low_ms <= t.median_ms <= t.high_ms and t.repetitions >= 10 for t in times.values())
    assert verdict.speedup == pytest.approx(times["eager"].median_ms / times["candidate"].median_ms)
    assert verdict.own_share is not None
    assert 0.0 < verdict.own_share <= 1.0


def test_stream_from_the_pool_links_and_is_accepted(verifier):
    verdict, _ = judge(verifier, "scale_shift_pool_stream")
    assert verdict.accepted, verdict.findings


@pytest.mark.parametrize("name", ["host_pasted_name", "host_memcpy_kind_by_type", "host_pinned_memory"])
def test_values_that_cpp_brings_to_the_host_are_counted(verifier, name):
    cheat = next(item for item in read_programs("cheats") if item.name == name)
    exercise = read_exercise(cheat.value("task"))
    verdict = verifier.verify(exercise.task, cheat.source, exercise.shape_sets)
    assert verdict.error_class is ErrorClass.NOT_ALLOWED
    assert "runtime.host" in {finding.rule for finding in verdict.findings}


def test_ring_of_buffers_comes_round(verifier):
    cheat = next(item for item in read_programs("cheats") if item.name == "ring_of_buffers")
    exercise = read_exercise(cheat.value("task"))
    verdict = verifier.verify(exercise.task, cheat.source, exercise.shape_sets)
    assert "correctness.output_reused" in {finding.rule for finding in verdict.findings}


def test_flag_may_be_read_back(verifier):
    verdict, _ = judge(verifier, "embedding_checked_indices")
    assert verdict.accepted, verdict.findings


def test_place_that_a_kernel_has_found_may_be_read_back(verifier):
    flag = (
        "    int found = 0;\n    cudaMemcpy(&found, bad.data_ptr<int>(), sizeof(int), cudaMemcpyDeviceToHost);\n",
        "    auto seen = torch::zeros({2}, bad.options());\n    seen[bad[0]] = 1;\n    const int found = 0;\n",
    )
    verdict, _ = judge(verifier, "embedding_checked_indices", flag)
    assert verdict.accepted, verdict.findings


def test_kernel_that_behaves_only_at_first_is_rejected(verifier):
    threads = "    const dim3 threads(TILE, TILE);"
    late = (threads, f"    static int calls = 0;\n    const int size = ++calls > 200 ? K / 2 : K;\n{threads}")
    wrong = ("M, N, K);\n    return c;", "M, N, size);\n    return c;")
    verdict, rules = judge(verifier, "matmul_tiled", UNKNOWN_TO_THE_EMULATOR, late, wrong)
    assert rules == {"timing.unstable"}
    assert verdict.error_class is ErrorClass.CORRECTNESS


def test_work_on_a_stream_that_events_do_not_see_is_rejected(verifier):
    spin = (
        "__global__ void matmul_tiled(",
        "__global__ void spin(float* C) {\n    const long long end = clock64() + 4000000;\n"
        "    while (clock64() < end) {}\n    if (end == 0) C[0] = 0.0f;\n}\n__global__ void matmul_tiled(",
    )
    side = (
        "    return c;\n}",
        "    static cudaStream_t side = nullptr;\n"
        "    if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);\n"
        "    spin<<<1, 1, 0, side>>>(c.data_ptr<float>());\n    return c;\n}",
    )
    verdict, rules = judge(verifier, "matmul_tiled", UNKNOWN_TO_THE_EMULATOR, spin, side)
    assert rules == {"timing.hidden_work"}
    assert verdict.error_class is ErrorClass.CHEATING


@pytest.mark.parametrize(
    ("old", "new"),
    [("if (i < n) ", ""), ("x[i] < 0.0f ?", "x[i + 1] == 1e30f || x[i] < 0.0f ?")],
    ids=["missing bounds check", "read past the end"],
)
def test_what_only_leaves_the_bounds_is_rejected(verifier, relu_task, relu, old, new):
    assert old in relu
    verdict = verifier.verify(relu_task, relu.replace(old, new))
    assert (verdict.stage, verdict.error_class) == (VerifyStage.EXECUTE, ErrorClass.RUNTIME)
    assert {finding.rule.split(".")[0] for finding in verdict.findings} == {"device"}


def test_torch_compile_is_a_baseline_where_the_config_says_so():
    pytest.importorskip("triton")
    with Verifier(VerifierConfig(backend=BackendType.CUDA, torch_compile=True)) as verifier:
        verdict, _ = judge(verifier, "relu_float4")
    assert verdict.accepted, verdict.findings
    assert [timing.name for timing in verdict.timings] == ["candidate", "eager", "compile"]


TEST = """
import torch
from torch.testing import assert_close


def test_values(reference, candidate):
    x = torch.randn(37, 53)
    assert_close(candidate(x), reference(x))
"""


def test_unit_test_runs_on_the_device(verifier, relu_task, relu):
    right, wrong = verifier.run_unit_test(relu_task, TEST, ["", relu, relu.replace("? 0.0f", "? 0.5f")])[1:]
    assert right.ok and right.passed == ("test_values",)
    assert [one.function for one in wrong.failed] == ["test_values"]
