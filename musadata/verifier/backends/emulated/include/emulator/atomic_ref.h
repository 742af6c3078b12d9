// cuda::atomic and cuda::atomic_ref by the atomics of a device.
#pragma once
#include <emulator/block_barrier.h>

#include <atomic>

namespace cuda {

using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

inline void atomic_thread_fence(memory_order, thread_scope = thread_scope_system) { emulator::musadata_note_fence(); }

template <class T, thread_scope Scope = thread_scope_system>
class atomic_ref {
 public:
  explicit atomic_ref(T& target) : target_(&target) {}
  T load(memory_order = memory_order_seq_cst) const {
    EMULATOR_NOTE_ATOMIC(target_);
    return read();
  }
  void store(T value, memory_order order = memory_order_seq_cst) const { exchange(value, order); }
  T exchange(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicExch(target_, value); }
  T fetch_add(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicAdd(target_, value); }
  T fetch_sub(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicSub(target_, value); }
  T fetch_max(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicMax(target_, value); }
  T fetch_min(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicMin(target_, value); }
  T fetch_and(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicAnd(target_, value); }
  T fetch_or(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicOr(target_, value); }
  T fetch_xor(T value, memory_order order = memory_order_seq_cst) const { return fence(order), emulator::atomicXor(target_, value); }
  T operator++() const { return fetch_add(1) + 1; }
  T operator++(int) const { return fetch_add(1); }
  T operator+=(T value) const { return fetch_add(value) + value; }
  T operator-=(T value) const { return fetch_sub(value) - value; }
  operator T() const { return load(); }
  bool compare_exchange_strong(T& expected, T value, memory_order order = memory_order_seq_cst,
                               memory_order = memory_order_seq_cst) const {
    fence(order);
    const T old = emulator::atomicCAS(target_, expected, value);
    const bool same = memcmp(&old, &expected, sizeof old) == 0;
    expected = old;
    return same;
  }
  bool compare_exchange_weak(T& expected, T value, memory_order order = memory_order_seq_cst,
                             memory_order = memory_order_seq_cst) const {
    return compare_exchange_strong(expected, value, order);
  }

 private:
  EMULATOR_UNSANITIZED T read() const { return *static_cast<volatile T*>(target_); }
  static void fence(memory_order order) {
    if (order != memory_order_relaxed) {
      emulator::musadata_note_fence();
    }
  }
  T* target_;
};

template <class T, thread_scope Scope = thread_scope_system>
class atomic {
 public:
  atomic() = default;
  constexpr atomic(T value) : value_(value) {}
  atomic_ref<T, Scope> operator->() { return atomic_ref<T, Scope>(value_); }
#define EMULATOR_FORWARD(name)                                                                      \
  template <class... Arguments>                                                                     \
  auto name(Arguments&&... arguments) {                                                             \
    return atomic_ref<T, Scope>(value_).name(std::forward<Arguments>(arguments)...);                \
  }
  EMULATOR_FORWARD(load)
  EMULATOR_FORWARD(store)
  EMULATOR_FORWARD(exchange)
  EMULATOR_FORWARD(fetch_add)
  EMULATOR_FORWARD(fetch_sub)
  EMULATOR_FORWARD(fetch_max)
  EMULATOR_FORWARD(fetch_min)
  EMULATOR_FORWARD(fetch_and)
  EMULATOR_FORWARD(fetch_or)
  EMULATOR_FORWARD(fetch_xor)
  EMULATOR_FORWARD(compare_exchange_strong)
  EMULATOR_FORWARD(compare_exchange_weak)
#undef EMULATOR_FORWARD
  T operator=(T value) { return store(value), value; }
  operator T() { return load(); }

 private:
  T value_;
};

}  // namespace cuda
