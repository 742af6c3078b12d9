// c10::Half and c10::BFloat16: storage types with arithmetic in float, usable in kernels.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch_abi/core.h>

namespace c10 {

#define TORCH_ABI_16BIT(name, native, from_float, to_float, how)                                         \
  struct alignas(2) name {                                                                               \
    unsigned short x;                                                                                    \
    struct from_bits_t {};                                                                               \
    static constexpr C10_HOST_DEVICE from_bits_t from_bits() { return from_bits_t(); }                   \
    name() = default;                                                                                    \
    constexpr C10_HOST_DEVICE name(unsigned short bits, from_bits_t) : x(bits) {}                        \
    C10_HOST_DEVICE name(float value) {                                                                  \
      const native converted = from_float(value);                                                        \
      memcpy(&x, &converted, 2);                                                                         \
    }                                                                                                    \
    TORCH_ABI_FROM_NATIVE(name, native, how)                                                             \
    C10_HOST_DEVICE operator float() const {                                                             \
      native converted;                                                                                  \
      memcpy(&converted, &x, 2);                                                                         \
      return to_float(converted);                                                                        \
    }                                                                                                    \
  };                                                                                                     \
  C10_HOST_DEVICE inline name operator-(const name& a) { return name(-static_cast<float>(a)); }          \
  TORCH_ABI_16BIT_OPERATOR(name, +)                                                                      \
  TORCH_ABI_16BIT_OPERATOR(name, -)                                                                      \
  TORCH_ABI_16BIT_OPERATOR(name, *)                                                                      \
  TORCH_ABI_16BIT_OPERATOR(name, /)

// Mixed with another type the result is what PyTorch's own operators give.
#define TORCH_ABI_16BIT_OPERATOR(name, op)                                                               \
  C10_HOST_DEVICE inline name operator op(const name& a, const name& b) {                                \
    return name(static_cast<float>(a) op static_cast<float>(b));                                         \
  }                                                                                                      \
  C10_HOST_DEVICE inline name& operator op##=(name & a, const name& b) { return a = a op b; }            \
  C10_HOST_DEVICE inline float operator op(name a, float b) { return static_cast<float>(a) op b; }       \
  C10_HOST_DEVICE inline float operator op(float a, name b) { return a op static_cast<float>(b); }       \
  C10_HOST_DEVICE inline float& operator op##=(float& a, const name& b) { return a = a op static_cast<float>(b); } \
  C10_HOST_DEVICE inline double operator op(name a, double b) { return static_cast<double>(static_cast<float>(a)) op b; } \
  C10_HOST_DEVICE inline double operator op(double a, name b) { return a op static_cast<double>(static_cast<float>(b)); } \
  C10_HOST_DEVICE inline name operator op(name a, int b) { return a op name(static_cast<float>(b)); }    \
  C10_HOST_DEVICE inline name operator op(int a, name b) { return name(static_cast<float>(a)) op b; }    \
  C10_HOST_DEVICE inline name operator op(name a, int64_t b) { return a op name(static_cast<float>(b)); } \
  C10_HOST_DEVICE inline name operator op(int64_t a, name b) { return name(static_cast<float>(a)) op b; }

#ifdef __CUDACC__
// As in PyTorch's: explicit for bfloat16, whose own comparisons are others.
#define TORCH_ABI_FROM_NATIVE(name, native, how)                     \
  C10_HOST_DEVICE name(const native& value) { memcpy(&x, &value, 2); } \
  how C10_HOST_DEVICE operator native() const {                      \
    native value;                                                    \
    memcpy(&value, &x, 2);                                           \
    return value;                                                    \
  }
#else
#define TORCH_ABI_FROM_NATIVE(name, native, how)  // the emulation's native types convert on their own side
#endif

TORCH_ABI_16BIT(Half, __half, __float2half, __half2float, )
TORCH_ABI_16BIT(BFloat16, __nv_bfloat16, __float2bfloat16, __bfloat162float, explicit)

#ifdef __CUDACC__
#define TORCH_ABI_LDG(name)                                                                    \
  __device__ inline name __ldg(const name* address) {                                          \
    return name(::__ldg(reinterpret_cast<const unsigned short*>(address)), name::from_bits()); \
  }
TORCH_ABI_LDG(Half)
TORCH_ABI_LDG(BFloat16)
#undef TORCH_ABI_LDG
#endif

#ifndef TORCH_ABI_REDUCED
inline std::ostream& operator<<(std::ostream& stream, const Half& value) { return stream << static_cast<float>(value); }
inline std::ostream& operator<<(std::ostream& stream, const BFloat16& value) {
  return stream << static_cast<float>(value);
}
#endif

template <class T>
struct CppTypeToScalarType;
template <ScalarType dtype>
struct ScalarTypeToCPPType;
#define TORCH_ABI_DTYPE(type, dtype)                                        \
  template <>                                                               \
  struct CppTypeToScalarType<type> {                                        \
    static constexpr ScalarType value = ScalarType::dtype;                  \
  };                                                                        \
  template <>                                                               \
  struct ScalarTypeToCPPType<ScalarType::dtype> {                           \
    using type_ = type;                                                     \
  };
TORCH_ABI_DTYPE(uint8_t, Byte)
TORCH_ABI_DTYPE(int8_t, Char)
TORCH_ABI_DTYPE(int16_t, Short)
TORCH_ABI_DTYPE(int, Int)
TORCH_ABI_DTYPE(int64_t, Long)
TORCH_ABI_DTYPE(Half, Half)
TORCH_ABI_DTYPE(float, Float)
TORCH_ABI_DTYPE(double, Double)
TORCH_ABI_DTYPE(bool, Bool)
TORCH_ABI_DTYPE(BFloat16, BFloat16)
TORCH_ABI_DTYPE(uint16_t, UInt16)
TORCH_ABI_DTYPE(uint32_t, UInt32)
TORCH_ABI_DTYPE(uint64_t, UInt64)
#undef TORCH_ABI_DTYPE
template <>
struct CppTypeToScalarType<long long> {
  static constexpr ScalarType value = ScalarType::Long;
};

}  // namespace c10

namespace std {
template <>
struct numeric_limits<c10::Half> {
  static constexpr bool is_specialized = true;
  static constexpr C10_HOST_DEVICE c10::Half bits(unsigned short x) { return c10::Half(x, c10::Half::from_bits()); }
  static constexpr C10_HOST_DEVICE c10::Half epsilon() { return bits(0x1400); }
  static constexpr C10_HOST_DEVICE c10::Half infinity() { return bits(0x7C00); }
  static constexpr C10_HOST_DEVICE c10::Half lowest() { return bits(0xFBFF); }
  static constexpr C10_HOST_DEVICE c10::Half max() { return bits(0x7BFF); }
  static constexpr C10_HOST_DEVICE c10::Half min() { return bits(0x0400); }
  static constexpr C10_HOST_DEVICE c10::Half quiet_NaN() { return bits(0x7E00); }
};
template <>
struct numeric_limits<c10::BFloat16> {
  static constexpr bool is_specialized = true;
  static constexpr C10_HOST_DEVICE c10::BFloat16 bits(unsigned short x) {
    return c10::BFloat16(x, c10::BFloat16::from_bits());
  }
  static constexpr C10_HOST_DEVICE c10::BFloat16 epsilon() { return bits(0x3C00); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 infinity() { return bits(0x7F80); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 lowest() { return bits(0xFF7F); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 max() { return bits(0x7F7F); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 min() { return bits(0x0080); }
  static constexpr C10_HOST_DEVICE c10::BFloat16 quiet_NaN() { return bits(0x7FC0); }
};
}  // namespace std

namespace at {
using namespace c10;
using c10::nullopt;

template <class T, bool is_cuda = true>
struct AccumulateType {
  using type = T;
};
template <>
struct AccumulateType<Half, true> {
  using type = float;
};
template <>
struct AccumulateType<BFloat16, true> {
  using type = float;
};
template <class T, bool is_cuda>
using acc_type = typename AccumulateType<T, true>::type;

template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;

#define TORCH_ABI_DTYPE_CONSTANT(name) constexpr ScalarType k##name = ScalarType::name;
TORCH_ABI_DTYPE_CONSTANT(Byte)
TORCH_ABI_DTYPE_CONSTANT(Char)
TORCH_ABI_DTYPE_CONSTANT(Short)
TORCH_ABI_DTYPE_CONSTANT(Int)
TORCH_ABI_DTYPE_CONSTANT(Long)
TORCH_ABI_DTYPE_CONSTANT(Half)
TORCH_ABI_DTYPE_CONSTANT(Float)
TORCH_ABI_DTYPE_CONSTANT(Double)
TORCH_ABI_DTYPE_CONSTANT(Bool)
TORCH_ABI_DTYPE_CONSTANT(BFloat16)
#undef TORCH_ABI_DTYPE_CONSTANT
}  // namespace at

namespace torch {
constexpr c10::ScalarType kUInt8 = c10::ScalarType::Byte, kInt8 = c10::ScalarType::Char;
constexpr c10::ScalarType kInt16 = c10::ScalarType::Short, kInt32 = c10::ScalarType::Int;
constexpr c10::ScalarType kInt64 = c10::ScalarType::Long, kFloat16 = c10::ScalarType::Half;
constexpr c10::ScalarType kFloat32 = c10::ScalarType::Float, kFloat64 = c10::ScalarType::Double;
constexpr c10::ScalarType kU8 = kUInt8, kI8 = kInt8, kI16 = kInt16, kI32 = kInt32, kI64 = kInt64;
constexpr c10::ScalarType kF16 = kFloat16, kF32 = kFloat32, kF64 = kFloat64;
}  // namespace torch
