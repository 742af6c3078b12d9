#pragma once
#include <c10/cuda/CUDAStream.h>
#include <musa_aliases.h>
