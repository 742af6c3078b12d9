"""What kernels do to memory, counted on the emulator: every expected figure is worked out by hand."""

import math

import pytest

from musadata.verifier.protocol.access_counts import GlobalCounts, LaunchCounts, SharedCounts

MOST = 1_000_000

# 1,024 floats: 4,096 bytes, 128 sectors, 32 lines. Each kernel runs 128 threads a block.
KERNELS = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void copy(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}
__global__ void copy4(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 v = reinterpret_cast<const float4*>(x)[i];
  float4 r;
  r.x = v.x + 1.0f; r.y = v.y; r.z = v.z; r.w = v.w;
  reinterpret_cast<float4*>(y)[i] = r;
}
__global__ void stride2(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[2 * i];
}
__global__ void transposed(const float* x, float* y) {  // a matrix of 32 x 32
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i % 32 * 32 + i / 32];
}
__global__ void column(const float* x, float* y) {
  __shared__ float tile[32][32];
  for (int r = threadIdx.y; r < 32; r += 4) tile[r][threadIdx.x] = x[r * 32 + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 4) y[r * 32 + threadIdx.x] = tile[threadIdx.x][r];
}
__global__ void padded(const float* x, float* y) {
  __shared__ float tile[32][33];
  for (int r = threadIdx.y; r < 32; r += 4) tile[r][threadIdx.x] = x[r * 32 + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 4) y[r * 32 + threadIdx.x] = tile[threadIdx.x][r];
}
__global__ void halves(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i % 32 < 16) y[i] = 1.0f; else y[i] = x[i];
}
__global__ void guarded(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
__global__ void broadcast(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[0];
}
__global__ void histogram(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(y + i % 8, x[i]);
}
__global__ void warp_sum(const float* x, float* y) {
  __shared__ float partial[4];
  float sum = 0.0f;
  for (int k = threadIdx.x; k < 200; k += 128) sum += x[k];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[0] = partial[0] + partial[1] + partial[2] + partial[3];
}
__global__ void rows(const float* x, float* y) {  // thread t of the first 32 sums row t of 32 x 32
  if (threadIdx.x >= 32) return;
  float sum = 0.0f;
  for (int k = 0; k < 32; ++k) sum += x[threadIdx.x * 32 + k];
  y[threadIdx.x] = sum;
}
__global__ void affine(const float* x, float* y, int factor, int shift) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[(factor * i + shift) % 1024];
}
__global__ void banks(float* y, int stride) {
  __shared__ float words[4096];
  words[threadIdx.x * stride] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = words[threadIdx.x * stride];
}

torch::Tensor run(torch::Tensor x) {
  auto y = torch::zeros({1024}, x.options());
  const float* from = x.data_ptr<float>();
  float* to = y.data_ptr<float>();
  const dim3 square(32, 4);
  copy<<<8, 128>>>(from, to);
  copy4<<<2, 128>>>(from, to);
  stride2<<<4, 128>>>(from, to);
  transposed<<<8, 128>>>(from, to);
  column<<<1, square>>>(from, to);
  padded<<<1, square>>>(from, to);
  halves<<<8, 128>>>(from, to);
  guarded<<<8, 128>>>(from, to, 900);
  broadcast<<<8, 128>>>(from, to);
  histogram<<<8, 128>>>(from, to);
  warp_sum<<<1, 128>>>(from, to);
  rows<<<1, 128>>>(from, to);
  for (int factor = 0; factor < 40; factor += 3) {
    affine<<<2, 96>>>(from, to, factor, 5 * factor + 1);
  }
  for (int stride = 0; stride < 129; stride += 3) {
    banks<<<1, 32>>>(to, stride);
  }
  return y;
}
"""
PROGRAM = f'''
import torch
from torch.utils.cpp_extension import load_inline

extension = load_inline(
    name="counted",
    cpp_sources="torch::Tensor run(torch::Tensor x);",
    cuda_sources=r"""{KERNELS}""",
    functions=["run"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
'''
REFERENCE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 1.0


def get_inputs():
    return [torch.randn(1024)]


def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(REFERENCE)


@pytest.fixture(scope="module")
def all_launches(verifier, task) -> tuple[LaunchCounts, ...]:
    call = verifier.count_accesses(task, PROGRAM, {"copy4": 16}, MOST)
    assert not call.why
    return call.launches


@pytest.fixture(scope="module")
def launches(all_launches) -> dict[str, LaunchCounts]:
    return {launch.kernel: launch for launch in all_launches}


def loads(launch: LaunchCounts, argument: int = 0) -> GlobalCounts:
    [found] = [one for one in launch.global_memory if (one.operation, one.argument) == ("load", argument)]
    return found


def stores(launch: LaunchCounts) -> GlobalCounts:
    [found] = [one for one in launch.global_memory if one.operation == "store"]
    return found


def shared(launch: LaunchCounts, operation: str) -> SharedCounts:
    [found] = [one for one in launch.shared_memory if one.operation == operation]
    return found


def test_a_coalesced_copy_touches_each_sector_once(launches):
    copy = launches["copy"]
    assert loads(copy) == GlobalCounts("load", 0, 32, 1024, 4096, 128, 128, 32, 0)
    assert stores(copy) == GlobalCounts("store", 1, 32, 1024, 4096, 128, 128, 32, 0)
    assert copy.touched[0].read_bytes == copy.touched[1].written_bytes == 4096
    assert (copy.idle_threads, copy.divergent_requests, copy.repeated) == (0, 0, False)


def test_components_of_a_vector_are_one_access_of_16_bytes(launches):
    assert loads(launches["copy4"]) == GlobalCounts("load", 0, 8, 256, 4096, 128, 128, 32, 0)
    assert stores(launches["copy4"]).requests == 8


def test_a_stride_of_two_touches_twice_the_sectors(launches):
    """512 threads read every second float: 16 requests of 8 sectors for 4 sectors' worth of bytes."""
    assert loads(launches["stride2"]) == GlobalCounts("load", 0, 16, 512, 2048, 128, 64, 32, 0)
    assert launches["stride2"].touched[0].read_sectors == 128


def test_a_transposed_read_touches_a_sector_for_each_lane(launches):
    assert loads(launches["transposed"]) == GlobalCounts("load", 0, 32, 1024, 4096, 1024, 128, 1024, 0)
    assert stores(launches["transposed"]).sectors == 128


def test_a_column_of_32_words_is_a_conflict_of_32_lanes_and_padding_ends_it(launches):
    """32 requests read a column each: 32 wavefronts, 31 of them conflicts."""
    read = shared(launches["column"], "load")
    assert (read.requests, read.wavefronts, read.conflicts, read.worst) == (32, 1024, 992, 32)
    written = shared(launches["column"], "store")
    assert (written.requests, written.wavefronts, written.conflicts) == (32, 32, 0)
    read = shared(launches["padded"], "load")
    assert (read.requests, read.wavefronts, read.conflicts, read.worst) == (32, 32, 0, 1)
    assert launches["column"].static_shared == 4096 and launches["padded"].static_shared == 4224
    assert launches["column"].barriers == 1 and launches["copy"].barriers == 0


def test_half_warps_that_part_are_divergent(launches):
    """Each half stores by an instruction of its own: 64 of 16 lanes, and the other half's loads, 32 of 16 lanes."""
    halves = launches["halves"]
    assert (halves.requests, halves.lanes) == (96, 32 * 48)
    assert (halves.divergent_requests, halves.divergent_warps, halves.warps) == (96, 32, 32)
    assert halves.idle_threads == 0


def test_threads_past_the_end_are_idle_and_not_divergent(launches):
    """900 of 1,024: the warp of threads 896 to 927 has 4 active lanes, three warps have none."""
    guarded = launches["guarded"]
    assert (guarded.idle_threads, guarded.warps) == (124, 29)
    assert (guarded.divergent_requests, guarded.divergent_warps) == (0, 0)
    assert loads(guarded).sectors == 28 * 4 + 1


def test_lanes_that_read_the_same_word_take_one_sector(launches):
    assert loads(launches["broadcast"]) == GlobalCounts("load", 0, 32, 1024, 4096, 32, 32, 32, 0)
    assert launches["broadcast"].touched[0].read_bytes == 4


def test_lanes_of_an_atomic_on_the_same_word_take_turns(launches):
    """Four lanes add to each of 8 words, which share one sector."""
    [atomic] = [one for one in launches["histogram"].global_memory if one.operation == "atomic"]
    assert (atomic.argument, atomic.requests, atomic.sectors, atomic.turns) == (1, 32, 32, 128)


def test_collectives_and_loops_that_end_apart_are_put_together_by_turns(launches):
    """200 values by 128 threads: four full requests, then threads 0 to 71 once more (two warps, and 8 lanes)."""
    total = launches["warp_sum"]
    read = loads(total)
    assert (read.requests, read.lanes) == (4 + 3, 200)
    assert (total.collectives, total.barriers) == (4 * 5, 1)
    assert total.repeated and total.uneven
    assert total.divergent_requests == 1 + 4 + 4 + 1  # the tail; partial sums; four reads of them and one store


def test_a_thread_for_each_row_touches_the_same_sectors_again(launches):
    rows = launches["rows"]
    assert loads(rows) == GlobalCounts("load", 0, 32, 1024, 4096, 1024, 128, 1024, 0)
    assert (rows.idle_threads, rows.touched[0].read_sectors, rows.repeated, rows.uneven) == (96, 128, True, False)


def test_sectors_are_those_that_the_addresses_of_a_warp_touch(all_launches):
    """Any stride and start: counted again from the addresses, warp by warp."""
    counted = [loads(launch) for launch in all_launches if launch.kernel == "affine"]
    assert len(counted) == 14
    for factor, found in zip(range(0, 40, 3), counted, strict=True):
        warps = [range(start, start + 32) for start in range(0, 192, 32)]
        words = [{(factor * i + 5 * factor + 1) % 1024 for i in warp} for warp in warps]
        sectors = [{word // 8 for word in warp} for warp in words]
        assert found.sectors == sum(map(len, sectors))
        assert found.least_sectors == sum(-(-len(warp) // 8) for warp in words)
        assert found.lines == sum(len({word // 32 for word in warp}) for warp in words)


def test_a_stride_in_shared_memory_conflicts_by_its_common_divisor_with_the_banks(all_launches):
    strides = range(0, 129, 3)
    counted = [shared(launch, "load") for launch in all_launches if launch.kernel == "banks"]
    ways = [math.gcd(stride, 32) if stride else 1 for stride in strides]
    assert [one.wavefronts for one in counted] == ways
    assert [one.conflicts for one in counted] == [way - 1 for way in ways]


def test_counting_stops_at_the_limit_and_says_so(verifier, task):
    call = verifier.count_accesses(task, PROGRAM, {}, 3000)
    assert [launch.incomplete for launch in call.launches[:3]] == [False, True, True]


def test_a_program_that_fails_is_not_counted(verifier, task):
    assert "nothing_of_this" in verifier.count_accesses(task, "import nothing_of_this", {}, MOST).why
