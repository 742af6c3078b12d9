// The functions that `g++ -fsanitize=thread` calls before every access to memory. Candidates are compiled with that flag
// and linked to this library instead of the sanitiser's own.
#include "checks.h"

#define CODE __builtin_return_address(0)

namespace {
inline void check(void* address, size_t bytes, bool is_write, const void* code) {
  if (__builtin_expect(emulator::g_checking, false)) {
    emulator::check_access(reinterpret_cast<uintptr_t>(address), bytes, is_write, code);
  }
}
}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define EMULATOR_ACCESSES(bytes)                                                                                      \
  void __tsan_read##bytes(void* address) { check(address, bytes, false, CODE); }                                \
  void __tsan_write##bytes(void* address) { check(address, bytes, true, CODE); }                                \
  void __tsan_volatile_read##bytes(void* address) { check(address, bytes, false, CODE); }                       \
  void __tsan_volatile_write##bytes(void* address) { check(address, bytes, true, CODE); }                       \
  void __tsan_unaligned_read##bytes(void* address) { check(address, bytes, false, CODE); }                     \
  void __tsan_unaligned_write##bytes(void* address) { check(address, bytes, true, CODE); }                     \
  void __tsan_unaligned_volatile_read##bytes(void* address) { check(address, bytes, false, CODE); }            \
  void __tsan_unaligned_volatile_write##bytes(void* address) { check(address, bytes, true, CODE); }
EMULATOR_ACCESSES(1)
EMULATOR_ACCESSES(2)
EMULATOR_ACCESSES(4)
EMULATOR_ACCESSES(8)
EMULATOR_ACCESSES(16)

void __tsan_read_range(void* address, unsigned long bytes) { check(address, bytes, false, CODE); }
void __tsan_write_range(void* address, unsigned long bytes) { check(address, bytes, true, CODE); }

// The host code's own atomics (reference counts, statics) only have to work.
#define EMULATOR_ATOMICS(type, bits)                                                                                   \
  type __tsan_atomic##bits##_load(const volatile type* a, int) { return __atomic_load_n(a, __ATOMIC_SEQ_CST); }        \
  void __tsan_atomic##bits##_store(volatile type* a, type v, int) { __atomic_store_n(a, v, __ATOMIC_SEQ_CST); }        \
  type __tsan_atomic##bits##_exchange(volatile type* a, type v, int) {                                                 \
    return __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST);                                                                \
  }                                                                                                                    \
  type __tsan_atomic##bits##_fetch_add(volatile type* a, type v, int) {                                                \
    return __atomic_fetch_add(a, v, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                                    \
  type __tsan_atomic##bits##_fetch_sub(volatile type* a, type v, int) {                                                \
    return __atomic_fetch_sub(a, v, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                                    \
  type __tsan_atomic##bits##_fetch_or(volatile type* a, type v, int) {                                                 \
    return __atomic_fetch_or(a, v, __ATOMIC_SEQ_CST);                                                                  \
  }                                                                                                                    \
  type __tsan_atomic##bits##_fetch_and(volatile type* a, type v, int) {                                                \
    return __atomic_fetch_and(a, v, __ATOMIC_SEQ_CST);                                                                 \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* a, type* e, type v, int, int) {                     \
    return __atomic_compare_exchange_n(a, e, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                \
  }                                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* a, type* e, type v, int, int) {                       \
    return __atomic_compare_exchange_n(a, e, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                \
  }
EMULATOR_ATOMICS(unsigned char, 8)
EMULATOR_ATOMICS(unsigned short, 16)
EMULATOR_ATOMICS(unsigned int, 32)
EMULATOR_ATOMICS(unsigned long, 64)

void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
}
