#pragma once
#include <ATen/cuda/CUDAEvent.h>
#include <musa_aliases.h>
