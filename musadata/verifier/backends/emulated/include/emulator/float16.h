// Bit patterns of IEEE half precision and bfloat16 to float and back, rounding to nearest even.
#pragma once
#include <cstdint>
#include <cstring>

namespace emulator {

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  uint32_t bits;
  float result;
  if (magnitude >= 0x7c00) {
    bits = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
  } else if (magnitude >= 0x400) {
    bits = sign | ((magnitude << 13) + ((127 - 15) << 23));
  } else {
    result = static_cast<float>(magnitude) * 5.9604644775390625e-8f;  // subnormal: multiples of 2^-24
    memcpy(&bits, &result, 4);
    bits |= sign;
  }
  memcpy(&result, &bits, 4);
  return result;
}

inline uint16_t float_to_half(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) {
    return sign | 0x7fff;
  }
  if (bits >= 0x477ff000) {  // rounds to 65536 or more
    return sign | 0x7c00;
  }
  if (bits < 0x38800000) {  // subnormal: let the addition of 0.5 round at 2^-24
    float magic;
    memcpy(&magic, &bits, 4);
    magic += 0.5f;
    uint32_t rounded;
    memcpy(&rounded, &magic, 4);
    return static_cast<uint16_t>(sign | (rounded - 0x3f000000));
  }
  const uint32_t odd = bits >> 13 & 1;
  return static_cast<uint16_t>(sign | ((bits - ((127 - 15) << 23) + 0xfff + odd) >> 13));
}

inline float bfloat16_to_float(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  memcpy(&result, &bits, 4);
  return result;
}

inline uint16_t float_to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fff;
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace emulator
