#pragma once
#include <c10/cuda/CUDAFunctions.h>
#include <musa_aliases.h>
