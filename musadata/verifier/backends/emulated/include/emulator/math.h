// CUDA's mathematical functions that the C library lacks. The fast ones take a device's steps, each rounded to float,
// which is where their error grows with the argument (CUDA C++ Programming Guide, "Intrinsic Functions"); what the
// device's units do within a step differs in the last bits only, and which bits is not defined.
#pragma once
#include <emulator/qualifiers.h>

#include <math.h>
#include <stdlib.h>

using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

// The C library has its own __expf and so on, declared or not; candidates must get ours.
#define __expf emulator_expf
#define __exp10f emulator_exp10f
#define __logf emulator_logf
#define __log2f emulator_log2f
#define __log10f emulator_log10f
#define __powf emulator_powf
#define __sinf emulator_sinf
#define __cosf emulator_cosf
#define __tanf emulator_tanf
#define __tanhf emulator_tanhf
#define __sincosf emulator_sincosf

static inline float __expf(float x) { return exp2f(x * 1.4426950408889634f); }
static inline float __exp10f(float x) { return exp2f(x * 3.3219280948873623f); }
static inline float __log2f(float x) { return log2f(x); }
static inline float __logf(float x) { return log2f(x) * 0.6931471805599453f; }
static inline float __log10f(float x) { return log2f(x) * 0.3010299956639812f; }
static inline float __powf(float x, float y) { return exp2f(y * log2f(x)); }
// An angle in turns, rounded towards zero: the units for sines take it so.
static inline double emulator_turns(float x) {
  const double exact = static_cast<double>(x) * 0.15915493667125701904;
  const float turns = static_cast<float>(exact);
  return fabs(turns) > fabs(exact) ? nextafterf(turns, 0.0f) : turns;
}
static inline float __sinf(float x) { return static_cast<float>(sin(2 * M_PI * emulator_turns(x))); }
static inline float __cosf(float x) { return static_cast<float>(cos(2 * M_PI * emulator_turns(x))); }
static inline float __tanf(float x) { return __sinf(x) / __cosf(x); }
// Wrong by up to 2^-11.
static inline float __tanhf(float x) {
  const float y = tanhf(x);
  uint32_t bits;
  __builtin_memcpy(&bits, &y, 4);
  bits = (bits + 0x1000) & ~0x1FFFu;
  float rounded;
  __builtin_memcpy(&rounded, &bits, 4);
  return y != y ? y : rounded;
}
static inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = __sinf(x);
  *cosine = __cosf(x);
}

// max and min for just these types: of others it is ambiguous which is meant. fmax's treatment of NaN, as on a device.
#define EMULATOR_EXTREMES(type, a_type, b_type)                                         \
  static inline type max(a_type a, b_type b) {                                \
    return static_cast<type>(a) > static_cast<type>(b) ? static_cast<type>(a) : static_cast<type>(b); \
  }                                                                                     \
  static inline type min(a_type a, b_type b) {                                \
    return static_cast<type>(a) < static_cast<type>(b) ? static_cast<type>(a) : static_cast<type>(b); \
  }
#define EMULATOR_INTEGER_EXTREMES(type)               \
  EMULATOR_EXTREMES(type, type, type)                 \
  EMULATOR_EXTREMES(unsigned type, unsigned type, unsigned type) \
  EMULATOR_EXTREMES(unsigned type, unsigned type, type) \
  EMULATOR_EXTREMES(unsigned type, type, unsigned type)
EMULATOR_INTEGER_EXTREMES(int)
EMULATOR_INTEGER_EXTREMES(long)
EMULATOR_INTEGER_EXTREMES(long long)
#undef EMULATOR_INTEGER_EXTREMES
#undef EMULATOR_EXTREMES
static inline float max(float a, float b) { return std::fmax(a, b); }
static inline float min(float a, float b) { return std::fmin(a, b); }
static inline double max(double a, double b) { return std::fmax(a, b); }
static inline double min(double a, double b) { return std::fmin(a, b); }
static inline double max(float a, double b) { return std::fmax(static_cast<double>(a), b); }
static inline double min(float a, double b) { return std::fmin(static_cast<double>(a), b); }
static inline double max(double a, float b) { return std::fmax(a, static_cast<double>(b)); }
static inline double min(double a, float b) { return std::fmin(a, static_cast<double>(b)); }
static inline int umax(unsigned a, unsigned b) { return a > b ? a : b; }
static inline int umin(unsigned a, unsigned b) { return a < b ? a : b; }

#define EMULATOR_PI 3.14159265358979323846

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline double rsqrt(int x) { return rsqrt(static_cast<double>(x)); }
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline double rcbrt(double x) { return 1.0 / cbrt(x); }
static inline float rhypotf(float x, float y) { return 1.0f / hypotf(x, y); }
static inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
static inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
static inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
static inline float norm4df(float a, float b, float c, float d) { return sqrtf(a * a + b * b + c * c + d * d); }
static inline float rnorm4df(float a, float b, float c, float d) { return 1.0f / norm4df(a, b, c, d); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
static inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }
static inline float erfcxf(float x) { return static_cast<float>(exp(double{x} * x) * erfc(double{x})); }
static inline double erfcx(double x) { return exp(x * x) * erfc(x); }

static inline double norm(int count, const double* x) {
  double sum = 0;
  for (int i = 0; i < count; i++) {
    sum += x[i] * x[i];
  }
  return sqrt(sum);
}
static inline float normf(int count, const float* x) {
  float sum = 0;
  for (int i = 0; i < count; i++) {
    sum += x[i] * x[i];
  }
  return sqrtf(sum);
}
static inline double rnorm(int count, const double* x) { return 1.0 / norm(count, x); }
static inline float rnormf(int count, const float* x) { return 1.0f / normf(count, x); }
static inline double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
static inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
static inline double norm4d(double a, double b, double c, double d) { return sqrt(a * a + b * b + c * c + d * d); }
static inline double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
static inline double cyl_bessel_i0(double x) { return std::cyl_bessel_i(0.0, x); }
static inline double cyl_bessel_i1(double x) { return std::cyl_bessel_i(1.0, x); }

// Inverse error function: Giles' approximation, then two steps of Newton's method.
static inline double erfinv(double x) {
  if (x <= -1.0 || x >= 1.0) {
    return x == 1.0 ? HUGE_VAL : x == -1.0 ? -HUGE_VAL : NAN;
  }
  const double w = log((1.0 - x) * (1.0 + x));
  const double a = 4.33074653 + w / 2;
  double y = copysign(sqrt(sqrt(a * a - w / 0.147) - a), x);
  for (int step = 0; step < 4; step++) {
    y -= (erf(y) - x) / (1.1283791670955126 * exp(-y * y));
  }
  return y;
}
static inline float erfinvf(float x) { return static_cast<float>(erfinv(x)); }
static inline double erfcinv(double x) { return erfinv(1.0 - x); }
static inline float erfcinvf(float x) { return static_cast<float>(erfcinv(x)); }
static inline double normcdfinv(double x) { return -1.41421356237309504880 * erfcinv(2.0 * x); }
static inline float normcdfinvf(float x) { return static_cast<float>(normcdfinv(x)); }

static inline float sinpif(float x) { return static_cast<float>(sin(fmod(double{x}, 2.0) * EMULATOR_PI)); }
static inline float cospif(float x) { return static_cast<float>(cos(fmod(double{x}, 2.0) * EMULATOR_PI)); }
static inline double sinpi(double x) { return sin(fmod(x, 2.0) * EMULATOR_PI); }
static inline double cospi(double x) { return cos(fmod(x, 2.0) * EMULATOR_PI); }
static inline void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}
static inline void sincospi(double x, double* sine, double* cosine) {
  *sine = sinpi(x);
  *cosine = cospi(x);
}
static inline float cyl_bessel_i0f(float x) { return static_cast<float>(std::cyl_bessel_i(0.0, double{x})); }
static inline float cyl_bessel_i1f(float x) { return static_cast<float>(std::cyl_bessel_i(1.0, double{x})); }
static inline float fdividef(float x, float y) { return x / y; }

static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x != x || x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }
static inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }

// Arithmetic with a rounding mode in its name. Round-to-nearest is exact; the directed modes differ in the last bit.
#define EMULATOR_ROUNDED(mode)                                                                  \
  static inline float __fadd_##mode(float a, float b) { return a + b; }                         \
  static inline float __fsub_##mode(float a, float b) { return a - b; }                         \
  static inline float __fmul_##mode(float a, float b) { return a * b; }                         \
  static inline float __fdiv_##mode(float a, float b) { return a / b; }                         \
  static inline float __fmaf_##mode(float a, float b, float c) { return fmaf(a, b, c); }        \
  static inline float __frcp_##mode(float a) { return 1.0f / a; }                               \
  static inline float __fsqrt_##mode(float a) { return sqrtf(a); }                              \
  static inline double __dadd_##mode(double a, double b) { return a + b; }                      \
  static inline double __dsub_##mode(double a, double b) { return a - b; }                      \
  static inline double __dmul_##mode(double a, double b) { return a * b; }                      \
  static inline double __ddiv_##mode(double a, double b) { return a / b; }                      \
  static inline double __fma_##mode(double a, double b, double c) { return fma(a, b, c); }      \
  static inline double __drcp_##mode(double a) { return 1.0 / a; }                              \
  static inline double __dsqrt_##mode(double a) { return sqrt(a); }
EMULATOR_ROUNDED(rn)
EMULATOR_ROUNDED(rz)
EMULATOR_ROUNDED(ru)
EMULATOR_ROUNDED(rd)
#undef EMULATOR_ROUNDED
