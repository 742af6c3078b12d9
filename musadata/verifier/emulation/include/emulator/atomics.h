// Atomics: threads change only at barriers and collectives, so a plain read-modify-write cannot be interrupted. It is
// kept out of the sanitiser's sight, because it is no race.
#pragma once
#include <emulator/qualifiers.h>
#include <emulator/vector_types.h>

#define EMULATOR_NOTE_ATOMIC(address) emulator::musadata_note_atomic((void*)(address), sizeof *(address))

namespace emulator {
// Keeps the second argument from deciding the type: atomicAdd(float*, 1) is an addition of floats.
template <class T>
struct exactly {
  using type = T;
};
template <class T>
using exactly_t = typename exactly<T>::type;
}  // namespace emulator

#define EMULATOR_ATOMIC(name, expression)                                                         \
  namespace emulator {                                                                            \
  template <class T>                                                                              \
  EMULATOR_UNSANITIZED T name##_plain(T* address, exactly_t<T> value) {                           \
    const T old = *address;                                                                       \
    *address = expression;                                                                        \
    return old;                                                                                   \
  }                                                                                               \
  }                                                                                               \
  template <class T>                                                                              \
  EMULATOR_INLINE T name(T* address, emulator::exactly_t<T> value) {                              \
    EMULATOR_NOTE_ATOMIC(address);                                                                \
    return emulator::name##_plain(address, value);                                                \
  }                                                                                               \
  template <class T>                                                                              \
  EMULATOR_INLINE T name##_block(T* address, emulator::exactly_t<T> value) {                      \
    return name(address, value);                                                                  \
  }                                                                                               \
  template <class T>                                                                              \
  EMULATOR_INLINE T name##_system(T* address, emulator::exactly_t<T> value) {                     \
    return name(address, value);                                                                  \
  }

EMULATOR_ATOMIC(atomicAdd, T(old + value))
EMULATOR_ATOMIC(atomicSub, T(old - value))
EMULATOR_ATOMIC(atomicExch, value)
EMULATOR_ATOMIC(atomicMax, old > value ? old : value)
EMULATOR_ATOMIC(atomicMin, old < value ? old : value)
EMULATOR_ATOMIC(atomicAnd, old& value)
EMULATOR_ATOMIC(atomicOr, old | value)
EMULATOR_ATOMIC(atomicXor, old ^ value)
EMULATOR_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
EMULATOR_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef EMULATOR_ATOMIC

namespace emulator {
template <class T>
EMULATOR_UNSANITIZED T compare_and_swap_plain(T* address, T compare, T value) {
  const T old = *address;
  if (memcmp(&old, &compare, sizeof old) == 0) {
    *address = value;
  }
  return old;
}
}  // namespace emulator
template <class T>
EMULATOR_INLINE T atomicCAS(T* address, emulator::exactly_t<T> compare, emulator::exactly_t<T> value) {
  EMULATOR_NOTE_ATOMIC(address);
  return emulator::compare_and_swap_plain(address, compare, value);
}
template <class T>
EMULATOR_INLINE T atomicCAS_block(T* address, emulator::exactly_t<T> compare, emulator::exactly_t<T> value) {
  return atomicCAS(address, compare, value);
}
template <class T>
EMULATOR_INLINE T atomicCAS_system(T* address, emulator::exactly_t<T> compare, emulator::exactly_t<T> value) {
  return atomicCAS(address, compare, value);
}

// PyTorch's own names.
template <class T>
static inline T gpuAtomicAdd(T* address, emulator::exactly_t<T> value) {
  return atomicAdd(address, value);
}
template <class T>
static inline void gpuAtomicAddNoReturn(T* address, emulator::exactly_t<T> value) {
  atomicAdd(address, value);
}

// Of vectors, each component is added for itself.
static inline float2 atomicAdd(float2* address, float2 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
static inline float4 atomicAdd(float4* address, float4 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
          atomicAdd(&address->w, value.w)};
}

// Loads and stores with cache hints.
#define EMULATOR_LOAD(name)                    \
  template <class T>                           \
  static inline T name(const T* address) {     \
    return *address;                           \
  }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldlu)
EMULATOR_LOAD(__ldcv)
#undef EMULATOR_LOAD
#define EMULATOR_STORE(name)                                                    \
  template <class T>                                                            \
  static inline void name(T* address, emulator::exactly_t<T> value) {           \
    *address = value;                                                           \
  }
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE
