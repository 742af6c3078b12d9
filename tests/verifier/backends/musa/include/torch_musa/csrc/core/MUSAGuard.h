#pragma once
#include <c10/cuda/CUDAGuard.h>
#include <musa_aliases.h>
