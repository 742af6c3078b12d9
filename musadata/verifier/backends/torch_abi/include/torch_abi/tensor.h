// at::Tensor: an owned reference to PyTorch's own tensor. Metadata is read directly, everything else is an operator.
#pragma once
#include <torch_abi/accessor.h>
#include <torch_abi/call.h>

namespace at {

class TensorOptions {
 public:
  TensorOptions();
  TensorOptions(ScalarType dtype);
  TensorOptions(Device device);
  TensorOptions(DeviceType device);
  TensorOptions(Layout);
  TensorOptions(MemoryFormat format);
  TensorOptions dtype(ScalarType dtype) const;
  TensorOptions dtype(std::optional<ScalarType> dtype) const;
  TensorOptions device(Device device) const;
  TensorOptions device(DeviceType type, int index = -1) const;
  TensorOptions device(const std::string& name) const;
  TensorOptions device_index(int index) const;
  TensorOptions memory_format(MemoryFormat format) const;
  TensorOptions layout(Layout) const;
  TensorOptions requires_grad(bool = true) const;
  TensorOptions pinned_memory(bool = true) const;
  ScalarType dtype() const;
  Device device() const;
  std::optional<ScalarType> dtype_opt() const;
  std::optional<Device> device_opt() const;
  std::optional<MemoryFormat> memory_format_opt() const;

 private:
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> format_;
};

class Tensor;
namespace indexing {
inline constexpr std::nullopt_t None = std::nullopt;
enum class EllipsisIndexType { Ellipsis };
inline constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
struct Slice {
  using Bound = std::optional<int64_t>;
  Bound start, stop, step;
  Slice(Bound start_ = {}, Bound stop_ = {}, Bound step_ = {}) : start(start_), stop(stop_), step(step_) {}
};
struct TensorIndex;
}  // namespace indexing
// What the old x.type() gave: only good for AT_DISPATCH and is_cuda().
struct DeprecatedType {
  ScalarType dtype;
  bool cuda;
  operator ScalarType() const { return dtype; }
  ScalarType scalarType() const { return dtype; }
  bool is_cuda() const { return cuda; }
};

class TensorBase {
 public:
  TensorBase() = default;
  TensorBase(const TensorBase& other) noexcept;
  TensorBase(TensorBase&& other) noexcept;
  TensorBase& operator=(const TensorBase& other) noexcept;
  TensorBase& operator=(TensorBase&& other) noexcept;
  ~TensorBase();

  void* unsafeGetTensorImpl() const { return impl_; }
  void* release() noexcept;
  void reset() noexcept;

  bool defined() const { return impl_ != nullptr; }
  bool is_same(const TensorBase& other) const { return impl_ == other.impl_; }
  int64_t dim() const;
  int64_t ndimension() const;
  int64_t numel() const;
  int64_t storage_offset() const;
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t size(int64_t d) const;
  int64_t stride(int64_t d) const;
  ScalarType scalar_type() const;
  ScalarType dtype() const;
  bool is_cuda() const;
  bool is_cpu() const;
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  DeprecatedType type() const;
  Device device() const;
  int64_t get_device() const;
  Layout layout() const { return kStrided; }
  TensorOptions options() const;
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  bool is_floating_point() const;
  bool is_complex() const { return false; }
  bool requires_grad() const;
  MemoryFormat suggest_memory_format() const;
  size_t element_size() const;
  size_t itemsize() const;
  size_t nbytes() const;

  void* data_ptr() const;
  void* mutable_data_ptr() const;
  const void* const_data_ptr() const;
  template <class T>
  T* data_ptr() const {
    using Element = std::remove_const_t<T>;
    return static_cast<T*>(typed_data(CppTypeToScalarType<Element>::value));
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }

  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    check_rank(N);
    return TensorAccessor<T, N>(data_ptr<T>(), torch_abi::torch_abi_sizes(impl_), torch_abi::torch_abi_strides(impl_));
  }
  template <class T, size_t N, template <class> class Pointer = DefaultPtrTraits>
  PackedTensorAccessor<T, N, Pointer, int32_t> packed_accessor32() const {
    return packed<T, N, Pointer, int32_t>();
  }
  template <class T, size_t N, template <class> class Pointer = DefaultPtrTraits>
  PackedTensorAccessor<T, N, Pointer, int64_t> packed_accessor64() const {
    return packed<T, N, Pointer, int64_t>();
  }
  template <class T, size_t N, template <class> class Pointer = DefaultPtrTraits, class Index = int64_t>
  PackedTensorAccessor<T, N, Pointer, Index> packed_accessor() const {
    return packed<T, N, Pointer, Index>();
  }
  template <class T, size_t N, template <class> class Pointer = DefaultPtrTraits, class Index = int64_t>
  PackedTensorAccessor<T, N, Pointer, Index> generic_packed_accessor() const {
    return packed<T, N, Pointer, Index>();
  }

 protected:
  explicit TensorBase(void* owned) : impl_(owned) {}

 private:
  void* checked() const;
  void* typed_data(ScalarType expected) const;
  int64_t wrap(int64_t d) const;
  void check_rank(size_t rank) const;
  template <class T, size_t N, template <class> class Pointer, class Index>
  PackedTensorAccessor<T, N, Pointer, Index> packed() const {
    check_rank(N);
    return PackedTensorAccessor<T, N, Pointer, Index>(data_ptr<T>(), torch_abi::torch_abi_sizes(impl_),
                                                      torch_abi::torch_abi_strides(impl_));
  }
  void* impl_ = nullptr;
};

class Tensor : public TensorBase {
 public:
  Tensor() = default;
  Tensor(const TensorBase& base) : TensorBase(base) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  // `y[i] = x` writes values: what is on the left is a view without a name.
  Tensor& operator=(const Tensor& values) && { return copy_(values), *this; }
  Tensor& operator=(const Scalar& value) && { return fill_(value), *this; }
  static Tensor adopt(void* owned) { return Tensor(owned); }
  static Tensor from(const torch_abi::Value& owned) { return Tensor(owned.pointer); }

#include <torch_abi/tensor_methods.inc>

 private:
  explicit Tensor(void* owned) : TensorBase(owned) {}
};

namespace indexing {
struct TensorIndex {
  enum class Kind { kNone, kEllipsis, kInteger, kSlice, kTensor } kind;
  int64_t integer = 0;
  Slice slice;
  Tensor tensor;
  TensorIndex(std::nullopt_t) : kind(Kind::kNone) {}
  TensorIndex(EllipsisIndexType) : kind(Kind::kEllipsis) {}
  TensorIndex(const char* ellipsis);
  TensorIndex(Slice slice_) : kind(Kind::kSlice), slice(slice_) {}
  TensorIndex(const Tensor& tensor_) : kind(Kind::kTensor), tensor(tensor_) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  TensorIndex(T index) : kind(Kind::kInteger), integer(index) {}
};
}  // namespace indexing

using TensorList = ArrayRef<Tensor>;

}  // namespace at

namespace torch_abi {
Value make(const at::TensorBase& tensor);
}  // namespace torch_abi

#include <torch_abi/operators.h>
