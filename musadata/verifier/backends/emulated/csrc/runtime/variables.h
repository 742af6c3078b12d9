// The names of a library's variables, read from its symbol table.
#pragma once
#include <cstdint>
#include <string>

namespace emulator {

// The variable at an address of a library as its file has it, or, if `is_tls`, at a place in its memory for threads.
// Its name as the source spells it; "" if no variable is there, as in the tables of the dynamic linker.
std::string variable_at(const std::string& library, uint64_t address, bool is_tls);

}  // namespace emulator
