// cuda::barrier, cuda::pipeline and the copies that they wait for, of one block. A waiting thread lets the others run.
#pragma once
#include <cooperative_groups.h>
#include <emulator/cuda_std.h>

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <size_t Alignment>
struct aligned_size_t {
  static constexpr size_t align = Alignment;
  size_t value;
  explicit constexpr aligned_size_t(size_t size) : value(size) {}
  constexpr operator size_t() const { return value; }
};

template <thread_scope Scope, class Completion = void>
class barrier {
 public:
  using arrival_token = uint64_t;
  barrier() = default;

  EMULATOR_UNSANITIZED arrival_token arrive(ptrdiff_t update = 1) {
    const arrival_token token = phase_;
    emulator::musadata_await_copies(0, 1);  // no later than this
    pending_ -= update;
    if (pending_ == 0) {
      pending_ = expected_;
      phase_++;
      emulator::musadata_pass_barrier();
    }
    return token;
  }
  EMULATOR_UNSANITIZED bool passed(arrival_token token) const { return phase_ != token; }
  void wait(arrival_token&& token) const {
    while (!passed(token)) {
      emulator::musadata_yield();
    }
  }
  void wait(const arrival_token& token) const { wait(arrival_token(token)); }
  void wait_parity(bool parity) const {
    while ((phase() & 1) == static_cast<uint64_t>(parity)) {
      emulator::musadata_yield();
    }
  }
  void arrive_and_wait() { wait(arrive()); }
  EMULATOR_UNSANITIZED void arrive_and_drop() {
    expected_--;
    arrive();
  }
  EMULATOR_UNSANITIZED void begin(ptrdiff_t expected) {
    expected_ = pending_ = expected;
    phase_ = 0;
  }

 private:
  EMULATOR_UNSANITIZED uint64_t phase() const { return phase_; }
  ptrdiff_t expected_;
  ptrdiff_t pending_;
  volatile uint64_t phase_;
};
template <thread_scope Scope>
inline void init(barrier<Scope>* target, ptrdiff_t expected) {
  target->begin(expected);
}

template <thread_scope Scope, uint8_t Stages>
class pipeline_shared_state {
 public:
  volatile uint32_t committed[Stages], released[Stages];
  volatile uint32_t producers, consumers;
};
enum class pipeline_role { producer, consumer };

// Of a single thread, whose copies are finished at once, or of a group that shares a state.
template <thread_scope Scope>
class pipeline {
 public:
  pipeline() = default;
  template <uint8_t Stages>
  EMULATOR_UNSANITIZED explicit pipeline(pipeline_shared_state<thread_scope_block, Stages>* state)
      : committed_(state->committed), released_(state->released), producers_(state->producers),
        consumers_(state->consumers), stages_(Stages) {}

  void producer_acquire() {
    while (stages_ != 0 && !reached(released_, head_, consumers_ * (head_ / stages_))) {
      emulator::musadata_yield();
    }
  }
  void producer_commit() {
    emulator::musadata_commit_copies();
    if (stages_ != 0) {
      emulator::musadata_await_copies(0, 1);  // others do not wait for this thread's copies, but for this
    }
    count(committed_, head_++, producers_);
  }
  void consumer_wait() {
    if (stages_ == 0) {
      emulator::musadata_await_copies(head_ - tail_ - 1, 0);
    }
    while (stages_ != 0 && !reached(committed_, tail_, producers_ * (tail_ / stages_ + 1))) {
      emulator::musadata_yield();
    }
  }
  void consumer_release() { count(released_, tail_++, consumers_); }
  bool quit() { return true; }

 private:
  EMULATOR_UNSANITIZED bool reached(volatile uint32_t* counts, uint32_t step, uint32_t needed) const {
    return counts[step % stages_] >= needed;
  }
  EMULATOR_UNSANITIZED void count(volatile uint32_t* counts, uint32_t step, uint32_t all) {
    if (stages_ == 0) {
      return;
    }
    counts[step % stages_] = counts[step % stages_] + 1;
    if (counts[step % stages_] % all == 0) {
      emulator::musadata_pass_barrier();
    }
  }
  volatile uint32_t *committed_ = nullptr, *released_ = nullptr;
  uint32_t producers_ = 0, consumers_ = 0, stages_ = 0, head_ = 0, tail_ = 0;
};

inline pipeline<thread_scope_thread> make_pipeline() { return {}; }

template <uint8_t Stages>
EMULATOR_UNSANITIZED inline void join(pipeline_shared_state<thread_scope_block, Stages>* state, bool produces,
                                      bool consumes) {
  state->producers = state->producers + produces;
  state->consumers = state->consumers + consumes;
}
template <uint8_t Stages>
EMULATOR_UNSANITIZED inline void clear(pipeline_shared_state<thread_scope_block, Stages>* state) {
  for (int stage = 0; stage < Stages; stage++) {
    state->committed[stage] = state->released[stage] = 0;
  }
  state->producers = state->consumers = 0;
}
template <class Group, uint8_t Stages>
inline pipeline<thread_scope_block> join_pipeline(const Group& group,
                                                  pipeline_shared_state<thread_scope_block, Stages>* state,
                                                  bool produces, bool consumes) {
  if (group.thread_rank() == 0) {
    clear(state);
  }
  group.sync();
  join(state, produces, consumes);
  group.sync();
  return pipeline<thread_scope_block>(state);
}
template <class Group, uint8_t Stages>
inline pipeline<thread_scope_block> make_pipeline(const Group& group,
                                                  pipeline_shared_state<thread_scope_block, Stages>* state) {
  return join_pipeline(group, state, true, true);
}
template <class Group, uint8_t Stages>
inline pipeline<thread_scope_block> make_pipeline(const Group& group,
                                                  pipeline_shared_state<thread_scope_block, Stages>* state,
                                                  pipeline_role role) {
  return join_pipeline(group, state, role == pipeline_role::producer, role == pipeline_role::consumer);
}
template <class Group, uint8_t Stages>
inline pipeline<thread_scope_block> make_pipeline(const Group& group,
                                                  pipeline_shared_state<thread_scope_block, Stages>* state,
                                                  size_t producers) {
  const bool produces = group.thread_rank() < producers;
  return join_pipeline(group, state, produces, !produces);
}
template <uint8_t Prior>
inline void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>&) {
  emulator::musadata_await_copies(Prior, 0);
}

template <class T>
inline void copy_share(T* target, const T* source, size_t count, unsigned rank, unsigned ranks) {
  for (size_t i = rank; i < count; i += ranks) {
    emulator::copy_async(target + i, source + i, sizeof(T), sizeof(T));
  }
}
template <class T, class Size, class Waited, class = std::enable_if_t<std::is_convertible_v<Size, size_t>>>
inline void memcpy_async(T* target, const T* source, Size size, Waited&) {
  emulator::copy_async(target, source, static_cast<size_t>(size), static_cast<size_t>(size));
}
template <class Group, class T, class Size, class Waited, class = decltype(std::declval<Group>().thread_rank())>
inline void memcpy_async(const Group& group, T* target, const T* source, Size size, Waited&) {
  copy_share(target, source, static_cast<size_t>(size) / sizeof(T), group.thread_rank(), group.size());
}
template <class Group, class Size, class Waited, class = decltype(std::declval<Group>().thread_rank())>
inline void memcpy_async(const Group& group, void* target, const void* source, Size size, Waited&) {
  copy_share(static_cast<char*>(target), static_cast<const char*>(source), static_cast<size_t>(size),
             group.thread_rank(), group.size());
}

}  // namespace cuda
