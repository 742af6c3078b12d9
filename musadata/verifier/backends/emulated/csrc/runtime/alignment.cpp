// Accesses at an address that is not a multiple of the type's alignment, which every device refuses. The compiler finds
// them: g++ checks each address before it is used (`-fsanitize=alignment`) and calls this where it does not fit.
#include <algorithm>
#include <cstdint>
#include <string>

#include "faults.h"
#include "launch.h"
#include "scheduler.h"

namespace emulator {
namespace {

constexpr size_t kWidestAccess = 16;  // wider ones are made of several

// What g++ says of a place in the code: the layouts of libubsan.
struct Place {
  const char* file;
  uint32_t line;
  uint32_t column;
};
struct TypeName {
  uint16_t kind;
  uint16_t info;
  char text[1];  // "'const struct float4'"
};
struct Mismatch {
  Place place;
  const TypeName* type;
  unsigned char log_alignment;
  unsigned char access;
};

std::string type_name(const char* quoted) {
  std::string name = quoted;
  for (const char* word : {"const ", "volatile ", "struct ", "union "}) {
    const size_t at = name.find(word);
    if (at != std::string::npos) {
      name.erase(at, std::string(word).size());
    }
  }
  return name;
}

void report_misaligned(uintptr_t address, size_t alignment, const std::string& what, const char* file, int line) {
  const std::string source = file == nullptr || std::string(file).find('/') != std::string::npos ? "" : file;
  const std::string where = source.empty() || line == 0 ? "" : " (line " + std::to_string(line) + " of " + source + ")";
  report_fault("misaligned",
               "misaligned address" + where + ": " + what + " must lie at a multiple of " + std::to_string(alignment) +
                   " bytes, this one is " + std::to_string(address % alignment) +
                   " bytes past one. Where rows or offsets are not multiples of the vector's length, access the "
                   "elements one by one",
               true, source, line);
  abandon_block();
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

void musadata_misaligned(const void* address, size_t alignment, const char* what, const char* file, int line) {
  if (in_kernel()) {
    report_misaligned(reinterpret_cast<uintptr_t>(address), alignment, what, file, line);
  }
}

// Null pointers and those of the host's code are not looked at.
void __ubsan_handle_type_mismatch_v1(const Mismatch* found, uintptr_t address) {
  const size_t alignment = std::min(size_t{1} << found->log_alignment, kWidestAccess);
  if (address % alignment != 0 && in_kernel()) {
    report_misaligned(address, alignment, "a " + type_name(found->type->text), found->place.file,
                      static_cast<int>(found->place.line));
  }
}
}
