#include "async_copies.h"

#include <cstring>
#include <deque>
#include <map>

#include "scheduler.h"

namespace emulator {
namespace {

struct Copy {
  void* target;
  const void* source;
  size_t taken;  // what remains of `bytes` becomes zero
  size_t bytes;
  uint64_t group;
};

struct Pending {
  std::deque<Copy> copies;
  uint64_t committed = 0;  // groups
};

std::map<int, Pending> g_pending;  // by thread of the block that is running

int thread_of_block() {
  RunningThread thread;
  return running_thread(&thread) ? thread.linear : -1;
}

void carry_out(const Copy& copy) {
  memcpy(copy.target, copy.source, copy.taken);
  memset(static_cast<char*>(copy.target) + copy.taken, 0, copy.bytes - copy.taken);
}

}  // namespace

void forget_copies() { g_pending.clear(); }

}  // namespace emulator

using namespace emulator;

extern "C" {

int musadata_copies_wait() { return order() != Order::kForward; }

void musadata_copy_later(void* target, const void* source, size_t taken, size_t bytes) {
  Pending& own = g_pending[thread_of_block()];
  own.copies.push_back({target, source, taken, bytes, own.committed});
}

void musadata_commit_copies() { g_pending[thread_of_block()].committed++; }

void musadata_await_copies(uint64_t groups_left, int uncommitted_too) {
  Pending& own = g_pending[thread_of_block()];
  while (!own.copies.empty() && (uncommitted_too || own.copies.front().group + groups_left < own.committed)) {
    carry_out(own.copies.front());
    own.copies.pop_front();
  }
}
}
