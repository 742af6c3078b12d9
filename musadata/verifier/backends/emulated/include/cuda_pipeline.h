// Asynchronous copies to shared memory.
#pragma once
#include <cuda_runtime.h>

static inline void __pipeline_memcpy_async(void* target, const void* source, size_t bytes, size_t zeros = 0,
                                           const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emulator_need_aligned(target, bytes, "the target of an asynchronous copy", file, line);
  emulator_need_aligned(source, bytes, "the source of an asynchronous copy", file, line);
  emulator::copy_async(target, source, bytes - zeros, bytes);
}
static inline void __pipeline_commit() { emulator::musadata_commit_copies(); }
static inline void __pipeline_wait_prior(size_t groups) { emulator::musadata_await_copies(groups, 0); }
