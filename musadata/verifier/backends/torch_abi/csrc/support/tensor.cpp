// at::Tensor's own part: its reference, its metadata, its options; see torch_abi/tensor.h.
#include <torch_abi/tensor.h>

namespace at {

using namespace torch_abi;

TensorOptions::TensorOptions() = default;
TensorOptions::TensorOptions(ScalarType dtype) : dtype_(dtype) {}
TensorOptions::TensorOptions(Device device) : device_(device) {}
TensorOptions::TensorOptions(DeviceType device) : device_(Device(device)) {}
TensorOptions::TensorOptions(Layout) {}
TensorOptions::TensorOptions(MemoryFormat format) : format_(format) {}
TensorOptions TensorOptions::dtype(ScalarType dtype) const { return this->dtype(std::optional<ScalarType>(dtype)); }
TensorOptions TensorOptions::dtype(std::optional<ScalarType> dtype) const {
  TensorOptions changed = *this;
  changed.dtype_ = dtype;
  return changed;
}
TensorOptions TensorOptions::device(Device device) const {
  TensorOptions changed = *this;
  changed.device_ = device;
  return changed;
}
TensorOptions TensorOptions::device(DeviceType type, int index) const { return device(Device(type, index)); }
TensorOptions TensorOptions::device(const std::string& name) const { return device(Device(name)); }
TensorOptions TensorOptions::device_index(int index) const { return device(Device(kCUDA, index)); }
TensorOptions TensorOptions::memory_format(MemoryFormat format) const {
  TensorOptions changed = *this;
  changed.format_ = format;
  return changed;
}
TensorOptions TensorOptions::layout(Layout) const { return *this; }
TensorOptions TensorOptions::requires_grad(bool) const { return *this; }
TensorOptions TensorOptions::pinned_memory(bool) const { return *this; }
ScalarType TensorOptions::dtype() const { return dtype_.value_or(ScalarType::Float); }
Device TensorOptions::device() const { return device_.value_or(Device(kCPU)); }
std::optional<ScalarType> TensorOptions::dtype_opt() const { return dtype_; }
std::optional<Device> TensorOptions::device_opt() const { return device_; }
std::optional<MemoryFormat> TensorOptions::memory_format_opt() const { return format_; }

TensorBase::TensorBase(const TensorBase& other) noexcept : impl_(other.impl_) {
  if (impl_ != nullptr) {
    torch_abi_retain(impl_);
  }
}
TensorBase::TensorBase(TensorBase&& other) noexcept : impl_(other.release()) {}
TensorBase& TensorBase::operator=(const TensorBase& other) noexcept { return *this = TensorBase(other); }
TensorBase& TensorBase::operator=(TensorBase&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
TensorBase::~TensorBase() {
  if (impl_ != nullptr) {
    torch_abi_release(impl_);
  }
}

void* TensorBase::release() noexcept { return std::exchange(impl_, nullptr); }
void TensorBase::reset() noexcept { *this = TensorBase(); }

void* TensorBase::checked() const {
  if (impl_ == nullptr) {
    throw_error({"tensor does not have a device: it is undefined"});
  }
  return impl_;
}

int64_t TensorBase::dim() const { return torch_abi_dim(checked()); }
int64_t TensorBase::ndimension() const { return dim(); }
int64_t TensorBase::numel() const { return torch_abi_numel(checked()); }
int64_t TensorBase::storage_offset() const { return torch_abi_storage_offset(checked()); }
IntArrayRef TensorBase::sizes() const { return {torch_abi_sizes(checked()), static_cast<size_t>(dim())}; }
IntArrayRef TensorBase::strides() const { return {torch_abi_strides(checked()), static_cast<size_t>(dim())}; }
ScalarType TensorBase::scalar_type() const { return static_cast<ScalarType>(torch_abi_dtype(checked())); }
ScalarType TensorBase::dtype() const { return scalar_type(); }
bool TensorBase::is_cuda() const { return torch_abi_device_type(checked()) == static_cast<int>(kCUDA); }
bool TensorBase::is_cpu() const { return torch_abi_device_type(checked()) == static_cast<int>(kCPU); }
DeprecatedType TensorBase::type() const { return {scalar_type(), is_cuda()}; }
Device TensorBase::device() const {
  return {static_cast<DeviceType>(torch_abi_device_type(checked())), torch_abi_device_index(checked())};
}
int64_t TensorBase::get_device() const { return torch_abi_device_index(checked()); }
TensorOptions TensorBase::options() const { return TensorOptions(device()).dtype(scalar_type()); }
bool TensorBase::is_contiguous(MemoryFormat format) const {
  return torch_abi_is_contiguous(checked(), static_cast<int>(format)) != 0;
}
bool TensorBase::is_non_overlapping_and_dense() const { return is_contiguous(); }
bool TensorBase::is_floating_point() const { return isFloatingType(scalar_type()); }
bool TensorBase::requires_grad() const { return torch_abi_requires_grad(checked()) != 0; }
MemoryFormat TensorBase::suggest_memory_format() const {
  return dim() == 4 && !is_contiguous() && is_contiguous(MemoryFormat::ChannelsLast) ? MemoryFormat::ChannelsLast
                                                                                   : MemoryFormat::Contiguous;
}
size_t TensorBase::element_size() const { return elementSize(scalar_type()); }
size_t TensorBase::itemsize() const { return element_size(); }
size_t TensorBase::nbytes() const { return static_cast<size_t>(numel()) * element_size(); }

void* TensorBase::data_ptr() const { return torch_abi_data(checked()); }
void* TensorBase::mutable_data_ptr() const { return data_ptr(); }
const void* TensorBase::const_data_ptr() const { return data_ptr(); }

int64_t TensorBase::wrap(int64_t d) const {
  const int64_t n = dim();
  if (n == 0) {
    throw_error({"Dimension specified as ", d, " but tensor has no dimensions"}, ErrorKind::kIndex);
  }
  if (d < -n || d >= n) {
    throw_error({"Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", d, ")"},
                ErrorKind::kIndex);
  }
  return d < 0 ? d + n : d;
}

int64_t TensorBase::size(int64_t d) const { return torch_abi_sizes(checked())[wrap(d)]; }
int64_t TensorBase::stride(int64_t d) const { return torch_abi_strides(checked())[wrap(d)]; }

void* TensorBase::typed_data(ScalarType expected) const {
  if (expected != scalar_type()) {
    throw_error({"expected scalar type ", expected, " but found ", scalar_type()});
  }
  return data_ptr();
}

void TensorBase::check_rank(size_t rank) const {
  if (static_cast<size_t>(dim()) != rank) {
    throw_error({"TensorAccessor expected ", rank, " dims but tensor has ", dim()});
  }
}

}  // namespace at
