// The checks on every access of an instrumented candidate.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

// `code` is the address of the instruction after the access.
void check_access(uintptr_t address, size_t bytes, bool is_write, const void* code);

}  // namespace emulator
