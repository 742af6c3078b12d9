#pragma once
#include <ATen/cuda/CUDAContextLight.h>
#include <musa_aliases.h>
