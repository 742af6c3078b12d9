// What instructions of warps ask of memory: sums for one launch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace emulator {

enum class Operation : uint8_t { kLoad, kStore, kAtomic };

constexpr int kLanes = 32;

// One instruction that some lanes of a warp execute together. `at`: of each lane, an offset into a buffer, whose first
// byte is taken for aligned to 512 bytes as PyTorch allocates it, or into shared memory.
struct WarpAccess {
  Operation operation;
  bool shared;
  int buffer;  // the place of the pointer among the kernel's pointer arguments; -1 for none of them
  uint32_t bytes;  // of each lane
  uint32_t lanes = 0;
  uint64_t at[kLanes];
};

struct GlobalSums {
  uint64_t requests = 0;  // instructions of warps
  uint64_t lanes = 0;  // and of threads
  uint64_t bytes = 0;  // that the threads ask for
  uint64_t sectors = 0;  // of 32 bytes that the requests touch
  uint64_t least_sectors = 0;  // that hold as many different bytes
  uint64_t lines = 0;  // of 128 bytes that the requests touch
  uint64_t turns = 0;  // of atomics: lanes that change the same bytes take turns
};

struct SharedSums {
  uint64_t requests = 0;
  uint64_t lanes = 0;
  uint64_t wavefronts = 0;
  uint64_t conflicts = 0;  // wavefronts beyond those that accesses of this width take at least
  uint64_t worst = 0;  // the most wavefronts that one phase takes
  uint64_t turns = 0;
};

struct Touched {  // different bytes and sectors of a buffer over a launch
  std::vector<uint8_t> read, written;
  uint64_t sum(bool of_writes, size_t grain) const;
};

struct Tally {
  std::map<std::pair<int, Operation>, GlobalSums> global;
  std::map<Operation, SharedSums> shared;
  std::map<int, Touched> touched;

  void add(const WarpAccess& access, size_t buffer_bytes);
  std::string rows() const;  // tab-separated, one sum a line

 private:
  void add_global(const WarpAccess& access, size_t buffer_bytes);
  void add_shared(const WarpAccess& access);
};

}  // namespace emulator
