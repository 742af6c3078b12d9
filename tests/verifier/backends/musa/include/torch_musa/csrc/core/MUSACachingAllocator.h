#pragma once
#include <c10/cuda/CUDACachingAllocator.h>
#include <musa_aliases.h>
