#pragma once
#include <ATen/cuda/Exceptions.h>
#include <musa_aliases.h>
