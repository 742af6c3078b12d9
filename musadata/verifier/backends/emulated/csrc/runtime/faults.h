// What went wrong inside a kernel, in words that do not change from run to run: no addresses, no times.
#pragma once
#include <cstddef>
#include <string>

namespace emulator {

struct Fault {
  std::string kind;  // illegal_access, deadlock, barrier_divergence, warp_divergence, red_zone, ...
  std::string kernel;
  std::string where;  // "block (0,0,0) thread (3,0,0)", empty if no single thread caused it
  std::string message;
  std::string library = {};  // of the code that did it, for reports: with `offset`, what a line table is keyed by
  size_t offset = 0;
  std::string source = {};  // where the compiler knew it, with `line`
  int line = 0;
};

// The first fault of a launch is the cause; later ones are its consequences and are dropped.
void report_fault(const char* kind, const std::string& message, bool names_thread, const std::string& source = {},
                  int line = 0);

// The fault of the launch that is running, taken from the list of all of them; null if there is none.
const Fault* current_fault();
void begin_faults(const char* kernel);
const std::string& running_kernel();

// Turns hardware traps in kernels into faults, and in host code into a last message on the fault descriptor.
void install_trap_handlers();

// One line: the fault as a sentence.
std::string describe(const Fault& fault);

}  // namespace emulator
