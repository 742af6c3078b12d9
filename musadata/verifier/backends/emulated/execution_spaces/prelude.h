// Clang reads this before a candidate, to know the names that it uses. Everything here may be used on both sides. The
// candidate's own declarations belong to the host unless they say otherwise, and so does the C++ library except for its
// constant expressions.
#pragma clang force_cuda_host_device begin
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // C's own headers, not the C++ library's of the same names
#include <math.h>
#include <string.h>
#include <stdlib.h>
#include <stdio.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#pragma clang force_cuda_host_device end

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cfloat>
#include <climits>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#pragma clang force_cuda_host_device begin
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cooperative_groups.h>
#include <emulator/cuda_std.h>
#include <emulator/ptx.h>
#include <mma.h>
#pragma clang force_cuda_host_device end

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __managed__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(...)
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __CUDA_ARCH__ 900
#define __NVCC__ 1
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif

// The emulator's are variables of the host.
extern __attribute__((device)) const uint3 emulator_threadIdx, emulator_blockIdx;
extern __attribute__((device)) const dim3 emulator_blockDim, emulator_gridDim;
#define threadIdx emulator_threadIdx
#define blockIdx emulator_blockIdx
#define blockDim emulator_blockDim
#define gridDim emulator_gridDim

// The emulator's are macros, whose names stand nowhere in what is parsed.
#undef __syncthreads
#undef __syncthreads_count
#undef __syncthreads_and
#undef __syncthreads_or
#pragma clang force_cuda_host_device begin
void __syncthreads();
int __syncthreads_count(int), __syncthreads_and(int), __syncthreads_or(int);
#pragma clang force_cuda_host_device end

// What `kernel<<<...>>>(...)` calls.
extern "C" cudaError_t cudaConfigureCall(dim3, dim3, size_t = 0, cudaStream_t = 0);
