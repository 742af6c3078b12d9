// Of PyTorch's own there is what it includes.
#pragma once
#include <ATen/cuda/Atomic.cuh>
