// Bit casts, conversions with a rounding mode, integer intrinsics.
#pragma once
#include <emulator/qualifiers.h>

#include <limits>

namespace emulator {
template <class To, class From>
inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}

// CUDA saturates where C++ leaves the result undefined, and turns NaN into zero.
template <class To>
constexpr To saturate(double value) {
  if (value != value) {
    return 0;
  }
  constexpr double low = static_cast<double>(std::numeric_limits<To>::min());
  constexpr double high = static_cast<double>(std::numeric_limits<To>::max());
  return value <= low ? std::numeric_limits<To>::min() : value >= high ? std::numeric_limits<To>::max()
                                                                       : static_cast<To>(value);
}

// Whether a type of ours, as __half, converts to float; older standards have no requires-expressions.
template <class From, class = void>
struct HasFloat : std::false_type {};
template <class From>
struct HasFloat<From, std::void_t<decltype(std::declval<From&>().operator float())>> : std::true_type {};

// What a cast to To converts. Devices have no conversion to less than 32 bits: they saturate to those and cut them off.
template <class To, class From>
constexpr auto in_range(From value) {
  if constexpr (std::is_floating_point_v<From>) {
    using Narrow = std::conditional_t<std::is_signed_v<To>, int, unsigned>;
    return saturate<std::conditional_t<(sizeof(To) < sizeof(int)), Narrow, To>>(static_cast<double>(value));
  } else if constexpr (HasFloat<From>::value) {
    return in_range<To>(value.operator float());
  } else {
    return value;
  }
}
}  // namespace emulator

static inline int __float_as_int(float x) { return emulator::bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulator::bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulator::bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulator::bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulator::bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulator::bits<double>(x); }
static inline int __double2hiint(double x) { return static_cast<int>(emulator::bits<uint64_t>(x) >> 32); }
static inline int __double2loint(double x) { return static_cast<int>(emulator::bits<uint64_t>(x)); }
static inline double __hiloint2double(int high, int low) {
  return emulator::bits<double>(static_cast<uint64_t>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}

#define EMULATOR_CONVERSIONS(mode, round)                                                                            \
  static inline int __float2int_##mode(float x) { return emulator::saturate<int>(round(double{x})); }                \
  static inline unsigned __float2uint_##mode(float x) { return emulator::saturate<unsigned>(round(double{x})); }     \
  static inline long long __float2ll_##mode(float x) { return emulator::saturate<long long>(round(double{x})); }     \
  static inline unsigned long long __float2ull_##mode(float x) {                                                     \
    return emulator::saturate<unsigned long long>(round(double{x}));                                                 \
  }                                                                                                                  \
  static inline int __double2int_##mode(double x) { return emulator::saturate<int>(round(x)); }                      \
  static inline unsigned __double2uint_##mode(double x) { return emulator::saturate<unsigned>(round(x)); }           \
  static inline long long __double2ll_##mode(double x) { return emulator::saturate<long long>(round(x)); }           \
  static inline float __int2float_##mode(int x) { return static_cast<float>(x); }                                    \
  static inline float __uint2float_##mode(unsigned x) { return static_cast<float>(x); }                              \
  static inline float __ll2float_##mode(long long x) { return static_cast<float>(x); }                               \
  static inline float __ull2float_##mode(unsigned long long x) { return static_cast<float>(x); }                     \
  static inline float __double2float_##mode(double x) { return static_cast<float>(x); }                              \
  static inline double __ll2double_##mode(long long x) { return static_cast<double>(x); }
EMULATOR_CONVERSIONS(rn, nearbyint)
EMULATOR_CONVERSIONS(rz, trunc)
EMULATOR_CONVERSIONS(rd, floor)
EMULATOR_CONVERSIONS(ru, ceil)
#undef EMULATOR_CONVERSIONS
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; bit++) {
    reversed |= (x >> bit & 1) << (31 - bit);
  }
  return reversed;
}
static inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 | __brev(static_cast<unsigned>(x >> 32));
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<uint64_t>(a) * b >> 32; }
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
static inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
static inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static inline int __sad(int a, int b, unsigned c) { return static_cast<int>(c + static_cast<unsigned>(a > b ? a - b : b - a)); }
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
static inline int __hadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b) >> 1); }
static inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) + b + 1) >> 1); }
static inline unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} + b) >> 1); }
static inline unsigned __urhadd(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} + b + 1) >> 1); }
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
  unsigned result = 0;
  for (int byte = 0; byte < 4; byte++) {
    const unsigned choice = selector >> (4 * byte) & 7;
    result |= static_cast<unsigned>(both >> (8 * choice) & 0xff) << (8 * byte);
  }
  return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (shift & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
static inline int __dp4a(int a, int b, int c) {
  for (int byte = 0; byte < 4; byte++) {
    c += static_cast<int8_t>(a >> 8 * byte) * static_cast<int8_t>(b >> 8 * byte);
  }
  return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int byte = 0; byte < 4; byte++) {
    c += (a >> 8 * byte & 0xff) * (b >> 8 * byte & 0xff);
  }
  return c;
}

static inline bool __isShared(const void* pointer) {
  const char* base = emulator::musadata_shared_base();
  return static_cast<const char*>(pointer) >= base && static_cast<const char*>(pointer) < base + (1 << 20);
}
static inline bool __isGlobal(const void* pointer) { return !__isShared(pointer); }
static inline unsigned __fns(unsigned mask, unsigned base, int offset) {
  const int step = offset < 0 ? -1 : 1;
  int left = offset == 0 ? 1 : offset < 0 ? -offset : offset;
  for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
    if (mask >> bit & 1 && --left == 0) {
      return bit;
    }
    if (offset == 0) {
      break;
    }
  }
  return ~0u;
}
// Clocks only ever go up by one, so that two runs see the same.
static inline long long clock64() {
  static long long ticks = 0;
  return ++ticks;
}
static inline unsigned long long __globaltimer() { return static_cast<unsigned long long>(clock64()); }
