#include "faults.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>

#include "fiber.h"
#include "launch.h"
#include "memory.h"
#include "records.h"
#include "scheduler.h"
#include "shared_memory.h"

namespace emulator {
namespace {

constexpr int kTraps[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction g_previous[NSIG];
int g_fault_descriptor = -1;
std::string g_kernel;
Fault g_current;
bool g_has_current = false;

std::string describe_access(const void* address) {
  size_t offset = 0;
  if (past_dynamic_shared(address, &offset)) {
    return "illegal memory access " + std::to_string(offset - dynamic_shared_bytes()) + " bytes past the end of " +
           std::to_string(dynamic_shared_bytes()) + " bytes of dynamic shared memory";
  }
  RunningThread thread{};
  const char* where = static_cast<const char*>(address);
  if (running_thread(&thread) && where < thread.stack_low && where >= thread.stack_low - kStackGuardBytes) {
    return "stack overflow: the kernel's local variables need more than " + std::to_string(kStackBytes / 1024) + " KB";
  }
  BlockRange block{};
  // Within the pages of a block the cause is an index out of bounds; further away it is a wild pointer.
  if (find_block(address, &block) != Lookup::kNone) {
    const long past = static_cast<long>(where - (block.base + block.bytes));
    if (past >= 0 && past < static_cast<long>(block.behind)) {
      return "illegal memory access " + std::to_string(past) + " bytes past the end of a " +
             std::to_string(block.bytes) + "-byte device allocation";
    }
  }
  if (find_block(where + 65536, &block) == Lookup::kInside || find_block(where + 4096, &block) == Lookup::kInside) {
    const long before = static_cast<long>(block.base - where);
    if (before > 0) {
      return "illegal memory access " + std::to_string(before) + " bytes before the start of a " +
             std::to_string(block.bytes) + "-byte device allocation";
    }
  }
  if (reinterpret_cast<uintptr_t>(address) < 4096) {
    return "illegal memory access through a null pointer";
  }
  return "illegal memory access to an address outside any allocation";
}

void report_trap(int signal, const void* address) {
  if (signal == SIGSEGV || signal == SIGBUS) {
    report_fault("illegal_access", describe_access(address), true);
  } else if (signal == SIGFPE) {
    report_fault("division_by_zero", "an integer division by zero", true);
  } else {
    report_fault("trap", "the kernel executes a trap or runs past the end of a function that must return", true);
  }
}

// Continues the interrupted thread in abandon_block() on the upper end of its own stack: nothing on it is needed.
bool continue_in_abandon_block(void* context) {
  RunningThread thread{};
  if (!running_thread(&thread)) {
    return false;
  }
  auto* registers = &static_cast<ucontext_t*>(context)->uc_mcontext;
  const auto stack = (reinterpret_cast<uintptr_t>(thread.stack_high) - 256) & ~uintptr_t{15};
#if defined(__x86_64__)
  registers->gregs[REG_RSP] = static_cast<greg_t>(stack - 8);  // as after the call of a function
  registers->gregs[REG_RIP] = reinterpret_cast<greg_t>(&abandon_block);
  return true;
#elif defined(__aarch64__)
  registers->sp = stack;
  registers->pc = reinterpret_cast<uintptr_t>(&abandon_block);
  return true;
#else
  return false;
#endif
}

void write_to_descriptor(const Fault& fault) {
  if (g_fault_descriptor >= 0) {
    const std::string line = fault.kind + "\t" + fault.kernel + "\t" + fault.where + "\t" + fault.message + "\n";
    (void)!write(g_fault_descriptor, line.data(), line.size());
  }
}

void on_trap(int signal, siginfo_t* info, void* context) {
  if (in_kernel()) {
    report_trap(signal, info->si_addr);
    if (continue_in_abandon_block(context)) {
      return;
    }
    write_to_descriptor(g_current);
    _exit(128 + signal);
  }
  BlockRange block{};
  if (signal == SIGSEGV && is_covered() && find_block(info->si_addr, &block) == Lookup::kInside) {
    cover_memory(false);  // the instruction runs again
    record_report({"host_access", "", "", "the host's code has a library touch device memory through a pointer"});
    return;
  }
  write_to_descriptor({"host_crash", "", "", std::string("the host code crashes with signal ") + std::to_string(signal)});
  // The instruction runs again and traps again, now into the handler that was installed before ours.
  sigaction(signal, &g_previous[signal], nullptr);
}

void give_this_thread_a_signal_stack() {
  // A trap may be the stack's own overflow, so the handler needs another; each OS thread has its own.
  thread_local char* signal_stack = nullptr;
  if (signal_stack == nullptr) {
    constexpr size_t kBytes = 256 * 1024;
    signal_stack = new char[kBytes];
    stack_t description{};
    description.ss_sp = signal_stack;
    description.ss_size = kBytes;
    sigaltstack(&description, nullptr);
  }
}

}  // namespace

void report_fault(const char* kind, const std::string& message, bool names_thread, const std::string& source,
                  int line) {
  if (g_has_current) {
    return;
  }
  g_current = {kind, g_kernel, names_thread ? position() : "", message, {}, 0, source, line};
  g_has_current = true;
  record_fault(g_current);
}

const Fault* current_fault() { return g_has_current ? &g_current : nullptr; }

const std::string& running_kernel() { return g_kernel; }

void begin_faults(const char* kernel) {
  g_kernel = kernel;
  g_has_current = false;
}

void install_trap_handlers() {
  give_this_thread_a_signal_stack();
  static bool installed = false;
  if (installed) {
    return;
  }
  installed = true;
  for (int signal : kTraps) {
    struct sigaction action{};
    action.sa_sigaction = &on_trap;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(signal, &action, &g_previous[signal]);
  }
}

std::string describe(const Fault& fault) {
  return fault.message + " in kernel " + fault.kernel + (fault.where.empty() ? "" : ", " + fault.where);
}

}  // namespace emulator

extern "C" {

void musadata_kernel_fault(const char* kind, const char* message) {
  emulator::report_fault(kind, message, true);
  emulator::abandon_block();
}

void musadata_set_fault_descriptor(int descriptor) {
  emulator::g_fault_descriptor = descriptor;
  emulator::install_trap_handlers();
}
}
