#pragma once
#include <emulator/full_torch.h>
