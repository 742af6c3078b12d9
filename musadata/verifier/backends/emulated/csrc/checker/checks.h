// The checks on the accesses of a candidate, all of which are instrumented.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

// Whether accesses are checked now: in host code always, in a launch as far as the mode of checking goes.
extern bool g_checking __attribute__((visibility("hidden")));

// `code` is the address of the instruction after the access.
void check_access(uintptr_t address, size_t bytes, bool is_write, const void* code);

}  // namespace emulator
