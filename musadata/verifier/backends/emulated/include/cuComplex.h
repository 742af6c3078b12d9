// Complex numbers in pairs.
#pragma once
#include <cuda_runtime.h>

typedef float2 cuFloatComplex;
static inline cuFloatComplex make_cuFloatComplex(float real, float imaginary) { return {real, imaginary}; }
static inline float cuCrealf(cuFloatComplex a) { return a.x; }
static inline float cuCimagf(cuFloatComplex a) { return a.y; }
static inline cuFloatComplex cuConjf(cuFloatComplex a) { return {a.x, -a.y}; }
static inline cuFloatComplex cuCaddf(cuFloatComplex a, cuFloatComplex b) { return {a.x + b.x, a.y + b.y}; }
static inline cuFloatComplex cuCsubf(cuFloatComplex a, cuFloatComplex b) { return {a.x - b.x, a.y - b.y}; }
static inline cuFloatComplex cuCmulf(cuFloatComplex a, cuFloatComplex b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
static inline cuFloatComplex cuCdivf(cuFloatComplex a, cuFloatComplex b) {
  const float scale = 1 / (std::abs(b.x) + std::abs(b.y));
  const float ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale;
  const float norm = 1 / (bx * bx + by * by);
  return {(ax * bx + ay * by) * norm, (ay * bx - ax * by) * norm};
}
static inline float cuCabsf(cuFloatComplex a) { return hypotf(a.x, a.y); }
static inline cuFloatComplex cuCfmaf(cuFloatComplex a, cuFloatComplex b, cuFloatComplex c) { return cuCaddf(cuCmulf(a, b), c); }

typedef double2 cuDoubleComplex;
static inline cuDoubleComplex make_cuDoubleComplex(double real, double imaginary) { return {real, imaginary}; }
static inline double cuCreal(cuDoubleComplex a) { return a.x; }
static inline double cuCimag(cuDoubleComplex a) { return a.y; }
static inline cuDoubleComplex cuConj(cuDoubleComplex a) { return {a.x, -a.y}; }
static inline cuDoubleComplex cuCadd(cuDoubleComplex a, cuDoubleComplex b) { return {a.x + b.x, a.y + b.y}; }
static inline cuDoubleComplex cuCsub(cuDoubleComplex a, cuDoubleComplex b) { return {a.x - b.x, a.y - b.y}; }
static inline cuDoubleComplex cuCmul(cuDoubleComplex a, cuDoubleComplex b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
static inline cuDoubleComplex cuCdiv(cuDoubleComplex a, cuDoubleComplex b) {
  const double scale = 1 / (std::abs(b.x) + std::abs(b.y));
  const double ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale;
  const double norm = 1 / (bx * bx + by * by);
  return {(ax * bx + ay * by) * norm, (ay * bx - ax * by) * norm};
}
static inline double cuCabs(cuDoubleComplex a) { return hypot(a.x, a.y); }
static inline cuDoubleComplex cuCfma(cuDoubleComplex a, cuDoubleComplex b, cuDoubleComplex c) { return cuCadd(cuCmul(a, b), c); }

typedef cuFloatComplex cuComplex;
static inline cuComplex make_cuComplex(float real, float imaginary) { return {real, imaginary}; }
static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return {a.x, a.y}; }
static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
  return {static_cast<float>(a.x), static_cast<float>(a.y)};
}
