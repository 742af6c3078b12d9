// __half and __nv_bfloat16: 16 bits in memory, arithmetic in float, rounded after every operation.
//
// PyTorch compiles extensions with __CUDA_NO_HALF_OPERATORS__ and its sisters, which take implicit conversions and
// operators away; the same macros do the same here, so that what compiles here compiles there.
#pragma once
#include <cuda_runtime.h>
#include <emulator/float16.h>

#include <string_view>

namespace emulator {

struct HalfFormat {
  static float decode(uint16_t bits) { return half_to_float(bits); }
  static uint16_t encode(float value) { return float_to_half(value); }
};

struct Bfloat16Format {
  static float decode(uint16_t bits) { return bfloat16_to_float(bits); }
  static uint16_t encode(float value) { return float_to_bfloat16(value); }
};

// c10::Half and c10::BFloat16 convert to and from CUDA's types, whichever torch headers define them: each to its own, as
// two conversions would make comparing them ambiguous.
template <class T>
constexpr bool is_called_bfloat16() {
  return std::string_view(__PRETTY_FUNCTION__).find("BFloat16") != std::string_view::npos;
}
template <class T, class = void>
struct is_torch_16bit : std::false_type {};
template <class T>
struct is_torch_16bit<T, std::enable_if_t<std::is_class_v<T> && sizeof(T) == 2 &&
                                          std::is_same_v<decltype(T::x), unsigned short> &&
                                          std::is_convertible_v<T, float>>> : std::true_type {
  using format = std::conditional_t<is_called_bfloat16<T>(), Bfloat16Format, HalfFormat>;
};
template <class T, class Format>
using enable_if_torch = std::enable_if_t<std::is_same_v<typename is_torch_16bit<T>::format, Format>, int>;

}  // namespace emulator

struct __half_raw {
  unsigned short x;
};
struct __nv_bfloat16_raw {
  unsigned short x;
};

#define EMULATOR_16BIT_TYPE(name, format, raw)                                                              \
  struct alignas(2) name {                                                                                  \
    unsigned short bits;                                                                                    \
    name() = default;                                                                                       \
    name(const raw& other) : bits(other.x) {}                                                               \
    operator raw() const { return {bits}; }                                                                 \
    template <class T, emulator::enable_if_torch<T, emulator::format> = 0>                                  \
    explicit(std::is_same_v<emulator::format, emulator::Bfloat16Format>) /* as PyTorch has it */            \
        name(const T& other)                                                                                \
        : bits(other.x) {}                                                                                  \
    template <class T, emulator::enable_if_torch<T, emulator::format> = 0>                                  \
    operator T() const {                                                                                    \
      T result;                                                                                             \
      result.x = bits;                                                                                      \
      return result;                                                                                        \
    }                                                                                                       \
    static name from_float(float value) {                                                                   \
      name result;                                                                                          \
      result.bits = emulator::format::encode(value);                                                        \
      return result;                                                                                        \
    }                                                                                                       \
    float to_float() const { return emulator::format::decode(bits); }                                       \
    EMULATOR_CONVERSIONS_OF(name)                                                                           \
  };

#define EMULATOR_IMPLICIT_CONVERSIONS(name)                                                                 \
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>                                    \
  name(T value) : bits(from_float(static_cast<float>(value)).bits) {}                                       \
  operator float() const { return to_float(); }                                                             \
  name& operator=(float value) { return *this = from_float(value); }

#ifdef __CUDA_NO_HALF_CONVERSIONS__
#define EMULATOR_CONVERSIONS_OF(name)
#else
#define EMULATOR_CONVERSIONS_OF(name) EMULATOR_IMPLICIT_CONVERSIONS(name)
#endif
EMULATOR_16BIT_TYPE(__half, HalfFormat, __half_raw)
#undef EMULATOR_CONVERSIONS_OF

namespace emulator {
// `value->*as_half` stands for value.operator __half().
struct AsHalf {};
inline constexpr AsHalf as_half{};
template <class T, enable_if_torch<T, HalfFormat> = 0>
__half operator->*(const T& value, AsHalf) {
  return value;
}
}  // namespace emulator

#ifdef __CUDA_NO_BFLOAT16_CONVERSIONS__
#define EMULATOR_CONVERSIONS_OF(name)
#else
#define EMULATOR_CONVERSIONS_OF(name) EMULATOR_IMPLICIT_CONVERSIONS(name)
#endif
EMULATOR_16BIT_TYPE(__nv_bfloat16, Bfloat16Format, __nv_bfloat16_raw)
#undef EMULATOR_CONVERSIONS_OF

struct __half2;
struct __nv_bfloat162;
struct __half2_raw {
  unsigned short x, y;
  operator __half2() const;
};
struct __nv_bfloat162_raw {
  unsigned short x, y;
  operator __nv_bfloat162() const;
};
struct alignas(4) __half2 {
  __half x, y;
  operator __half2_raw() const { return {x.bits, y.bits}; }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  operator __nv_bfloat162_raw() const { return {x.bits, y.bits}; }
};
inline __half2_raw::operator __half2() const { return {__half_raw{x}, __half_raw{y}}; }
inline __nv_bfloat162_raw::operator __nv_bfloat162() const { return {__nv_bfloat16_raw{x}, __nv_bfloat16_raw{y}}; }
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

// Of the loads with cache hints PyTorch declares this one for its own types.
template <class T, std::enable_if_t<emulator::is_torch_16bit<T>::value, int> = 0>
static inline T __ldg(const T* address) {
  return *address;
}

#define EMULATOR_OPERATORS(scalar)                                                                          \
  static inline scalar operator+(scalar a, scalar b) { return scalar::from_float(a.to_float() + b.to_float()); } \
  static inline scalar operator-(scalar a, scalar b) { return scalar::from_float(a.to_float() - b.to_float()); } \
  static inline scalar operator*(scalar a, scalar b) { return scalar::from_float(a.to_float() * b.to_float()); } \
  static inline scalar operator/(scalar a, scalar b) { return scalar::from_float(a.to_float() / b.to_float()); } \
  static inline scalar operator-(scalar a) { return scalar::from_float(-a.to_float()); }                    \
  static inline scalar operator+(scalar a) { return a; }                                                    \
  static inline scalar& operator+=(scalar& a, scalar b) { return a = a + b; }                               \
  static inline scalar& operator-=(scalar& a, scalar b) { return a = a - b; }                               \
  static inline scalar& operator*=(scalar& a, scalar b) { return a = a * b; }                               \
  static inline scalar& operator/=(scalar& a, scalar b) { return a = a / b; }                               \
  static inline bool operator<(scalar a, scalar b) { return a.to_float() < b.to_float(); }                  \
  static inline bool operator>(scalar a, scalar b) { return a.to_float() > b.to_float(); }                  \
  static inline bool operator<=(scalar a, scalar b) { return a.to_float() <= b.to_float(); }                \
  static inline bool operator>=(scalar a, scalar b) { return a.to_float() >= b.to_float(); }                \
  static inline bool operator==(scalar a, scalar b) { return a.to_float() == b.to_float(); }                \
  static inline bool operator!=(scalar a, scalar b) { return a.to_float() != b.to_float(); }

#define EMULATOR_PAIR_OPERATORS(pair)                                                                       \
  static inline pair operator+(pair a, pair b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }             \
  static inline pair operator-(pair a, pair b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }             \
  static inline pair operator*(pair a, pair b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }             \
  static inline pair operator/(pair a, pair b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }             \
  static inline pair& operator+=(pair& a, pair b) { return a = a + b; }                                     \
  static inline pair& operator*=(pair& a, pair b) { return a = a * b; }

#ifndef __CUDA_NO_HALF_OPERATORS__
EMULATOR_OPERATORS(__half)
#endif
#ifndef __CUDA_NO_BFLOAT16_OPERATORS__
EMULATOR_OPERATORS(__nv_bfloat16)
#endif

// The named functions exist for both formats, scalar and pairwise.
#define EMULATOR_SCALAR_FUNCTIONS(scalar)                                                                   \
  static inline bool __hisnan(scalar a) { return a.to_float() != a.to_float(); }                            \
  static inline scalar __hadd(scalar a, scalar b) { return scalar::from_float(a.to_float() + b.to_float()); } \
  static inline scalar __hsub(scalar a, scalar b) { return scalar::from_float(a.to_float() - b.to_float()); } \
  static inline scalar __hmul(scalar a, scalar b) { return scalar::from_float(a.to_float() * b.to_float()); } \
  static inline scalar __hdiv(scalar a, scalar b) { return scalar::from_float(a.to_float() / b.to_float()); } \
  static inline scalar __hadd_rn(scalar a, scalar b) { return __hadd(a, b); }                               \
  static inline scalar __hsub_rn(scalar a, scalar b) { return __hsub(a, b); }                               \
  static inline scalar __hmul_rn(scalar a, scalar b) { return __hmul(a, b); }                               \
  static inline scalar __hadd_sat(scalar a, scalar b) {                                                     \
    return scalar::from_float(__saturatef(a.to_float() + b.to_float()));                                    \
  }                                                                                                         \
  static inline scalar __hneg(scalar a) { return scalar::from_float(-a.to_float()); }                       \
  static inline scalar __habs(scalar a) { return scalar::from_float(fabsf(a.to_float())); }                 \
  static inline scalar __hfma(scalar a, scalar b, scalar c) {                                               \
    return scalar::from_float(fmaf(a.to_float(), b.to_float(), c.to_float()));                              \
  }                                                                                                         \
  static inline scalar __hfma_relu(scalar a, scalar b, scalar c) {                                          \
    return scalar::from_float(fmaxf(fmaf(a.to_float(), b.to_float(), c.to_float()), 0.0f));                 \
  }                                                                                                         \
  static inline scalar __hmax(scalar a, scalar b) { return scalar::from_float(fmaxf(a.to_float(), b.to_float())); } \
  static inline scalar __hmin(scalar a, scalar b) { return scalar::from_float(fminf(a.to_float(), b.to_float())); } \
  static inline scalar __hmax_nan(scalar a, scalar b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); } \
  static inline scalar __hmin_nan(scalar a, scalar b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); } \
  static inline scalar __hsub_sat(scalar a, scalar b) {                                                     \
    return scalar::from_float(__saturatef(a.to_float() - b.to_float()));                                    \
  }                                                                                                         \
  static inline scalar __hmul_sat(scalar a, scalar b) {                                                     \
    return scalar::from_float(__saturatef(a.to_float() * b.to_float()));                                    \
  }                                                                                                         \
  static inline scalar __hfma_sat(scalar a, scalar b, scalar c) {                                           \
    return scalar::from_float(__saturatef(fmaf(a.to_float(), b.to_float(), c.to_float())));                 \
  }                                                                                                         \
  static inline bool __heq(scalar a, scalar b) { return a.to_float() == b.to_float(); }                     \
  static inline bool __hne(scalar a, scalar b) { return a.to_float() != b.to_float(); }                     \
  static inline bool __hlt(scalar a, scalar b) { return a.to_float() < b.to_float(); }                      \
  static inline bool __hle(scalar a, scalar b) { return a.to_float() <= b.to_float(); }                     \
  static inline bool __hgt(scalar a, scalar b) { return a.to_float() > b.to_float(); }                      \
  static inline bool __hge(scalar a, scalar b) { return a.to_float() >= b.to_float(); }                     \
  static inline int __hisinf(scalar a) { return std::isinf(a.to_float()) ? (a.to_float() > 0 ? 1 : -1) : 0; } \
  EMULATOR_UNARY(scalar, hexp, expf(v))                                                                     \
  EMULATOR_UNARY(scalar, hexp2, exp2f(v))                                                                   \
  EMULATOR_UNARY(scalar, hexp10, exp10f(v))                                                                 \
  EMULATOR_UNARY(scalar, hlog, logf(v))                                                                     \
  EMULATOR_UNARY(scalar, hlog2, log2f(v))                                                                   \
  EMULATOR_UNARY(scalar, hlog10, log10f(v))                                                                 \
  EMULATOR_UNARY(scalar, hsqrt, sqrtf(v))                                                                   \
  EMULATOR_UNARY(scalar, hrsqrt, 1.0f / sqrtf(v))                                                           \
  EMULATOR_UNARY(scalar, hrcp, 1.0f / v)                                                                    \
  EMULATOR_UNARY(scalar, hsin, sinf(v))                                                                     \
  EMULATOR_UNARY(scalar, hcos, cosf(v))                                                                     \
  EMULATOR_UNARY(scalar, htanh, tanhf(v))                                                                   \
  EMULATOR_UNARY(scalar, htanh_approx, tanhf(v))                                                            \
  EMULATOR_UNARY(scalar, hfloor, floorf(v))                                                                 \
  EMULATOR_UNARY(scalar, hceil, ceilf(v))                                                                   \
  EMULATOR_UNARY(scalar, hrint, nearbyintf(v))                                                              \
  EMULATOR_UNARY(scalar, htrunc, truncf(v))

#define EMULATOR_UNARY(scalar, name, expression) \
  static inline scalar name(scalar a) {          \
    const float v = a.to_float();                \
    return scalar::from_float(expression);       \
  }

#define EMULATOR_PAIRWISE(pair, name, function) \
  static inline pair name(pair a, pair b) { return {function(a.x, b.x), function(a.y, b.y)}; }
#define EMULATOR_PAIRWISE_UNARY(pair, name, function) \
  static inline pair name(pair a) { return {function(a.x), function(a.y)}; }

// One or zero for each half, and whether both hold.
template <class Scalar>
static inline Scalar emulator_one(Scalar, bool holds) {
  return Scalar::from_float(holds ? 1.0f : 0.0f);
}
#define EMULATOR_PAIRWISE_TEST(pair, test)                                                                        \
  static inline pair __h##test##2(pair a, pair b) {                                                               \
    return {emulator_one(a.x, __h##test(a.x, b.x)), emulator_one(a.y, __h##test(a.y, b.y))};                      \
  }                                                                                                               \
  static inline unsigned __h##test##2_mask(pair a, pair b) {                                                      \
    return (__h##test(a.x, b.x) ? 0xffffu : 0u) | (__h##test(a.y, b.y) ? 0xffff0000u : 0u);                       \
  }                                                                                                               \
  static inline bool __hb##test##2(pair a, pair b) { return __h##test(a.x, b.x) && __h##test(a.y, b.y); }

#define EMULATOR_PAIR_FUNCTIONS(pair)                                                     \
  EMULATOR_PAIRWISE(pair, __hadd2, __hadd)                                                \
  EMULATOR_PAIRWISE(pair, __hsub2, __hsub)                                                \
  EMULATOR_PAIRWISE(pair, __hmul2, __hmul)                                                \
  EMULATOR_PAIRWISE(pair, __h2div, __hdiv)                                                \
  EMULATOR_PAIRWISE(pair, __hadd2_rn, __hadd)                                             \
  EMULATOR_PAIRWISE(pair, __hsub2_rn, __hsub)                                             \
  EMULATOR_PAIRWISE(pair, __hmul2_rn, __hmul)                                             \
  EMULATOR_PAIRWISE(pair, __hmax2, __hmax)                                                \
  EMULATOR_PAIRWISE(pair, __hmin2, __hmin)                                                \
  EMULATOR_PAIRWISE_UNARY(pair, __hneg2, __hneg)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, __habs2, __habs)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, h2exp, hexp)                                              \
  EMULATOR_PAIRWISE_UNARY(pair, h2exp2, hexp2)                                            \
  EMULATOR_PAIRWISE_UNARY(pair, h2log, hlog)                                              \
  EMULATOR_PAIRWISE_UNARY(pair, h2log2, hlog2)                                            \
  EMULATOR_PAIRWISE_UNARY(pair, h2sqrt, hsqrt)                                            \
  EMULATOR_PAIRWISE_UNARY(pair, h2rsqrt, hrsqrt)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, h2rcp, hrcp)                                              \
  EMULATOR_PAIRWISE_UNARY(pair, h2sin, hsin)                                              \
  EMULATOR_PAIRWISE_UNARY(pair, h2cos, hcos)                                              \
  EMULATOR_PAIRWISE_UNARY(pair, h2tanh, htanh)                                            \
  EMULATOR_PAIRWISE_UNARY(pair, h2floor, hfloor)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, h2ceil, hceil)                                            \
  static inline pair __hfma2(pair a, pair b, pair c) {                                    \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                \
  }                                                                                       \
  static inline pair __hfma2_relu(pair a, pair b, pair c) {                               \
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};                      \
  }                                                                                       \
  static inline pair __hfma2_sat(pair a, pair b, pair c) {                                \
    return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)};                        \
  }                                                                                       \
  static inline pair __hcmadd(pair a, pair b, pair c) {                                   \
    const auto minus = __hneg(a.y);                                                       \
    return {__hfma(minus, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))}; \
  }                                                                                       \
  EMULATOR_PAIRWISE(pair, __hmax2_nan, __hmax_nan)                                        \
  EMULATOR_PAIRWISE(pair, __hmin2_nan, __hmin_nan)                                        \
  EMULATOR_PAIRWISE(pair, __hadd2_sat, __hadd_sat)                                        \
  EMULATOR_PAIRWISE(pair, __hsub2_sat, __hsub_sat)                                        \
  EMULATOR_PAIRWISE(pair, __hmul2_sat, __hmul_sat)                                        \
  EMULATOR_PAIRWISE_UNARY(pair, h2exp10, hexp10)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, h2log10, hlog10)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, h2rint, hrint)                                            \
  EMULATOR_PAIRWISE_UNARY(pair, h2trunc, htrunc)                                          \
  EMULATOR_PAIRWISE_UNARY(pair, h2tanh_approx, htanh_approx)                              \
  EMULATOR_PAIRWISE_TEST(pair, eq)                                                        \
  EMULATOR_PAIRWISE_TEST(pair, ne)                                                        \
  EMULATOR_PAIRWISE_TEST(pair, lt)                                                        \
  EMULATOR_PAIRWISE_TEST(pair, le)                                                        \
  EMULATOR_PAIRWISE_TEST(pair, gt)                                                        \
  EMULATOR_PAIRWISE_TEST(pair, ge)                                                        \
  static inline pair __hisnan2(pair a) { return {emulator_one(a.x, __hisnan(a.x)), emulator_one(a.y, __hisnan(a.y))}; }

EMULATOR_SCALAR_FUNCTIONS(__half)
EMULATOR_SCALAR_FUNCTIONS(__nv_bfloat16)
EMULATOR_PAIR_FUNCTIONS(__half2)
EMULATOR_PAIR_FUNCTIONS(__nv_bfloat162)
#ifndef __CUDA_NO_HALF2_OPERATORS__
EMULATOR_PAIR_OPERATORS(__half2)
#endif
#ifndef __CUDA_NO_BFLOAT162_OPERATORS__
EMULATOR_PAIR_OPERATORS(__nv_bfloat162)
#endif

#define EMULATOR_16BIT_ATOMIC(type, sum)                                                   \
  EMULATOR_UNSANITIZED static inline type emulator_add_plain(type* address, type value) {  \
    const type old = *address;                                                             \
    *address = sum(old, value);                                                            \
    return old;                                                                            \
  }                                                                                        \
  EMULATOR_INLINE type atomicAdd(type* address, type value) {                              \
    EMULATOR_NOTE_ATOMIC(address);                                                         \
    return emulator_add_plain(address, value);                                             \
  }
EMULATOR_16BIT_ATOMIC(__half, __hadd)
EMULATOR_16BIT_ATOMIC(__nv_bfloat16, __hadd)
EMULATOR_16BIT_ATOMIC(__half2, __hadd2)
EMULATOR_16BIT_ATOMIC(__nv_bfloat162, __hadd2)
#undef EMULATOR_16BIT_ATOMIC

EMULATOR_SHUFFLES(__half)
EMULATOR_SHUFFLES(__half2)
EMULATOR_SHUFFLES(__nv_bfloat16)
EMULATOR_SHUFFLES(__nv_bfloat162)

namespace emulator {
template <>
inline constexpr bool has_hinted_access<__half> = true;
template <>
inline constexpr bool has_hinted_access<__half2> = true;
template <>
inline constexpr bool has_hinted_access<__nv_bfloat16> = true;
template <>
inline constexpr bool has_hinted_access<__nv_bfloat162> = true;
}  // namespace emulator
