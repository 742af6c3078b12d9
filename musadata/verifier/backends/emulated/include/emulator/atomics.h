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

// For any type, as PTX, cuda::atomic and PyTorch have them.
#define EMULATOR_ATOMIC(name, expression)                                 \
  namespace emulator {                                                    \
  template <class T>                                                      \
  EMULATOR_UNSANITIZED T name##_plain(T* address, exactly_t<T> value) {   \
    const T old = *address;                                               \
    *address = expression;                                                \
    return old;                                                           \
  }                                                                       \
  template <class T>                                                      \
  EMULATOR_INLINE T name(T* address, exactly_t<T> value) {                \
    EMULATOR_NOTE_ATOMIC(address);                                        \
    return name##_plain(address, value);                                  \
  }                                                                       \
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
template <class T>
EMULATOR_INLINE T atomicCAS(T* address, exactly_t<T> compare, exactly_t<T> value) {
  EMULATOR_NOTE_ATOMIC(address);
  return compare_and_swap_plain(address, compare, value);
}
}  // namespace emulator

// The functions themselves exist for few types, and which these are differs between them.
#define EMULATOR_OVERLOAD(name, type) \
  EMULATOR_INLINE type name(type* address, type value) { return emulator::name(address, value); }
#define EMULATOR_OVERLOADS(name, type)                                                                   \
  EMULATOR_OVERLOAD(name, type)                                                                          \
  EMULATOR_INLINE type name##_block(type* address, type value) { return emulator::name(address, value); } \
  EMULATOR_INLINE type name##_system(type* address, type value) { return emulator::name(address, value); }
#define EMULATOR_OF_INTEGERS(name)  \
  EMULATOR_OVERLOADS(name, int)     \
  EMULATOR_OVERLOADS(name, unsigned)
#define EMULATOR_OF_LONG_INTEGERS(name) \
  EMULATOR_OF_INTEGERS(name)            \
  EMULATOR_OVERLOADS(name, long long)   \
  EMULATOR_OVERLOADS(name, unsigned long long)

EMULATOR_OF_INTEGERS(atomicAdd)
EMULATOR_OVERLOADS(atomicAdd, unsigned long long)
EMULATOR_OVERLOADS(atomicAdd, float)
EMULATOR_OVERLOADS(atomicAdd, double)
EMULATOR_OF_INTEGERS(atomicSub)
EMULATOR_OF_INTEGERS(atomicExch)
EMULATOR_OVERLOADS(atomicExch, unsigned long long)
EMULATOR_OVERLOADS(atomicExch, float)
EMULATOR_OF_LONG_INTEGERS(atomicMax)
EMULATOR_OF_LONG_INTEGERS(atomicMin)
EMULATOR_OF_LONG_INTEGERS(atomicAnd)
EMULATOR_OF_LONG_INTEGERS(atomicOr)
EMULATOR_OF_LONG_INTEGERS(atomicXor)
EMULATOR_OVERLOADS(atomicInc, unsigned)
EMULATOR_OVERLOADS(atomicDec, unsigned)
#undef EMULATOR_OF_LONG_INTEGERS
#undef EMULATOR_OF_INTEGERS
#undef EMULATOR_OVERLOADS
#undef EMULATOR_OVERLOAD

#define EMULATOR_COMPARE_AND_SWAP(name, type)                                \
  EMULATOR_INLINE type name(type* address, type compare, type value) {       \
    return emulator::atomicCAS(address, compare, value);                     \
  }
#define EMULATOR_COMPARE_AND_SWAPS(type)          \
  EMULATOR_COMPARE_AND_SWAP(atomicCAS, type)       \
  EMULATOR_COMPARE_AND_SWAP(atomicCAS_block, type) \
  EMULATOR_COMPARE_AND_SWAP(atomicCAS_system, type)
EMULATOR_COMPARE_AND_SWAPS(int)
EMULATOR_COMPARE_AND_SWAPS(unsigned)
EMULATOR_COMPARE_AND_SWAPS(unsigned long long)
EMULATOR_COMPARE_AND_SWAPS(unsigned short)
#undef EMULATOR_COMPARE_AND_SWAPS
#undef EMULATOR_COMPARE_AND_SWAP

// PyTorch's own names.
template <class T>
static inline T gpuAtomicAdd(T* address, emulator::exactly_t<T> value) {
  return emulator::atomicAdd(address, value);
}
template <class T>
static inline void gpuAtomicAddNoReturn(T* address, emulator::exactly_t<T> value) {
  emulator::atomicAdd(address, value);
}

// Of vectors, each component is added for itself.
static inline float2 atomicAdd(float2* address, float2 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
static inline float4 atomicAdd(float4* address, float4 value) {
  return {atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
          atomicAdd(&address->w, value.w)};
}

// Loads and stores with cache hints: of numbers, and of vectors of as many bytes as one instruction moves.
namespace emulator {
template <class T, class... Types>
constexpr bool is_one_of = (std::is_same_v<T, Types> || ...);
template <class T>
constexpr bool has_hinted_access = is_one_of<
    T, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long,
    unsigned long long, float, double, char2, char4, uchar2, uchar4, short2, short4, ushort2, ushort4, int2, int4, uint2,
    uint4, longlong2, ulonglong2, float2, float4, double2>;
template <class T>
using if_hinted_access = std::enable_if_t<has_hinted_access<T>, int>;
}  // namespace emulator

#define EMULATOR_LOAD(name)                    \
  template <class T, emulator::if_hinted_access<T> = 0> \
  static inline T name(const T* address, const char* file = __builtin_FILE(), int line = __builtin_LINE()) { \
    emulator_need_aligned(address, alignof(T), "what " #name " loads", file, line);                       \
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
  template <class T, emulator::if_hinted_access<T> = 0>                         \
  static inline void name(T* address, emulator::exactly_t<T> value, const char* file = __builtin_FILE(),        \
                          int line = __builtin_LINE()) {                                                       \
    emulator_need_aligned(address, alignof(T), "what " #name " stores", file, line);                            \
    *address = value;                                                           \
  }
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE
