#pragma once
#include <ATen/cuda/CUDAContext.h>
#include <musa_aliases.h>
