#pragma once
#include <c10/cuda/CUDAException.h>
#include <musa_aliases.h>
