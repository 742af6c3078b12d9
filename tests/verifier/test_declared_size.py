"""Programs that are right at small sizes and wrong at those that a reference declares, and honest twins of theirs."""

import pytest

from musadata.records import ErrorClass
from musadata.verifier.policies import decide, load_policy


def reference(sizes, inputs, result, arguments="x"):
    return f"""
import torch
import torch.nn as nn
import torch.nn.functional as F

{sizes}


class Model(nn.Module):
    def forward(self, {arguments}):
        return {result}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def program(kernels, host, arguments="x"):
    given = ", ".join(f"torch::Tensor {one}" for one in arguments.split(", "))
    return f'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
{kernels}
torch::Tensor run({given}) {{
{host}
}}
"""
ext = load_inline(name="ext", cpp_sources="torch::Tensor run({given});", cuda_sources=source, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, {arguments}):
        return ext.run({arguments})
'''


SCAN = reference("batch = 64\nn = 524288", "torch.randn(batch, n)", "torch.cumsum(x, dim=1)")


def scan(tiles):
    """Tiles of 512, of whose sums a second pass adds up so many."""
    kernels = """
__global__ void scan_tiles(const float* x, float* y, float* sums, int n, int tiles) {
  int row = blockIdx.y, tile = blockIdx.x * blockDim.x + threadIdx.x;
  if (tile >= tiles) return;
  float sum = 0.0f;
  for (int i = tile * 512; i < min(n, tile * 512 + 512); ++i) y[(long)row * n + i] = sum += x[(long)row * n + i];
  sums[row * tiles + tile] = sum;
}
__global__ void scan_sums(float* sums, int tiles) {
  float sum = 0.0f, *own = sums + blockIdx.x * tiles;
  for (int i = 0; i < COUNT; ++i) { float next = sum + own[i]; own[i] = sum; sum = next; }
}
__global__ void add_sums(float* y, const float* sums, int n, int tiles) {
  int row = blockIdx.y, tile = blockIdx.x * blockDim.x + threadIdx.x;
  if (tile >= COUNT) return;
  for (int i = tile * 512; i < min(n, tile * 512 + 512); ++i) y[(long)row * n + i] += sums[row * tiles + tile];
}"""
    host = """
  x = x.contiguous();
  int batch = x.size(0), n = x.size(1), tiles = (n + 511) / 512;
  auto y = torch::empty_like(x), sums = torch::empty({batch, tiles}, x.options());
  dim3 grid((tiles + 63) / 64, batch);
  scan_tiles<<<grid, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), sums.data_ptr<float>(), n, tiles);
  scan_sums<<<batch, 1>>>(sums.data_ptr<float>(), tiles);
  add_sums<<<grid, 64>>>(y.data_ptr<float>(), sums.data_ptr<float>(), n, tiles);
  return y;"""
    return program(kernels.replace("COUNT", tiles), host)


ATTENTION = reference(
    "batch = 8\nheads = 16\nlength = 2048\ndim = 64",
    ", ".join(["torch.randn(batch, heads, length, dim)"] * 3),
    "F.scaled_dot_product_attention(q, k, v)",
    "q, k, v",
)


def attention(tiles, fits="d % 4 == 0"):
    """A thread for each query, over so many tiles of 32 keys; vectors of four values are all that it can."""
    kernels = """
__global__ void attend(const float* q, const float* k, const float* v, float* o, int s, int d, float scale) {
  long at = (long)blockIdx.y * s * d;
  int row = blockIdx.x * 32 + threadIdx.x;
  if (row >= s) return;
  float sum[64], most = -INFINITY, total = 0.0f;
  for (int e = 0; e < d; ++e) sum[e] = 0.0f;
  for (int j = 0; j < min(s, 32 * TILES); ++j) {
    float z = 0.0f;
    for (int e = 0; e < d; ++e) z += q[at + row * d + e] * k[at + j * d + e];
    float next = fmaxf(most, z * scale), old = expf(most - next), p = expf(z * scale - next);
    total = total * old + p;
    for (int e = 0; e < d; ++e) sum[e] = sum[e] * old + p * v[at + j * d + e];
    most = next;
  }
  for (int e = 0; e < d; ++e) o[at + row * d + e] = sum[e] / total;
}"""
    host = """
  q = q.contiguous(), k = k.contiguous(), v = v.contiguous();
  int s = q.size(2), d = q.size(3);
  TORCH_CHECK(FITS, "not a head that fits");
  auto o = torch::empty_like(q);
  attend<<<dim3((s + 31) / 32, q.size(0) * q.size(1)), 32>>>(
      q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), s, d, 1.0f / sqrtf(d));
  return o;"""
    return program(kernels.replace("TILES", tiles), host.replace("FITS", fits), "q, k, v")


ROWS = reference("batch = 512\nlength = 256\nn = 512", "torch.randn(batch, length, n)", "x - x.amax(-1, keepdim=True)")


def rows(axis, grid, threads="64"):
    kernels = """
__global__ void lower(const float* x, float* y, int n) {
  long at = (long)blockIdx.AXIS * n;
  float most = x[at];
  for (int i = 1; i < n; ++i) most = x[at + i] > most || x[at + i] != x[at + i] ? x[at + i] : most;
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[at + i] = x[at + i] - most;
}"""
    host = f"""
  x = x.contiguous();
  auto y = torch::empty_like(x);
  int n = x.size(-1), count = x.numel() / n;
  lower<<<{grid}, {threads}>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;"""
    return program(kernels.replace("AXIS", axis), host)


PAIRS = reference("n = 46400", "torch.randn(n)", "x[:, None] - x[None, :]")


def pairs(index):
    kernels = """
__global__ void subtract(const float* x, float* y, int n) {
  int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < n) y[INDEX * n + j] = x[i] - x[j];
}"""
    host = """
  x = x.contiguous();
  int n = x.numel();
  auto y = torch::empty({n, n}, x.options());
  subtract<<<dim3((n + 255) / 256, n), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;"""
    return program(kernels.replace("INDEX", index), host)


TAIL = reference("rows = 500\ncolumns = 300", "torch.randn(rows, columns)", "torch.relu(x)")


def by_fours(tail):
    kernels = """
__global__ void clamp(const float* x, float* y, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int k = i; k < i + 4 && i + 3 < n; ++k) y[k] = x[k] < 0.0f ? 0.0f : x[k];
  for (; i < n && i + 3 >= n; ++i) y[i] = TAIL;
}"""
    host = """
  x = x.contiguous();
  auto y = torch::empty_like(x);
  int n = x.numel();
  clamp<<<(n + 1023) / 1024, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;"""
    return program(kernels.replace("TAIL", tail), host)


STREAM = reference("rows = 4200\ncolumns = 4096", "torch.randn(rows, columns)", "torch.relu(x)")


def stream(step):
    """At most 65,535 blocks, each of whose threads goes on by so much."""
    kernels = """
__global__ void clamp(const float* x, float* y, long n) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += STEP) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}"""
    host = """
  x = x.contiguous();
  auto y = torch::empty_like(x);
  long n = x.numel();
  clamp<<<std::min((n + 255) / 256, 65535L), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;"""
    return program(kernels.replace("STEP", step), host)


TOP = reference("rows = 40\ncolumns = 4096", "torch.randn(rows, columns)", "torch.topk(x, 4, dim=1).values")


def top(kept):
    """Each of 256 threads offers so many of its stripe, and one of them chooses."""
    kernels = """
__global__ void largest(const float* x, float* y, int columns) {
  __shared__ float best[256 * KEPT];
  float mine[KEPT];
  for (int k = 0; k < KEPT; ++k) mine[k] = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += 256) {
    float v = x[(long)blockIdx.x * columns + c];
    for (int k = 0; k < KEPT; ++k) if (v > mine[k] || v != v) { float t = mine[k]; mine[k] = v; v = t; }
  }
  for (int k = 0; k < KEPT; ++k) best[threadIdx.x * KEPT + k] = mine[k];
  __syncthreads();
  if (threadIdx.x) return;
  float found[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  for (int c = 0; c < 256 * KEPT; ++c) {
    float v = best[c];
    for (int k = 0; k < 4; ++k) if (v > found[k] || v != v) { float t = found[k]; found[k] = v; v = t; }
  }
  for (int k = 0; k < 4; ++k) y[blockIdx.x * 4 + k] = found[k];
}"""
    host = """
  x = x.contiguous();
  auto y = torch::empty({x.size(0), 4}, x.options());
  largest<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  return y;"""
    return program(kernels.replace("KEPT", kept), host)


COUNTS = reference("n = 150000", "torch.randint(0, 256, (n,))", "torch.bincount(x, minlength=256)")


def counts(counter):
    """Of one block; every two values share 32 bits, or have 32 each."""
    kernels = """
__global__ void count(const long* x, long* y, int n) {
  __shared__ unsigned int counter[256];
  counter[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 256) atomicAdd(&counter[x[i] / SHARED], 1u << (x[i] % SHARED * 16));
  __syncthreads();
  y[threadIdx.x] = SHARED == 1 ? counter[threadIdx.x]
                               : counter[threadIdx.x / SHARED] >> (threadIdx.x % SHARED * 16) & 0xffff;
}"""
    host = """
  x = x.contiguous();
  auto y = torch::empty({256}, x.options());
  count<<<1, 256>>>(x.data_ptr<long>(), y.data_ptr<long>(), x.numel());
  return y;"""
    return program(kernels.replace("SHARED", counter), host)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param(SCAN, scan("min(tiles, 1000)"), id="sums of 1,000 tiles"),
        pytest.param(ATTENTION, attention("32"), id="32 tiles of the sequence"),
        pytest.param(ROWS, rows("y", "dim3(1, count)"), id="more rows in y than a grid has"),
        pytest.param(ROWS, rows("x", "count", "4 * n"), id="more threads than a block has"),
        pytest.param(PAIRS, pairs("i"), id="a product of 32 bits"),
        pytest.param(TAIL, by_fours("x[i]"), id="a tail that no even size has"),
        pytest.param(STREAM, stream("n"), id="more elements than a grid with a limit has threads"),
        pytest.param(TOP, top("2"), id="winners in one stripe"),
        pytest.param(COUNTS, counts("2"), id="more of one value than 16 bits count"),
    ],
)
def test_what_is_wrong_at_the_declared_size_alone_is_seen(verifier, text, wrong):
    verdict = verifier.verify_text(text, wrong)
    assert not verdict.accepted
    assert verdict.error_class in (ErrorClass.CORRECTNESS, ErrorClass.RUNTIME), verdict.findings
    assert text in (TAIL, TOP, COUNTS) or not decide(verdict.facts, load_policy("kernelbench")).accepted


@pytest.mark.parametrize(
    ("text", "honest"),
    [
        pytest.param(SCAN, scan("tiles"), id="scan"),
        pytest.param(ATTENTION, attention("(s + 31) / 32"), id="attention that refuses other heads"),
        pytest.param(ROWS, rows("x", "count"), id="rows"),
        pytest.param(PAIRS, pairs("(long)i"), id="pairs"),
        pytest.param(TAIL, by_fours("x[i] < 0.0f ? 0.0f : x[i]"), id="tail"),
        pytest.param(STREAM, stream("gridDim.x * (long)blockDim.x"), id="stream"),
        pytest.param(TOP, top("4"), id="top"),
        pytest.param(COUNTS, counts("1"), id="counts"),
    ],
)
def test_honest_twins_are_accepted(verifier, text, honest):
    verdict = verifier.verify_text(text, honest)
    assert verdict.accepted, verdict.findings
