#pragma once
#include <torch_abi/module.h>
