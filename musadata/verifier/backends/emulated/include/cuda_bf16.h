// bfloat16: types and arithmetic are in emulator/half_types.h, conversions here.
#pragma once
#include <emulator/half_types.h>

static inline float __bfloat162float(__nv_bfloat16 h) { return h.to_float(); }
static inline __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16::from_float(f); }
static inline __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16::from_float(f); }
static inline __nv_bfloat16 __double2bfloat16(double d) { return __nv_bfloat16::from_float(static_cast<float>(d)); }
static inline __nv_bfloat16 __int2bfloat16_rn(int i) { return __nv_bfloat16::from_float(static_cast<float>(i)); }
static inline __nv_bfloat16 __uint2bfloat16_rn(unsigned i) { return __nv_bfloat16::from_float(static_cast<float>(i)); }
static inline __nv_bfloat16 __short2bfloat16_rn(short i) { return __nv_bfloat16::from_float(i); }
static inline __nv_bfloat16 __ushort2bfloat16_rn(unsigned short i) { return __nv_bfloat16::from_float(i); }
static inline __nv_bfloat16 __ll2bfloat16_rn(long long i) { return __nv_bfloat16::from_float(static_cast<float>(i)); }
static inline int __bfloat162int_rz(__nv_bfloat16 h) { return __float2int_rz(h.to_float()); }
static inline int __bfloat162int_rd(__nv_bfloat16 h) { return __float2int_rd(h.to_float()); }
static inline int __bfloat162int_ru(__nv_bfloat16 h) { return __float2int_ru(h.to_float()); }
static inline unsigned __bfloat162uint_rn(__nv_bfloat16 h) { return __float2uint_rn(h.to_float()); }
static inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 h) { return {h.x, h.x}; }
static inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 h) { return {h.y, h.y}; }
static inline __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 h) { return {h.y, h.x}; }
static inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
static inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
static inline short __bfloat16_as_short(__nv_bfloat16 h) { return static_cast<short>(h.bits); }
static inline int __bfloat162int_rn(__nv_bfloat16 h) { return __float2int_rn(h.to_float()); }
static inline float __low2float(__nv_bfloat162 h) { return h.x.to_float(); }
static inline float __high2float(__nv_bfloat162 h) { return h.y.to_float(); }
static inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 h) { return h.x; }
static inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 h) { return h.y; }
static inline float2 __bfloat1622float2(__nv_bfloat162 h) { return {h.x.to_float(), h.y.to_float()}; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {__float2bfloat16(a), __float2bfloat16(b)};
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 f) { return __floats2bfloat162_rn(f.x, f.y); }
static inline __nv_bfloat162 __float2bfloat162_rn(float a) { return __floats2bfloat162_rn(a, a); }
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
static inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
