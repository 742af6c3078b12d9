// What PyTorch's atomics were called before.
#pragma once
#include <ATen/cuda/Atomic.cuh>
