// From the accesses of single threads to instructions of warps.
//
// Threads of a block run one after another, so what a warp executes together has to be put together again: between two
// barriers of the block or collectives of the warp, the k-th time that lanes execute the same access is one instruction.
// That is what the hardware does as long as lanes take the same turns of their loops; `Alignment` says where they do not.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tally.h"

namespace emulator {

struct ThreadAccess {
  const void* site;
  Operation operation;
  bool shared;
  int buffer;
  uint64_t at;
  uint32_t bytes;
};

struct Alignment {
  bool repeated = false;  // an access was executed more than once between two points at which the warp is in step
  bool uneven = false;  // and not as often by all lanes that executed it
};

struct Lockstep {
  uint64_t requests = 0;
  uint64_t lanes = 0;
  uint64_t divergent_requests = 0;  // by fewer lanes than those of the warp that access memory at all
  uint64_t divergent_warps = 0;
  uint64_t warps = 0;  // that access memory
  uint64_t idle_threads = 0;  // that access none
};

// The warps of one launch.
class Warps {
 public:
  Tally tally;
  Alignment alignment;
  Lockstep lockstep;
  bool overflow = false;  // more than can be held: the sums are of no use

  // `window`: bytes of the kernel's widest vector type, whose components are accessed one by one here; 0 for none.
  void begin(int threads, uint32_t window);
  void add(int thread, uint64_t epoch, const ThreadAccess& access, size_t buffer_bytes);
  void end_block(bool finished);

 private:
  struct Pending {
    ThreadAccess access;
    uint64_t epoch;
    const void* last_site;
    bool is_there = false;
  };
  struct Site {
    uint32_t counts[kLanes] = {};
    std::vector<WarpAccess> accesses;
  };
  struct Warp {
    uint64_t epoch = 0;
    std::unordered_map<const void*, Site> sites;
    std::vector<const void*> order;
    std::unordered_map<uint32_t, uint64_t> masks;  // of the requests in this block
  };

  void commit(int thread);
  void flush(Warp* warp);
  bool joins(const Pending& pending, const ThreadAccess& access) const;

  std::vector<Pending> pending_;
  std::vector<Warp> warps_;
  std::unordered_map<int, size_t> sizes_;
  int threads_ = 0;
  uint32_t window_ = 0;
  size_t held_ = 0;
};

}  // namespace emulator
