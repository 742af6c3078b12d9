// Words that CUDA adds to C++ and that mean nothing, or something else, to a host compiler.
#pragma once
#include <emulator/runtime.h>

#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include <assert.h>

#define MUSADATA_EMULATED 1

// For the emulator's own code, which accesses what no kernel could: other threads' stacks, the emulator's state.
#define EMULATOR_UNSANITIZED __attribute__((no_sanitize("thread")))
// Inlined even unoptimised, so that a report names the candidate's line.
#define EMULATOR_INLINE __attribute__((always_inline)) static inline

// Where the code at `line` of the candidate relies on an aligned address, and the compiler does not see it.
EMULATOR_INLINE void emulator_need_aligned(const volatile void* address, size_t alignment, const char* what,
                                           const char* file, int line) {
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    emulator::musadata_misaligned(const_cast<const void*>(address), alignment, what, file, line);
  }
}

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __shared__ static  // only where the rewriter does not look: inside macros
#define __forceinline__ inline
// __noinline__ is left to the rewriter: the C++ library uses the same word as an attribute.
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
#define __cluster_dims__(...)
#define __nv_pure__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#ifndef __restrict__
#define __restrict__ __restrict
#endif
#define CUDART_CB
#define CUDARTAPI
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0

#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_MAX_NORMAL_F FLT_MAX
#define CUDART_MIN_DENORM_F 1.401298464e-45f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.14159265358979323846
#define CUDART_PIO2_F 1.570796327f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_2PI 2.5066282746310002
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f

static constexpr int warpSize = 32;
