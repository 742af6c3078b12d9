#include "fiber.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#if defined(__x86_64__)

// System V: six registers are the callee's to keep. The floating-point control words never change in a kernel.
asm(R"(
.text
.globl musadata_switch_stack
.hidden musadata_switch_stack
.type musadata_switch_stack,@function
musadata_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size musadata_switch_stack, .-musadata_switch_stack
)");

namespace emulator {
void* new_fiber_state(char* top, void (*entry)()) {
  auto** stack = reinterpret_cast<void**>(top);
  *--stack = nullptr;  // keeps the stack 16-byte aligned at entry, as after a call
  *--stack = reinterpret_cast<void*>(entry);
  for (int saved_register = 0; saved_register < 6; saved_register++) {
    *--stack = nullptr;
  }
  return stack;
}
}  // namespace emulator

#elif defined(__aarch64__)

// AAPCS64: x19-x30 and d8-d15 are the callee's to keep.
asm(R"(
.text
.globl musadata_switch_stack
.hidden musadata_switch_stack
.type musadata_switch_stack,%function
musadata_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size musadata_switch_stack, .-musadata_switch_stack
)");

namespace emulator {
void* new_fiber_state(char* top, void (*entry)()) {
  auto** frame = reinterpret_cast<void**>(top - 160);
  for (int slot = 0; slot < 20; slot++) {
    frame[slot] = nullptr;
  }
  frame[11] = reinterpret_cast<void*>(entry);  // x30, where `ret` goes
  return frame;
}
}  // namespace emulator

#else

#include <ucontext.h>

extern "C" void musadata_switch_stack(void** save, void* load) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, static_cast<ucontext_t*>(load));
}

namespace emulator {
void* new_fiber_state(char* top, void (*entry)()) {
  // Lives at the top of its own stack, so that it needs no owner.
  auto* state = reinterpret_cast<ucontext_t*>(top - sizeof(ucontext_t) - 64);
  getcontext(state);
  state->uc_stack.ss_sp = top - kStackBytes + kMostStagger;
  state->uc_stack.ss_size = kStackBytes - kMostStagger - sizeof(ucontext_t) - 128;
  state->uc_link = nullptr;
  makecontext(state, entry, 0);
  return state;
}
}  // namespace emulator

#endif

namespace emulator {
namespace {

std::vector<char*> g_stacks;
std::vector<int> g_free_stacks;

}  // namespace

int acquire_stack() {
  if (!g_free_stacks.empty()) {
    const int stack = g_free_stacks.back();
    g_free_stacks.pop_back();
    return stack;
  }
  void* mapping = mmap(nullptr, kStackGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    abort();
  }
  mprotect(mapping, kStackGuardBytes, PROT_NONE);
  g_stacks.push_back(static_cast<char*>(mapping) + kStackGuardBytes);
  return static_cast<int>(g_stacks.size()) - 1;
}

void release_stack(int stack) { g_free_stacks.push_back(stack); }

void claim_stacks(const std::vector<int>& stacks) {
  std::vector<bool> claimed(g_stacks.size());
  for (const int stack : stacks) {
    claimed[stack] = true;
  }
  const auto is_claimed = [&](int stack) { return claimed[stack]; };
  g_free_stacks.erase(std::remove_if(g_free_stacks.begin(), g_free_stacks.end(), is_claimed), g_free_stacks.end());
}

char* stack_base(int stack) { return g_stacks[stack]; }

}  // namespace emulator
