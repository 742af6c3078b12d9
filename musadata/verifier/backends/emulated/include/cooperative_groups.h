// Cooperative groups of a block and of parts of a warp.
#pragma once
#include <cuda_runtime.h>

namespace cooperative_groups {

class thread_block {
 public:
  static void sync() { emulator::musadata_barrier(kSite); }
  static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx); }
  static dim3 thread_index() { return dim3(threadIdx); }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
  // Arrival waits as well: no thread continues before all have arrived, which every program must allow for.
  struct arrival_token {};
  static arrival_token barrier_arrive() { return {}; }
  static void barrier_wait(arrival_token&&) { sync(); }

 private:
  static constexpr int kSite = 1 << 30;  // all calls of sync() are one barrier: they have no line
};
inline thread_block this_thread_block() { return {}; }

// All threads of a launch.
class grid_group {
 public:
  static bool is_valid() { return emulator::musadata_is_cooperative() != 0; }
  static void sync() { emulator::musadata_grid_barrier(); }
  struct arrival_token {};
  static arrival_token barrier_arrive() { return {}; }
  static void barrier_wait(arrival_token&&) { sync(); }
  static unsigned long long block_rank() {
    return blockIdx.x + gridDim.x * (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
  }
  static unsigned long long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
  static unsigned long long num_blocks() { return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z; }
  static unsigned long long num_threads() { return num_blocks() * thread_block::size(); }
  static unsigned long long size() { return num_threads(); }
  static dim3 block_index() { return dim3(blockIdx); }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 group_dim() { return gridDim; }
};
inline grid_group this_grid() { return {}; }

// A set of lanes of one warp; ranks count the lanes of the mask from below.
class lane_group {
 public:
  void sync() const { __syncwarp(mask_); }
  unsigned thread_rank() const { return rank_; }
  unsigned size() const { return size_; }
  unsigned num_threads() const { return size_; }

  template <class T>
  T shfl(T value, unsigned rank) const {
    return emulator::shuffle(mask_, value, lane_of(rank % size_));
  }
  template <class T>
  T shfl_down(T value, unsigned delta) const {
    return emulator::shuffle(mask_, value, lane_of(rank_ + delta < size_ ? rank_ + delta : rank_));
  }
  template <class T>
  T shfl_up(T value, unsigned delta) const {
    return emulator::shuffle(mask_, value, lane_of(rank_ >= delta ? rank_ - delta : rank_));
  }
  template <class T>
  T shfl_xor(T value, unsigned flips) const {
    return emulator::shuffle(mask_, value, lane_of((rank_ ^ flips) < size_ ? rank_ ^ flips : rank_));
  }
  int any(int predicate) const { return __any_sync(mask_, predicate); }
  int all(int predicate) const { return __all_sync(mask_, predicate); }
  unsigned ballot(int predicate) const { return ranks_of(__ballot_sync(mask_, predicate)); }
  template <class T>
  unsigned match_any(T value) const {
    return ranks_of(__match_any_sync(mask_, value));
  }
  template <class T>
  unsigned match_all(T value, int& all_equal) const {
    return ranks_of(__match_all_sync(mask_, value, &all_equal));
  }
  unsigned meta_group_rank() const { return thread_block::thread_rank() / size_; }
  unsigned meta_group_size() const { return (thread_block::size() + size_ - 1) / size_; }
  unsigned mask() const { return mask_; }

  lane_group(unsigned mask, unsigned size, unsigned rank) : mask_(mask), size_(size), rank_(rank) {}

 private:
  int lane_of(unsigned rank) const {
    unsigned left = mask_;
    while (rank-- > 0) {
      left &= left - 1;
    }
    return __builtin_ctz(left);
  }
  unsigned ranks_of(unsigned lanes) const {
    unsigned ranks = 0;
    unsigned rank = 0;
    for (int lane = 0; lane < 32; lane++) {
      if (mask_ >> lane & 1) {
        ranks |= (lanes >> lane & 1) << rank++;
      }
    }
    return ranks;
  }
  unsigned mask_, size_, rank_;
};

template <unsigned Size, class Parent = thread_block>
class thread_block_tile : public lane_group {
  static_assert(Size == 1 || Size == 2 || Size == 4 || Size == 8 || Size == 16 || Size == 32,
                "tiles of more than a warp are not emulated");

 public:
  thread_block_tile() : lane_group(mask_of_tile(), Size, emulator::musadata_lane() % Size) {}
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }

 private:
  static unsigned mask_of_tile() {
    return Size == 32 ? ~0u : ((1u << (Size & 31)) - 1) << emulator::musadata_lane() / Size * Size;
  }
};
template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
  return {};
}
// Of a size that is known at run time only.
typedef lane_group thread_group;
template <class Parent>
inline lane_group tiled_partition(const Parent&, unsigned size) {
  if (size == 0 || size > 32 || (size & (size - 1)) != 0) {
    emulator::musadata_kernel_fault("unsupported", "a tile of more than a warp is not emulated");
  }
  const unsigned first = emulator::musadata_lane() / size * size;
  const unsigned lanes = size == 32 ? ~0u : ((1u << size) - 1) << first;
  return lane_group(lanes, size, emulator::musadata_lane() - first);
}

class coalesced_group : public lane_group {
 public:
  explicit coalesced_group(unsigned mask)
      : lane_group(mask, __builtin_popcount(mask),
                   __builtin_popcount(mask & ((1u << emulator::musadata_lane()) - 1))) {}
};
inline coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
template <class Predicate>
inline coalesced_group binary_partition(const lane_group& group, Predicate predicate) {
  const unsigned yes = __ballot_sync(group.mask(), predicate);
  return coalesced_group(predicate ? yes : group.mask() & ~yes);
}

template <class Label>
inline coalesced_group labeled_partition(const lane_group& group, Label label) {
  return coalesced_group(__match_any_sync(group.mask(), label));
}
template <class Group, class Function>
inline void invoke_one(const Group& group, Function&& function) {
  if (group.thread_rank() == 0) {
    function();
  }
}
template <class Group>
inline auto thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
inline auto group_size(const Group& group) {
  return group.size();
}

template <class Group>
inline void sync(const Group& group) {
  group.sync();
}

#define EMULATOR_GROUP_OPERATION(name, expression)    \
  template <class T = void>                           \
  struct name {                                       \
    template <class U>                                \
    U operator()(const U& a, const U& b) const {      \
      return expression;                              \
    }                                                 \
  };
EMULATOR_GROUP_OPERATION(plus, a + b)
EMULATOR_GROUP_OPERATION(less, a < b ? a : b)
EMULATOR_GROUP_OPERATION(greater, a > b ? a : b)
EMULATOR_GROUP_OPERATION(bit_and, a& b)
EMULATOR_GROUP_OPERATION(bit_or, a | b)
EMULATOR_GROUP_OPERATION(bit_xor, a ^ b)
#undef EMULATOR_GROUP_OPERATION

template <class Group, class T, class Operation>
inline T reduce(const Group& group, T value, Operation operation) {
  return emulator::fold(group.mask(), value, operation);
}

// Prefix sums: each lane folds what the lanes before it brought.
template <class Group, class T, class Operation = plus<T>>
inline T inclusive_scan(const Group& group, T value, Operation operation = {}) {
  T sum = value;
  for (unsigned step = 1; step < group.size(); step *= 2) {
    const T below = group.shfl_up(sum, step);
    sum = group.thread_rank() >= step ? operation(below, sum) : sum;
  }
  return sum;
}
template <class Group, class T, class Operation = plus<T>>
inline T exclusive_scan(const Group& group, T value, Operation operation = {}) {
  const T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
  return group.thread_rank() == 0 ? T{} : before;
}

// The group copies together, now; every thread copies its share.
template <class Group, class T>
inline void copy_together(const Group& group, T* target, const T* source, size_t bytes) {
  for (size_t i = group.thread_rank(); i < bytes / sizeof(T); i += group.size()) {
    target[i] = source[i];
  }
}
// `wait` is where the data must be there: now, or as late as that.
template <class Group, class T>
inline void copy_until_wait(const Group& group, T* target, const T* source, size_t bytes) {
  if (emulator::musadata_copies_wait()) {
    for (size_t i = group.thread_rank(); i < bytes / sizeof(T); i += group.size()) {
      emulator::musadata_copy_later(target + i, source + i, sizeof(T), sizeof(T));
    }
  } else {
    copy_together(group, target, source, bytes);
  }
  emulator::musadata_commit_copies();
}
template <class Group, class T, class Size>
inline void memcpy_async(const Group& group, T* target, const T* source, const Size& bytes) {
  copy_until_wait(group, target, source, static_cast<size_t>(bytes));
}
// Counted in elements, as much as fits on both sides.
template <class Group, class T, class TargetCount, class SourceCount>
inline void memcpy_async(const Group& group, T* target, const TargetCount& most, const T* source,
                         const SourceCount& count) {
  const size_t taken = std::min(static_cast<size_t>(most), static_cast<size_t>(count));
  copy_until_wait(group, target, source, taken * sizeof(T));
}
template <class Group>
inline void wait(const Group& group) {
  emulator::musadata_await_copies(0, 1);
  group.sync();
}
template <int Stage, class Group>
inline void wait_prior(const Group& group) {
  emulator::musadata_await_copies(Stage, 0);
  group.sync();
}

}  // namespace cooperative_groups
