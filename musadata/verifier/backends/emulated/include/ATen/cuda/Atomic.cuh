// PyTorch's atomicAdd for types of which CUDA has none.
#pragma once
#include <cuda_runtime.h>
#include <torch/extension.h>

#define EMULATOR_TORCH_ATOMIC(type) \
  EMULATOR_INLINE type atomicAdd(type* address, type value) { return emulator::atomicAdd(address, value); }
EMULATOR_TORCH_ATOMIC(uint8_t)
EMULATOR_TORCH_ATOMIC(int8_t)
EMULATOR_TORCH_ATOMIC(int16_t)
EMULATOR_TORCH_ATOMIC(int64_t)
EMULATOR_TORCH_ATOMIC(bool)
EMULATOR_TORCH_ATOMIC(at::Half)
EMULATOR_TORCH_ATOMIC(at::BFloat16)
#undef EMULATOR_TORCH_ATOMIC
