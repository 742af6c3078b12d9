// at::Tensor: an owned reference to PyTorch's own tensor. Metadata is read directly, everything else is an operator.
#pragma once
#include <torch_abi/accessor.h>
#include <torch_abi/call.h>

namespace at {

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType device) : device_(Device(device)) {}
  TensorOptions(Layout) {}
  TensorOptions(MemoryFormat format) : format_(format) {}
  TensorOptions dtype(ScalarType dtype) const { return with([&](TensorOptions& o) { o.dtype_ = dtype; }); }
  TensorOptions dtype(std::optional<ScalarType> dtype) const { return with([&](TensorOptions& o) { o.dtype_ = dtype; }); }
  TensorOptions device(Device device) const { return with([&](TensorOptions& o) { o.device_ = device; }); }
  TensorOptions device(DeviceType type, int index = -1) const { return device(Device(type, index)); }
  TensorOptions device(const std::string& name) const { return device(Device(name)); }
  TensorOptions device_index(int index) const { return device(Device(kCUDA, index)); }
  TensorOptions memory_format(MemoryFormat format) const { return with([&](TensorOptions& o) { o.format_ = format; }); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions requires_grad(bool = true) const { return *this; }
  TensorOptions pinned_memory(bool = true) const { return *this; }
  ScalarType dtype() const { return dtype_.value_or(ScalarType::Float); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  std::optional<ScalarType> dtype_opt() const { return dtype_; }
  std::optional<Device> device_opt() const { return device_; }
  std::optional<MemoryFormat> memory_format_opt() const { return format_; }

 private:
  template <class Change>
  TensorOptions with(Change change) const {
    TensorOptions copy = *this;
    change(copy);
    return copy;
  }
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  std::optional<MemoryFormat> format_;
};

class Tensor;
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
  TensorBase(const TensorBase& other) : impl_(other.impl_) {
    if (impl_ != nullptr) {
      torch_abi::torch_abi_retain(impl_);
    }
  }
  TensorBase(TensorBase&& other) noexcept : impl_(other.impl_) { other.impl_ = nullptr; }
  TensorBase& operator=(TensorBase other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~TensorBase() {
    if (impl_ != nullptr) {
      torch_abi::torch_abi_release(impl_);
    }
  }

  void* unsafeGetTensorImpl() const { return impl_; }
  void* release() {
    void* impl = impl_;
    impl_ = nullptr;
    return impl;
  }
  void reset() { *this = TensorBase(); }

  bool defined() const { return impl_ != nullptr; }
  bool is_same(const TensorBase& other) const { return impl_ == other.impl_; }
  int64_t dim() const { return torch_abi::torch_abi_dim(checked()); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return torch_abi::torch_abi_numel(checked()); }
  int64_t storage_offset() const { return torch_abi::torch_abi_storage_offset(checked()); }
  IntArrayRef sizes() const { return {torch_abi::torch_abi_sizes(checked()), static_cast<size_t>(dim())}; }
  IntArrayRef strides() const { return {torch_abi::torch_abi_strides(checked()), static_cast<size_t>(dim())}; }
  int64_t size(int64_t d) const;
  int64_t stride(int64_t d) const;
  ScalarType scalar_type() const { return static_cast<ScalarType>(torch_abi::torch_abi_dtype(checked())); }
  ScalarType dtype() const { return scalar_type(); }
  bool is_cuda() const { return torch_abi::torch_abi_device_type(checked()) == static_cast<int>(kCUDA); }
  bool is_cpu() const { return torch_abi::torch_abi_device_type(checked()) == static_cast<int>(kCPU); }
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  DeprecatedType type() const { return {scalar_type(), is_cuda()}; }
  Device device() const {
    return {static_cast<DeviceType>(torch_abi::torch_abi_device_type(checked())),
            torch_abi::torch_abi_device_index(checked())};
  }
  int64_t get_device() const { return torch_abi::torch_abi_device_index(checked()); }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions(device()).dtype(scalar_type()); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const {
    return torch_abi::torch_abi_is_contiguous(checked(), static_cast<int>(format)) != 0;
  }
  bool is_non_overlapping_and_dense() const { return is_contiguous(); }
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const { return false; }
  bool requires_grad() const { return torch_abi::torch_abi_requires_grad(checked()) != 0; }
  MemoryFormat suggest_memory_format() const {
    return dim() == 4 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast) ? MemoryFormat::ChannelsLast
                                                                                     : MemoryFormat::Contiguous;
  }
  size_t element_size() const { return elementSize(scalar_type()); }
  size_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(); }

  void* data_ptr() const { return torch_abi::torch_abi_data(checked()); }
  void* mutable_data_ptr() const { return data_ptr(); }
  const void* const_data_ptr() const { return data_ptr(); }
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

 protected:
  explicit TensorBase(void* owned) : impl_(owned) {}

 private:
  void* checked() const {
    if (impl_ == nullptr) {
      torch_abi::throw_error("tensor does not have a device: it is undefined");
    }
    return impl_;
  }
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
  static Tensor adopt(void* owned) { return Tensor(owned); }
  static Tensor from(const torch_abi::Value& owned) { return Tensor(owned.pointer); }

#include <torch_abi/tensor_methods.inc>

 private:
  explicit Tensor(void* owned) : TensorBase(owned) {}
};

using TensorList = ArrayRef<Tensor>;

}  // namespace at

namespace torch_abi {
inline Value make(const at::TensorBase& tensor) {
  Value value;
  value.tag = tensor.defined() ? Tag::kTensor : Tag::kNone;
  value.pointer = tensor.unsafeGetTensorImpl();
  return value;
}

// Tensors in a row as the ABI wants them: an array of their implementations.
struct Pointers {
  std::vector<void*> impls;
  explicit Pointers(at::TensorList tensors) {
    for (const at::Tensor& tensor : tensors) {
      impls.push_back(tensor.unsafeGetTensorImpl());
    }
  }
  Value value() {
    Value list;
    list.tag = Tag::kTensorList;
    list.pointer = impls.data();
    list.size = static_cast<int64_t>(impls.size());
    return list;
  }
};

template <class... Arguments>
at::Tensor tensor_of(const char* name, const char* overload, const Arguments&... arguments) {
  return at::Tensor::from(call(name, overload, {make(arguments)...}));
}
// In-place operators return their first argument, whose extra reference is dropped here.
template <class... Arguments>
void in_place(const char* name, const char* overload, const Arguments&... arguments) {
  at::Tensor::from(call(name, overload, {make(arguments)...}));
}
}  // namespace torch_abi

#include <torch_abi/operators.h>
