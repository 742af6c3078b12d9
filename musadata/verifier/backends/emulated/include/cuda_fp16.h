// Half precision: types and arithmetic are in emulator/half_types.h, conversions here.
#pragma once
#include <emulator/half_types.h>

static inline float __half2float(__half h) { return h.to_float(); }
static inline __half __float2half(float f) { return __half::from_float(f); }
static inline __half __float2half_rn(float f) { return __half::from_float(f); }
static inline __half __float2half_rz(float f) { return __half::from_float(f); }
static inline __half __double2half(double d) { return __half::from_float(static_cast<float>(d)); }
static inline float __low2float(__half2 h) { return h.x.to_float(); }
static inline float __high2float(__half2 h) { return h.y.to_float(); }
static inline __half __low2half(__half2 h) { return h.x; }
static inline __half __high2half(__half2 h) { return h.y; }
static inline __half2 __low2half2(__half2 h) { return {h.x, h.x}; }
static inline __half2 __high2half2(__half2 h) { return {h.y, h.y}; }
static inline __half2 __lowhigh2highlow(__half2 h) { return {h.y, h.x}; }
static inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
static inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
static inline float2 __half22float2(__half2 h) { return {h.x.to_float(), h.y.to_float()}; }
static inline __half2 __float22half2_rn(float2 f) { return {__float2half(f.x), __float2half(f.y)}; }
static inline __half2 __floats2half2_rn(float a, float b) { return {__float2half(a), __float2half(b)}; }
static inline __half2 __float2half2_rn(float a) { return __floats2half2_rn(a, a); }
static inline __half2 __half2half2(__half a) { return {a, a}; }
static inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
static inline __half2 make_half2(__half a, __half b) { return {a, b}; }
static inline unsigned short __half_as_ushort(__half h) { return h.bits; }
static inline short __half_as_short(__half h) { return static_cast<short>(h.bits); }
static inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
static inline __half __short_as_half(short bits) { return __ushort_as_half(static_cast<unsigned short>(bits)); }

#define EMULATOR_FROM_INTEGER(type, name) \
  static inline __half __##name##2half_rn(type value) { return __half::from_float(static_cast<float>(value)); }
EMULATOR_FROM_INTEGER(int, int)
EMULATOR_FROM_INTEGER(unsigned, uint)
EMULATOR_FROM_INTEGER(short, short)
EMULATOR_FROM_INTEGER(unsigned short, ushort)
EMULATOR_FROM_INTEGER(long long, ll)
#undef EMULATOR_FROM_INTEGER
static inline int __half2int_rn(__half h) { return __float2int_rn(h.to_float()); }
static inline int __half2int_rz(__half h) { return __float2int_rz(h.to_float()); }
static inline int __half2int_rd(__half h) { return __float2int_rd(h.to_float()); }
static inline int __half2int_ru(__half h) { return __float2int_ru(h.to_float()); }
static inline short __half2short_rn(__half h) { return static_cast<short>(__float2int_rn(h.to_float())); }
static inline short __half2short_rz(__half h) { return static_cast<short>(__float2int_rz(h.to_float())); }
static inline long long __half2ll_rn(__half h) { return __float2ll_rn(h.to_float()); }
static inline unsigned __half2uint_rz(__half h) { return __float2uint_rz(h.to_float()); }
static inline unsigned __half2uint_rn(__half h) { return __float2uint_rn(h.to_float()); }

#define CUDART_INF_FP16 __ushort_as_half(0x7C00U)
#define CUDART_NAN_FP16 __ushort_as_half(0x7FFFU)
#define CUDART_ONE_FP16 __ushort_as_half(0x3C00U)
#define CUDART_ZERO_FP16 __ushort_as_half(0x0000U)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(0x7BFFU)
