"""Barriers of a whole grid, in kernels launched by all calls that can, with state on stacks and in shared memory."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Normalises each column: sums of blocks, then of all, twice; the last threads have nothing to do but wait.
template <typename T>
__global__ void __launch_bounds__(96) normalise(const T* __restrict__ x, T* parts, T* y, int rows, int columns) {
  cg::grid_group grid = cg::this_grid();
  extern __shared__ float mine[];
  __shared__ int place;
  if (threadIdx.x == 0) place = blockIdx.x;
  float kept[4] = {0, 1, 2, float(threadIdx.x)};
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    T sum = 0;
    for (int r = blockIdx.x; r < rows; r += gridDim.x) sum += x[r * columns + c];
    parts[blockIdx.x * columns + c] = mine[c] = sum;
  }
  grid.sync();
  for (int pass = 0; pass < 2; pass++) {
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
      if (parts[place * columns + c] != mine[c] || kept[3] != threadIdx.x) return;  // never
    }
    cg::sync(grid);
  }
  for (long long i = grid.thread_rank(); i < (long long)rows * columns; i += grid.size()) {
    T mean = 0;
    for (int b = 0; b < grid.num_blocks(); b++) mean += parts[b * columns + i % columns];
    y[i] = x[i] - mean / rows + kept[0];
  }
}

torch::Tensor run(torch::Tensor x, int64_t how) {
  int rows = x.size(0), columns = x.size(1), resident = 0, blocks = 0;
  const int bytes = columns * sizeof(float);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, normalise<float>, 96, bytes);
  blocks = std::min(rows, resident * 132);
  auto y = torch::empty_like(x), parts = torch::empty({blocks, columns}, x.options());
  float *from = x.data_ptr<float>(), *to = y.data_ptr<float>(), *sums = parts.data_ptr<float>();
  void* arguments[] = {&from, &sums, &to, &rows, &columns};
  cudaLaunchAttribute attributes[1];
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = 96;
  config.dynamicSmemBytes = bytes;
  config.attrs = attributes;
  config.numAttrs = 1;
  cudaError_t error = cudaSuccess;
  if (how == 0) {
    error = cudaLaunchCooperativeKernel((const void*)normalise<float>, blocks, 96, arguments, bytes, 0);
  } else if (how == 1) {
    error = cudaLaunchCooperativeKernel(reinterpret_cast<void*>(&normalise<float>), dim3(blocks, 1, 1), dim3(96),
                                        arguments, bytes);
  } else if (how == 2) {
    error = cudaLaunchKernelEx(&config, normalise<float>, from, sums, to, rows, columns);
  } else {
    error = cudaLaunchKernelExC(&config, (void*)normalise<float>, arguments);
  }
  TORCH_CHECK(error == cudaSuccess, cudaGetErrorString(error));
  return y;
}
"""

extension = load_inline(
    name="cooperative_grid",
    cpp_sources="torch::Tensor run(torch::Tensor x, int64_t how);",
    cuda_sources=cuda_source,
    functions=["run"],
)


class Model(nn.Module):
    def forward(self, x):
        return [x - x.mean(0)] * 4


class ModelNew(nn.Module):
    def forward(self, x):
        return [extension.run(x, how) for how in range(4)]


def get_inputs():
    return [torch.randn(70, 333)]


def get_init_inputs():
    return []
