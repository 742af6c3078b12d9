// CUDA's random numbers. States can be held and begun; whoever draws from one is told that this is not emulated.
#pragma once
#include <cuda_runtime.h>

struct curandStateXORWOW {
  unsigned words[12];
};
struct curandStatePhilox4_32_10 {
  alignas(16) unsigned words[16];
};
struct curandStateMRG32k3a {
  double words[9];
};
typedef curandStateXORWOW curandState, curandState_t, curandStateXORWOW_t;
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
typedef curandStateMRG32k3a curandStateMRG32k3a_t;

template <class State>
static inline void curand_init(unsigned long long, unsigned long long, unsigned long long, State* state) {
  *state = {};
}
template <class State>
static inline void skipahead(unsigned long long, State*) {}

#define MUSADATA_DRAW(type, name)                                                                            \
  template <class State, class... More>                                                                      \
  static inline type name(State*, More...) {                                                                 \
    emulator::musadata_kernel_fault("unsupported", "a number drawn by cuRAND (" #name ") is not emulated"); \
  }
MUSADATA_DRAW(unsigned, curand)
MUSADATA_DRAW(uint4, curand4)
MUSADATA_DRAW(float, curand_uniform)
MUSADATA_DRAW(float4, curand_uniform4)
MUSADATA_DRAW(double, curand_uniform_double)
MUSADATA_DRAW(double2, curand_uniform2_double)
MUSADATA_DRAW(float, curand_normal)
MUSADATA_DRAW(float2, curand_normal2)
MUSADATA_DRAW(float4, curand_normal4)
MUSADATA_DRAW(double, curand_normal_double)
MUSADATA_DRAW(double2, curand_normal2_double)
MUSADATA_DRAW(float, curand_log_normal)
MUSADATA_DRAW(unsigned, curand_poisson)
#undef MUSADATA_DRAW
