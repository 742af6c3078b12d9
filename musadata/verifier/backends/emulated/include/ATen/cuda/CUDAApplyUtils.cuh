// PyTorch's own where its headers are, or else what it includes.
#pragma once
#include <ATen/cuda/Atomic.cuh>
#if __has_include_next(<ATen/cuda/CUDAApplyUtils.cuh>)
#include_next <ATen/cuda/CUDAApplyUtils.cuh>
#endif
