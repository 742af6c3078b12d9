// memcpy and memmove as candidates call them. The compiler does not instrument libc, so without these the host could
// read device memory, which a real host cannot.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "launch.h"
#include "memory.h"
#include "records.h"

namespace emulator {
namespace {

void check(const void* address, size_t bytes, const char* what, const void* code) {
  BlockRange block;
  if (bytes == 0 || find_block(address, &block) != Lookup::kInside || block.managed) {
    return;
  }
  cover_memory(false);  // once is enough
  Dl_info where{};
  dladdr(code, &where);
  const std::string message =
      "the host's code makes " + (what + std::to_string(bytes)) + " bytes of device memory through a pointer";
  const auto offset = static_cast<size_t>(static_cast<const char*>(code) - static_cast<const char*>(where.dli_fbase));
  record_report({"host_access", "", "", message, where.dli_fname == nullptr ? "" : where.dli_fname, offset});
}

void check_copy(const void* target, const void* source, size_t bytes, const void* code) {
  if (!in_kernel()) {
    check(source, bytes, "a read of ", code);
    check(target, bytes, "a write of ", code);
  }
}

}  // namespace
}  // namespace emulator

extern "C" {
void* __wrap_memcpy(void* target, const void* source, size_t bytes) {
  emulator::check_copy(target, source, bytes, __builtin_return_address(0));
  return memcpy(target, source, bytes);
}
void* __wrap_memmove(void* target, const void* source, size_t bytes) {
  emulator::check_copy(target, source, bytes, __builtin_return_address(0));
  return memmove(target, source, bytes);
}
}
