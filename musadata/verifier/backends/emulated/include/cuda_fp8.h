// Numbers of eight bits, E4M3 and E5M2: conversions round to nearest even, as compute capability 9.0 does.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace emulator {

struct Fp8Format {
  int mantissa_bits, bias;
  unsigned largest, infinity;  // infinity: what an overflow becomes that does not saturate
};
inline Fp8Format fp8_format(__nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? Fp8Format{3, 7, 0x7e, 0x7f} : Fp8Format{2, 15, 0x7b, 0x7c};
}

inline __nv_fp8_storage_t to_fp8(double value, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
  if (std::isnan(value)) {
    return 0x7f;
  }
  const Fp8Format format = fp8_format(kind);
  const double size = std::fabs(value);
  unsigned bits = 0x80;  // more than every number
  if (size < 65536) {
    const int exponent = size == 0 ? 1 - format.bias : std::max(std::ilogb(size), 1 - format.bias);
    // The implicit bit of a normal number adds one to the exponent's field, which counts from one for that reason.
    bits = static_cast<unsigned>(std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
    bits += static_cast<unsigned>(exponent + format.bias - 1) << format.mantissa_bits;
  }
  if (bits > format.largest) {
    bits = saturate == __NV_SATFINITE ? format.largest : format.infinity;
  }
  return static_cast<__nv_fp8_storage_t>(bits | (std::signbit(value) ? 0x80 : 0));
}

inline float from_fp8(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
  if (kind == __NV_E5M2) {  // the upper half of a half
    return half_to_float((bits & 0x7f) > 0x7c ? 0x7fff : static_cast<unsigned short>(bits << 8));
  }
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float size = (bits & 0x7f) == 0x7f ? half_to_float(0x7fff)
                     : exponent == 0       ? std::ldexp(static_cast<float>(mantissa), -9)
                                           : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 && size == size ? -size : size;
}

inline __nv_fp8x2_storage_t pair_of(__nv_fp8_storage_t low, __nv_fp8_storage_t high) {
  return static_cast<__nv_fp8x2_storage_t>(low | high << 8);
}

}  // namespace emulator

static inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                        __nv_fp8_interpretation_t kind) {
  return emulator::to_fp8(x, saturate, kind);
}
static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t kind) {
  return emulator::to_fp8(x, saturate, kind);
}
static inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                         __nv_fp8_interpretation_t kind) {
  return emulator::to_fp8(emulator::half_to_float(x.x), saturate, kind);
}
static inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate,
                                                             __nv_fp8_interpretation_t kind) {
  return emulator::to_fp8(emulator::bfloat16_to_float(x.x), saturate, kind);
}
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  return {emulator::float_to_half(emulator::from_fp8(x, kind))};
}

#define EMULATOR_PAIR_TO_FP8(name, type, one)                                                                  \
  static inline __nv_fp8x2_storage_t __nv_cvt_##name##_to_fp8x2(type x, __nv_saturation_t saturate,            \
                                                                __nv_fp8_interpretation_t kind) {              \
    return emulator::pair_of(one(x.x), one(x.y));                                                              \
  }
EMULATOR_PAIR_TO_FP8(double2, double2, [=](double v) { return emulator::to_fp8(v, saturate, kind); })
EMULATOR_PAIR_TO_FP8(float2, float2, [=](float v) { return emulator::to_fp8(v, saturate, kind); })
EMULATOR_PAIR_TO_FP8(halfraw2, __half2_raw, [=](unsigned short v) {
  return emulator::to_fp8(emulator::half_to_float(v), saturate, kind);
})
EMULATOR_PAIR_TO_FP8(bfloat16raw2, __nv_bfloat162_raw, [=](unsigned short v) {
  return emulator::to_fp8(emulator::bfloat16_to_float(v), saturate, kind);
})
#undef EMULATOR_PAIR_TO_FP8
static inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(x & 0xff, kind).x, __nv_cvt_fp8_to_halfraw(x >> 8, kind).x};
}

#define EMULATOR_FP8_TYPE(name, kind)                                                                          \
  struct alignas(1) __nv_fp8_##name {                                                                          \
    __nv_fp8_storage_t __x;                                                                                    \
    __nv_fp8_##name() = default;                                                                               \
    template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>                                     \
    explicit __nv_fp8_##name(T f) : __x(emulator::to_fp8(static_cast<double>(f), __NV_SATFINITE, kind)) {}     \
    explicit __nv_fp8_##name(__half f) : __x(emulator::to_fp8(f.to_float(), __NV_SATFINITE, kind)) {}          \
    explicit __nv_fp8_##name(__nv_bfloat16 f) : __x(emulator::to_fp8(f.to_float(), __NV_SATFINITE, kind)) {}   \
    explicit operator __half() const { return __half::from_float(emulator::from_fp8(__x, kind)); }             \
    explicit operator __nv_bfloat16() const { return __nv_bfloat16::from_float(emulator::from_fp8(__x, kind)); } \
    explicit operator float() const { return emulator::from_fp8(__x, kind); }                                  \
    explicit operator double() const { return emulator::from_fp8(__x, kind); }                                 \
    explicit operator bool() const { return (__x & 0x7f) != 0; }                                               \
  };                                                                                                           \
  struct alignas(2) __nv_fp8x2_##name {                                                                        \
    __nv_fp8x2_storage_t __x;                                                                                  \
    __nv_fp8x2_##name() = default;                                                                             \
    explicit __nv_fp8x2_##name(float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, kind)) {}           \
    explicit __nv_fp8x2_##name(double2 f) : __x(__nv_cvt_double2_to_fp8x2(f, __NV_SATFINITE, kind)) {}         \
    explicit __nv_fp8x2_##name(__half2 f) : __x(__nv_cvt_halfraw2_to_fp8x2(f, __NV_SATFINITE, kind)) {}        \
    explicit __nv_fp8x2_##name(__nv_bfloat162 f)                                                               \
        : __x(__nv_cvt_bfloat16raw2_to_fp8x2(f, __NV_SATFINITE, kind)) {}                                      \
    explicit operator float2() const {                                                                         \
      return {emulator::from_fp8(__x & 0xff, kind), emulator::from_fp8(__x >> 8, kind)};                       \
    }                                                                                                          \
    explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, kind); }                        \
  };                                                                                                           \
  struct alignas(4) __nv_fp8x4_##name {                                                                        \
    __nv_fp8x4_storage_t __x;                                                                                  \
    __nv_fp8x4_##name() = default;                                                                             \
    explicit __nv_fp8x4_##name(float4 f)                                                                       \
        : __x(__nv_cvt_float2_to_fp8x2({f.x, f.y}, __NV_SATFINITE, kind) |                                     \
              static_cast<unsigned>(__nv_cvt_float2_to_fp8x2({f.z, f.w}, __NV_SATFINITE, kind)) << 16) {}      \
    __nv_fp8x4_##name(__half2 low, __half2 high)                                                               \
        : __x(__nv_cvt_halfraw2_to_fp8x2(low, __NV_SATFINITE, kind) |                                          \
              static_cast<unsigned>(__nv_cvt_halfraw2_to_fp8x2(high, __NV_SATFINITE, kind)) << 16) {}          \
    explicit operator float4() const {                                                                         \
      return {emulator::from_fp8(__x & 0xff, kind), emulator::from_fp8(__x >> 8 & 0xff, kind),                 \
              emulator::from_fp8(__x >> 16 & 0xff, kind), emulator::from_fp8(__x >> 24, kind)};                \
    }                                                                                                          \
  };
EMULATOR_FP8_TYPE(e4m3, __NV_E4M3)
EMULATOR_FP8_TYPE(e5m2, __NV_E5M2)
#undef EMULATOR_FP8_TYPE
