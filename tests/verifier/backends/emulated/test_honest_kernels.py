"""No honest kernel is refused: each gives the reference's result in every order of threads, and no report."""

from pathlib import Path

import pytest

HONEST = sorted((Path(__file__).parent / "honest").glob("*.py"))


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_honest_kernel_matches_its_reference_in_every_order(run, path):
    for order in ("forward", "reverse", "random"):
        answer = run(path.read_text(), order=order, seed=7)
        assert answer["error"] == "", answer["error"]
        assert answer["close"], order
        assert answer["records"]["faults"] == []
        assert all(kernel["error"] == 0 for kernel in answer["records"]["kernels"])


@pytest.mark.slow
@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_sanitiser_reports_nothing_about_an_honest_kernel(run, path):
    answer = run(path.read_text(), sanitize=True)
    assert answer["close"], answer["error"]
    assert answer["records"]["reports"] == []


def test_replay_with_null_kernels_changes_the_output_but_keeps_the_record(run):
    source = (Path(__file__).parent / "honest" / "matmul_tiled.py").read_text()
    real, null_kernels = run(source), run(source, null_kernels=True)
    assert real["close"] and not null_kernels["close"]
    assert real["records"]["kernels"] == null_kernels["records"]["kernels"]


def test_records_name_operators_kernels_and_geometry(run):
    source = (Path(__file__).parent / "honest" / "matmul_tiled.py").read_text()
    records = run(source)["records"]
    assert records["operators"] == {"aten.empty.memory_format": 1, "aten.zero_.default": 1}
    kernel = {
        "name": "matmul_kernel",
        "grid": [5, 5, 1],
        "block": [16, 16, 1],
        "shared_bytes": 0,
        "error": 0,
        "count": 1,
    }
    assert records["kernels"] == [kernel]
    assert records["peak_bytes"] >= 4 * (66 * 97 + 97 * 75 + 66 * 75)


def test_the_same_run_gives_the_same_records(run):
    source = (Path(__file__).parent / "honest" / "reductions_atomics.py").read_text()
    assert run(source, order="random", seed=3) == run(source, order="random", seed=3)


NUMBERED = '''
import torch
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void number(float* y) {
  __shared__ int next;
  if (threadIdx.x == 0) next = 0;
  __syncthreads();
  y[atomicAdd(&next, 1)] = threadIdx.x;
}
torch::Tensor number_all(torch::Tensor x) {
  auto y = torch::empty_like(x);
  number<<<1, x.numel()>>>(y.data_ptr<float>());
  return y;
}
"""
ext = load_inline(name="numbered", cpp_sources="torch::Tensor number_all(torch::Tensor x);", cuda_sources=source,
                  functions=["number_all"])


def answer():
    return ext.number_all(torch.zeros(70, device="cuda")).tolist()
'''


def test_threads_run_in_the_asked_order_after_a_barrier_as_well(run):
    assert run(NUMBERED)["value"] == list(range(70))
    assert run(NUMBERED, order="reverse")["value"] == list(range(70))[::-1]
    assert run(NUMBERED, order="random", seed=7)["value"] not in (list(range(70)), list(range(70))[::-1])
