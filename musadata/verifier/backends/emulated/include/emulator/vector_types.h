// float4 and its relatives, with CUDA's sizes and alignments.
#pragma once

#define EMULATOR_VECTOR(type, name, align2, align4)                                                   \
  struct name##1 {                                                                                    \
    type x;                                                                                           \
  };                                                                                                  \
  struct alignas(align2) name##2 {                                                                    \
    type x, y;                                                                                        \
  };                                                                                                  \
  struct name##3 {                                                                                    \
    type x, y, z;                                                                                     \
  };                                                                                                  \
  struct alignas(align4) name##4 {                                                                    \
    type x, y, z, w;                                                                                  \
  };                                                                                                  \
  EMULATOR_MAKE_VECTOR(type, name)                                                                    \
  static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }

#define EMULATOR_MAKE_VECTOR(type, name)                                                              \
  static inline name##1 make_##name##1(type x) { return {x}; }                                        \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                             \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

EMULATOR_VECTOR(signed char, char, 2, 4)
EMULATOR_VECTOR(unsigned char, uchar, 2, 4)
EMULATOR_VECTOR(short, short, 4, 8)
EMULATOR_VECTOR(unsigned short, ushort, 4, 8)
EMULATOR_VECTOR(int, int, 8, 16)
EMULATOR_VECTOR(long, long, 16, 16)
EMULATOR_VECTOR(unsigned long, ulong, 16, 16)
EMULATOR_VECTOR(long long, longlong, 16, 16)
EMULATOR_VECTOR(unsigned long long, ulonglong, 16, 16)
EMULATOR_VECTOR(float, float, 8, 16)
EMULATOR_VECTOR(double, double, 16, 16)

// uint3 is the built-in variables' type and lives in runtime.h.
struct uint1 {
  unsigned x;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
EMULATOR_MAKE_VECTOR(unsigned, uint)
static inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

#undef EMULATOR_VECTOR
#undef EMULATOR_MAKE_VECTOR
