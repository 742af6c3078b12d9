// Collectives of a warp. Each lane leaves its data with the scheduler and waits for the others of its mask.
#pragma once
#include <emulator/launch.h>

namespace emulator {

template <class T>
EMULATOR_UNSANITIZED inline T shuffle(unsigned mask, T value, int source_lane) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16, "only values of up to 16 bytes can be shuffled");
  T result;
  Collective collective{CollectiveKind::kShuffle};
  collective.source_lane = source_lane;
  collective.size = sizeof(T);
  collective.in = &value;
  collective.out = &result;
  musadata_collective(mask, &collective);
  return result;
}

inline Collective vote(unsigned mask, bool predicate) {
  Collective collective{CollectiveKind::kBallot};
  collective.predicate = predicate;
  musadata_collective(mask, &collective);
  return collective;
}

template <class T>
inline Collective match(unsigned mask, T value) {
  Collective collective{CollectiveKind::kMatch};
  collective.in = &value;
  collective.size = sizeof(T);
  musadata_collective(mask, &collective);
  return collective;
}

inline void sync_warp(unsigned mask) {
  Collective collective{CollectiveKind::kSync};
  musadata_collective(mask, &collective);
}

// Folds the values of all lanes of the mask, lowest lane first; every lane gets the result.
template <class T, class Operation>
EMULATOR_UNSANITIZED inline T fold(unsigned mask, T value, Operation operation) {
  Collective collective{CollectiveKind::kGather};
  collective.in = &value;
  collective.size = sizeof(T);
  musadata_collective(mask, &collective);
  T result{};
  bool first = true;
  for (const void* input : collective.inputs) {
    if (input != nullptr) {
      const T other = *static_cast<const T*>(input);
      result = first ? other : operation(result, other);
      first = false;
    }
  }
  sync_warp(mask);  // `value` lives on this lane's stack until everybody has read it
  return result;
}

}  // namespace emulator

static inline unsigned __activemask() { return emulator::musadata_active_mask(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::sync_warp(mask); }
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return emulator::vote(mask, predicate != 0).result;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) {
  const emulator::Collective votes = emulator::vote(mask, predicate != 0);
  return votes.result == votes.arrived;
}

namespace emulator {

template <class T>
inline T shuffle_from(unsigned mask, T value, int source, int width = 32) {
  const int lane = musadata_lane();
  return shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
inline T shuffle_down(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = musadata_lane();
  const bool inside = (lane & (width - 1)) + static_cast<int>(delta) < width;
  return shuffle(mask, value, inside ? lane + static_cast<int>(delta) : lane);
}
template <class T>
inline T shuffle_up(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = musadata_lane();
  const bool inside = (lane & (width - 1)) - static_cast<int>(delta) >= 0;
  return shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane);
}
template <class T>
inline T shuffle_xor(unsigned mask, T value, int flips, int width = 32) {
  const int lane = musadata_lane();
  const int source = lane ^ flips;
  // A source in a later segment is out of reach, an earlier one is not.
  const bool reachable = (source & ~(width - 1)) <= (lane & ~(width - 1));
  return shuffle(mask, value, reachable ? source : lane);
}

}  // namespace emulator

// What has an overload of its own, or converts to one's type without doubt, can be shuffled and matched.
#define EMULATOR_SHUFFLES(type)                                                                \
  static inline type __shfl_sync(unsigned mask, type value, int source, int width = 32) {      \
    return emulator::shuffle_from(mask, value, source, width);                                 \
  }                                                                                            \
  static inline type __shfl_down_sync(unsigned mask, type value, unsigned delta, int width = 32) { \
    return emulator::shuffle_down(mask, value, delta, width);                                  \
  }                                                                                            \
  static inline type __shfl_up_sync(unsigned mask, type value, unsigned delta, int width = 32) { \
    return emulator::shuffle_up(mask, value, delta, width);                                    \
  }                                                                                            \
  static inline type __shfl_xor_sync(unsigned mask, type value, int flips, int width = 32) {   \
    return emulator::shuffle_xor(mask, value, flips, width);                                   \
  }
#define EMULATOR_MATCHES(type)                                                                 \
  EMULATOR_SHUFFLES(type)                                                                      \
  static inline unsigned __match_any_sync(unsigned mask, type value) {                         \
    return emulator::match(mask, value).result;                                                \
  }                                                                                            \
  static inline unsigned __match_all_sync(unsigned mask, type value, int* all_equal) {         \
    const emulator::Collective matches = emulator::match(mask, value);                         \
    *all_equal = matches.result == matches.arrived;                                            \
    return *all_equal ? matches.arrived : 0;                                                   \
  }
EMULATOR_MATCHES(int)
EMULATOR_MATCHES(unsigned)
EMULATOR_MATCHES(long)
EMULATOR_MATCHES(unsigned long)
EMULATOR_MATCHES(long long)
EMULATOR_MATCHES(unsigned long long)
EMULATOR_MATCHES(float)
EMULATOR_MATCHES(double)
#undef EMULATOR_MATCHES

#define EMULATOR_WARP_REDUCE(name, type, expression)                                              \
  static inline type name(unsigned mask, type value) {                                            \
    return emulator::fold(mask, value, [](type a, type b) -> type { return expression; });        \
  }
EMULATOR_WARP_REDUCE(__reduce_add_sync, int, a + b)
EMULATOR_WARP_REDUCE(__reduce_add_sync, unsigned, a + b)
EMULATOR_WARP_REDUCE(__reduce_max_sync, int, a > b ? a : b)
EMULATOR_WARP_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
EMULATOR_WARP_REDUCE(__reduce_min_sync, int, a < b ? a : b)
EMULATOR_WARP_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
EMULATOR_WARP_REDUCE(__reduce_and_sync, unsigned, a& b)
EMULATOR_WARP_REDUCE(__reduce_or_sync, unsigned, a | b)
EMULATOR_WARP_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
#undef EMULATOR_WARP_REDUCE
