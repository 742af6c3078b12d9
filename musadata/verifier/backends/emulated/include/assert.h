// assert() of host and device code: in a kernel it is a fault of that kernel, on the host an exception for Python.
// No include guard: NDEBUG may change between two inclusions, as in C.
#include <emulator/runtime.h>

#include_next <assert.h>

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
  (static_cast<bool>(condition) ? (void)0 : emulator::assertion_failed(#condition, __LINE__))
#endif

#ifndef EMULATOR_ASSERT
#define EMULATOR_ASSERT
#include <stdexcept>
#include <string>
namespace emulator {
[[noreturn]] inline void assertion_failed(const char* condition, int line) {
  const std::string message = std::string("assertion `") + condition + "` failed (line " + std::to_string(line) + ")";
  if (musadata_in_kernel()) {
    musadata_kernel_fault("assertion", message.c_str());
  }
  throw std::runtime_error(message);
}
}  // namespace emulator
#endif
