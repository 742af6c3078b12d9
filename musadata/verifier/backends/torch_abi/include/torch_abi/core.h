// c10's small types: errors, dtypes, devices, array references.
#pragma once
#include <torch_abi/abi.h>

#include <array>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// What candidates may use because PyTorch's headers include it; cuda/reduced_prelude.py leaves it out for the others.
#ifndef TORCH_ABI_REDUCED
#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#endif

#ifdef __CUDACC__
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_LIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define C10_UNUSED __attribute__((unused))
#define C10_RESTRICT __restrict
#define C10_API
#define TORCH_API
#define C10_EXPORT
#define C10_WARP_SIZE 32

// In these headers, what is no template is declared, and defined in csrc/support/: defined here it would be compiled
// again with every candidate, and host code that is inlined everywhere was most of what a candidate's compilation took.

namespace c10 {
enum class ScalarType : int8_t;
template <class T>
class ArrayRef;
using IntArrayRef = ArrayRef<int64_t>;
}  // namespace c10

namespace torch_abi {

struct Error : std::runtime_error {
  ErrorKind kind;
  explicit Error(const std::string& text, ErrorKind kind = ErrorKind::kRuntime);
  Error(const Error&) noexcept;
  ~Error() override;
  const char* what_without_backtrace() const;
  std::string msg() const;
};

// A piece of a message, by reference: it becomes text only when the message is needed.
class Part {
 public:
  Part(const char* text) noexcept;
  Part(const std::string& text) noexcept;
  Part(int64_t number) noexcept;
  Part(int number) noexcept;
  Part(unsigned number) noexcept;
  Part(size_t number) noexcept;
  Part(long long number) noexcept;
  Part(bool number) noexcept;
  Part(double number) noexcept;
  Part(float number) noexcept;
  Part(char character) noexcept;
  Part(c10::ScalarType dtype) noexcept;
  Part(const c10::IntArrayRef& list) noexcept;
  template <class T>
  Part(const T& value) noexcept : Part(&value, &print<T>) {}
  void append_to(std::string& text) const;

 private:
  enum class Kind { kText, kString, kInteger, kReal, kCharacter, kPrinted };
  using Print = void (*)(std::ostream& stream, const void* value);
  template <class T>
  static void print(std::ostream& stream, const void* value) {
    stream << *static_cast<const T*>(value);
  }
  Part(const void* value, Print print) noexcept;

  Kind kind_;
  Print print_ = nullptr;
  union {
    const void* value_;
    int64_t integer_;
    double real_;
  };
};

std::string text(std::initializer_list<Part> parts);
[[noreturn]] void throw_error(std::initializer_list<Part> parts, ErrorKind kind = ErrorKind::kRuntime);
// TORCH_CHECK's: without parts the message is what PyTorch says where there is none.
[[noreturn]] void throw_check(ErrorKind kind, const char* condition, std::initializer_list<Part> parts);
void warn(std::initializer_list<Part> parts);

}  // namespace torch_abi

namespace c10 {

using Error = torch_abi::Error;
template <class T>
using optional = std::optional<T>;
using std::nullopt;
using std::nullopt_t;
using std::make_optional;

template <class... Parts>
std::string str(const Parts&... parts) {
  return torch_abi::text({torch_abi::Part(parts)...});
}

// The values are PyTorch's own.
enum class ScalarType : int8_t {
  Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8,
  QInt32, BFloat16, QUInt4x2, QUInt2x4, Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16, Float8_e5m2, Float8_e4m3fn,
  Float8_e5m2fnuz, Float8_e4m3fnuz, UInt16, UInt32, UInt64, Undefined = 44
};
enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 14 };
enum class Layout : int8_t { Strided, Sparse };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
using DeviceIndex = int8_t;

constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr Layout kStrided = Layout::Strided;

const char* toString(ScalarType dtype);
std::ostream& operator<<(std::ostream& stream, ScalarType dtype);
size_t elementSize(ScalarType dtype);
bool isFloatingType(ScalarType dtype);
bool isIntegralType(ScalarType dtype, bool with_bool);
bool isComplexType(ScalarType dtype);
inline ScalarType typeMetaToScalarType(ScalarType dtype) { return dtype; }

struct Device {
  Device(DeviceType type, int index = -1) : type_(type), index_(index) {}
  Device(const std::string& text);
  Device(const char* text);
  DeviceType type() const { return type_; }
  DeviceIndex index() const { return static_cast<DeviceIndex>(index_); }
  bool has_index() const { return index_ >= 0; }
  bool is_cuda() const { return type_ == kCUDA; }
  bool is_cpu() const { return type_ == kCPU; }
  bool is_meta() const { return type_ == DeviceType::Meta; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const;

 private:
  DeviceType type_;
  int index_;
};
std::ostream& operator<<(std::ostream& stream, const Device& device);
std::ostream& operator<<(std::ostream& stream, DeviceType type);

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  constexpr ArrayRef() : data_(nullptr), size_(0) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(end - begin) {}
  ArrayRef(const T& one) : data_(&one), size_(1) {}
  ArrayRef(const std::vector<T>& values) : data_(values.data()), size_(values.size()) {}
  ArrayRef(const std::initializer_list<T>& values) : data_(values.begin()), size_(values.size()) {}
  template <size_t N>
  ArrayRef(const std::array<T, N>& values) : data_(values.data()), size_(N) {}
  template <size_t N>
  ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return data_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& front() const { return data_[0]; }
  const T& back() const { return data_[size_ - 1]; }
  const T& operator[](size_t index) const { return data_[index]; }
  const T& at(size_t index) const {
    if (index >= size_) {
      torch_abi::throw_error({"ArrayRef: invalid index Index = ", index, "; Length = ", size_});
    }
    return data_[index];
  }
  ArrayRef slice(size_t start) const { return {data_ + start, size_ - start}; }
  ArrayRef slice(size_t start, size_t count) const { return {data_ + start, count}; }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef other) const { return size_ == other.size_ && std::equal(begin(), end(), other.begin()); }

 private:
  const T* data_;
  size_t size_;
};
template <class T>
bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
template <class T>
bool operator==(ArrayRef<T> a, const std::vector<T>& b) {
  return a.equals(b);
}
#ifndef TORCH_ABI_REDUCED
template <class T>
std::ostream& operator<<(std::ostream& stream, ArrayRef<T> values) {
  stream << "[";
  for (size_t i = 0; i < values.size(); i++) {
    stream << (i == 0 ? "" : ", ") << values[i];
  }
  return stream << "]";
}
#endif
std::ostream& operator<<(std::ostream& stream, IntArrayRef values);

// A number whose type is known at run time.
class Scalar {
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      value_.tag = torch_abi::Tag::kBool;
    } else {
      value_.tag = std::is_floating_point_v<T> ? torch_abi::Tag::kDouble : torch_abi::Tag::kInt;
    }
    value_.integer = static_cast<int64_t>(value);
    value_.real = static_cast<double>(value);
  }
  explicit Scalar(const torch_abi::Value& value) : value_(value) {}
  template <class T>
  T to() const {
    return isFloatingPoint() ? static_cast<T>(value_.real) : static_cast<T>(value_.integer);
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to<double>() != 0; }
  bool isFloatingPoint() const { return value_.tag == torch_abi::Tag::kDouble; }
  bool isIntegral(bool include_bool = false) const {
    return value_.tag == torch_abi::Tag::kInt || (include_bool && value_.tag == torch_abi::Tag::kBool);
  }
  torch_abi::Value value() const { return value_; }

 private:
  torch_abi::Value value_;
};

}  // namespace c10

// As PyTorch has them: those that are an `if`, so that one may follow another with no `;` between, those that are an
// expression, and those that are a statement.
#define TORCH_ABI_THROW_UNLESS(condition, kind, ...)                                     \
  if (!(condition)) {                                                                    \
    ::torch_abi::throw_check(::torch_abi::ErrorKind::kind, #condition, {__VA_ARGS__});   \
  }
#define TORCH_CHECK(condition, ...) TORCH_ABI_THROW_UNLESS(condition, kRuntime, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_ABI_THROW_UNLESS(condition, kValue, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TORCH_ABI_THROW_UNLESS(condition, kIndex, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TORCH_ABI_THROW_UNLESS(condition, kType, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) TORCH_ABI_THROW_UNLESS(condition, kNotImplemented, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_ABI_THROW_UNLESS(condition, kRuntime, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) ((void)0)
#define TORCH_ABI_CHECK_PAIR(a, sign, b)                                                                     \
  (((a)sign(b)) ? (void)0                                                                                    \
                : ::torch_abi::throw_check(::torch_abi::ErrorKind::kRuntime, #a " " #sign " " #b,            \
                                           {"Check failed: " #a " " #sign " " #b}))
#define TORCH_CHECK_EQ(a, b) TORCH_ABI_CHECK_PAIR(a, ==, b)
#define TORCH_CHECK_NE(a, b) TORCH_ABI_CHECK_PAIR(a, !=, b)
#define TORCH_CHECK_LT(a, b) TORCH_ABI_CHECK_PAIR(a, <, b)
#define TORCH_CHECK_LE(a, b) TORCH_ABI_CHECK_PAIR(a, <=, b)
#define TORCH_CHECK_GT(a, b) TORCH_ABI_CHECK_PAIR(a, >, b)
#define TORCH_CHECK_GE(a, b) TORCH_ABI_CHECK_PAIR(a, >=, b)
#define AT_ASSERTM(condition, ...)           \
  do {                                       \
    TORCH_CHECK(condition, ##__VA_ARGS__)    \
  } while (false)
#define AT_ASSERT(condition, ...) AT_ASSERTM(condition, ##__VA_ARGS__)
#define AT_CHECK(condition, ...) AT_ASSERTM(condition, ##__VA_ARGS__)
#define AT_ERROR(...) ::torch_abi::throw_error({__VA_ARGS__})
#define TORCH_WARN(...) ::torch_abi::warn({__VA_ARGS__})
#define TORCH_WARN_ONCE(...) TORCH_WARN(__VA_ARGS__)
