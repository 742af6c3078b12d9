// CUDA's runtime header for host compilers: the language extensions, the runtime API and the device functions.
#pragma once
#include <emulator/qualifiers.h>
#include <emulator/vector_types.h>
#include <emulator/runtime_api.h>
#include <emulator/launch.h>
#include <emulator/launch_calls.h>
#include <emulator/warp.h>
#include <emulator/atomics.h>
#include <emulator/math.h>
#include <emulator/intrinsics.h>
