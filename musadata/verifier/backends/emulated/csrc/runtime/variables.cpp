#include "variables.h"

#include <cxxabi.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace emulator {
namespace {

// Written by the dynamic linker, when it binds a function or loads the library.
constexpr const char* kLinkers[] = {".got", ".got.plt", ".dynamic", ".init_array", ".fini_array", ".data.rel.ro"};

template <class T>
const T* part(const std::vector<char>& file, uint64_t offset, uint64_t count) {
  return offset + count * sizeof(T) <= file.size() ? reinterpret_cast<const T*>(file.data() + offset) : nullptr;
}

std::string demangle(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string found = status == 0 ? text : name;
  free(text);
  return found;
}

}  // namespace

std::string variable_at(const std::string& library, uint64_t address, bool is_tls) {
  std::ifstream stream(library, std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
  const auto* header = part<Elf64_Ehdr>(file, 0, 1);
  const auto* sections = header == nullptr ? nullptr : part<Elf64_Shdr>(file, header->e_shoff, header->e_shnum);
  if (sections == nullptr) {
    return "a variable";
  }
  for (int i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) {
      continue;
    }
    const uint64_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const auto* symbols = part<Elf64_Sym>(file, sections[i].sh_offset, count);
    for (uint64_t j = 0; symbols != nullptr && j < count; j++) {
      const Elf64_Sym& symbol = symbols[j];
      const bool fits = ELF64_ST_TYPE(symbol.st_info) == (is_tls ? STT_TLS : STT_OBJECT);
      if (fits && symbol.st_shndx != SHN_UNDEF && address - symbol.st_value < symbol.st_size) {
        return demangle(file.data() + sections[sections[i].sh_link].sh_offset + symbol.st_name);
      }
    }
  }
  const char* names = file.data() + sections[header->e_shstrndx].sh_offset;
  for (int i = 0; i < header->e_shnum; i++) {
    if (!is_tls && address - sections[i].sh_addr < sections[i].sh_size && (sections[i].sh_flags & SHF_ALLOC) != 0) {
      for (const char* linkers : kLinkers) {
        if (strcmp(names + sections[i].sh_name, linkers) == 0) {
          return "";
        }
      }
    }
  }
  return "a variable without a name";
}

}  // namespace emulator
