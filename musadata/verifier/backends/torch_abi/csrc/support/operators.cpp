// The operators that candidates call, by name through the ABI; see torch_abi/operators.h.
#include <torch_abi/tensor.h>

namespace at {
namespace {

using torch_abi::call;
using torch_abi::make;
using torch_abi::named;
using torch_abi::Tag;
using torch_abi::Value;

template <class... Arguments>
Tensor tensor_of(const char* name, const char* overload, const Arguments&... arguments) {
  return Tensor::from(call(name, overload, {make(arguments)...}));
}
template <class... Arguments>
std::tuple<Tensor, Tensor> tensors_of(const char* name, const char* overload, const Arguments&... arguments) {
  const auto [first, second] = torch_abi::call_for_two(name, overload, {make(arguments)...});
  return {Tensor::from(first), Tensor::from(second)};
}
// In-place operators return their first argument, whose extra reference is dropped here.
template <class... Arguments>
void in_place(const char* name, const char* overload, const Arguments&... arguments) {
  Tensor::from(call(name, overload, {make(arguments)...}));
}

// Tensors in a row as the ABI wants them: an array of their implementations.
struct Pointers {
  std::vector<void*> impls;
  explicit Pointers(TensorList tensors) {
    for (const Tensor& tensor : tensors) {
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

// What PyTorch does with indices: all but tensors make a view, of which each of these indexes its dimension.
std::pair<Tensor, std::vector<Tensor>> take_slices(const Tensor& x, std::initializer_list<indexing::TensorIndex> indices) {
  using Kind = indexing::TensorIndex::Kind;
  int64_t taken = 0;
  for (const auto& one : indices) {
    taken += one.kind == Kind::kTensor && one.tensor.scalar_type() == kBool ? one.tensor.dim()
             : one.kind != Kind::kNone && one.kind != Kind::kEllipsis ? 1 : 0;
  }
  Tensor view = x;
  std::vector<Tensor> tensors;
  int64_t d = 0;
  for (const auto& one : indices) {
    switch (one.kind) {
      case Kind::kNone:
        view = view.unsqueeze(d++);
        break;
      case Kind::kEllipsis:
        d += x.dim() - taken;
        break;
      case Kind::kInteger:
        view = view.select(d, one.integer);
        break;
      case Kind::kSlice:
        view = view.slice(d++, one.slice.start, one.slice.stop, one.slice.step.value_or(1));
        break;
      case Kind::kTensor:
        tensors.resize(static_cast<size_t>(d));
        tensors.push_back(one.tensor);
        d += one.tensor.scalar_type() == kBool ? one.tensor.dim() : 1;
    }
  }
  return {view, tensors};
}

// `name` may hold an overload after a dot.
Tensor factory(const char* name, std::initializer_list<Value> leading, const TensorOptions& options) {
  std::vector<Value> arguments(leading);
  arguments.push_back(named("dtype", make(options.dtype_opt())));
  arguments.push_back(named("device", make(options.device_opt())));
  if (options.memory_format_opt()) {
    arguments.push_back(named("memory_format", make(*options.memory_format_opt())));
  }
  const std::string full = name;
  const size_t dot = full.find('.');
  const std::string base = full.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : full.substr(dot + 1);
  Value result;
  if (!torch_abi::torch_abi_call(base.c_str(), overload.c_str(), arguments.data(), static_cast<int>(arguments.size()),
                                 &result, 1)) {
    torch_abi::throw_error({torch_abi::torch_abi_failure()});
  }
  return Tensor::from(result);
}

}  // namespace

// ---- factories
Tensor empty(IntArrayRef size, const TensorOptions& options) {
  return factory("aten::empty.memory_format", {make(size)}, options);
}
Tensor empty(IntArrayRef size, const TensorOptions& options, MemoryFormat format) {
  return empty(size, options.memory_format(format));
}
Tensor empty_strided(IntArrayRef size, IntArrayRef stride, const TensorOptions& options) {
  return factory("aten::empty_strided", {make(size), make(stride)}, options);
}
Tensor zeros(IntArrayRef size, const TensorOptions& options) {
  return factory("aten::zeros", {make(size)}, options);
}
Tensor ones(IntArrayRef size, const TensorOptions& options) {
  return factory("aten::ones", {make(size)}, options);
}
Tensor rand(IntArrayRef size, const TensorOptions& options) {
  return factory("aten::rand", {make(size)}, options);
}
Tensor randn(IntArrayRef size, const TensorOptions& options) {
  return factory("aten::randn", {make(size)}, options);
}
Tensor full(IntArrayRef size, const Scalar& value, const TensorOptions& options) {
  return factory("aten::full", {make(size), make(value)}, options);
}
Tensor arange(const Scalar& end, const TensorOptions& options) {
  return factory("aten::arange", {make(end)}, options);
}
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options) {
  return factory("aten::arange.start", {make(start), make(end)}, options);
}
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options) {
  return factory("aten::scalar_tensor", {make(value)}, options);
}
Tensor eye(int64_t n, const TensorOptions& options) { return factory("aten::eye", {make(n)}, options); }
Tensor empty_like(const Tensor& other, const TensorOptions& options) {
  return factory("aten::empty_like", {make(other)}, options);
}
Tensor empty_like(const Tensor& other, const TensorOptions& options, MemoryFormat format) {
  return empty_like(other, options.memory_format(format));
}
Tensor zeros_like(const Tensor& other, const TensorOptions& options) {
  return factory("aten::zeros_like", {make(other)}, options);
}
Tensor ones_like(const Tensor& other, const TensorOptions& options) {
  return factory("aten::ones_like", {make(other)}, options);
}
Tensor rand_like(const Tensor& other, const TensorOptions& options) {
  return factory("aten::rand_like", {make(other)}, options);
}
Tensor randn_like(const Tensor& other, const TensorOptions& options) {
  return factory("aten::randn_like", {make(other)}, options);
}
Tensor full_like(const Tensor& other, const Scalar& value, const TensorOptions& options) {
  return factory("aten::full_like", {make(other), make(value)}, options);
}

// ---- views, copies, casts
Tensor Tensor::contiguous(MemoryFormat format) const {
  return Tensor::from(call("aten::contiguous", "", {make(*this), named("memory_format", make(format))}));
}
Tensor Tensor::clone(std::optional<MemoryFormat> format) const {
  return format ? Tensor::from(call("aten::clone", "", {make(*this), named("memory_format", make(*format))}))
                : tensor_of("aten::clone", "", *this);
}
Tensor Tensor::detach() const { return tensor_of("aten::detach", "", *this); }
Tensor Tensor::view(IntArrayRef size) const { return tensor_of("aten::view", "", *this, size); }
Tensor Tensor::view(ScalarType dtype) const { return tensor_of("aten::view", "dtype", *this, dtype); }
Tensor Tensor::view_as(const Tensor& other) const { return tensor_of("aten::view_as", "", *this, other); }
Tensor Tensor::reshape(IntArrayRef size) const { return tensor_of("aten::reshape", "", *this, size); }
Tensor Tensor::reshape_as(const Tensor& other) const { return tensor_of("aten::reshape_as", "", *this, other); }
Tensor Tensor::flatten(int64_t start, int64_t end) const {
  return tensor_of("aten::flatten", "using_ints", *this, start, end);
}
Tensor Tensor::t() const { return tensor_of("aten::t", "", *this); }
Tensor Tensor::transpose(int64_t a, int64_t b) const { return tensor_of("aten::transpose", "int", *this, a, b); }
Tensor Tensor::permute(IntArrayRef order) const { return tensor_of("aten::permute", "", *this, order); }
Tensor Tensor::unsqueeze(int64_t d) const { return tensor_of("aten::unsqueeze", "", *this, d); }
Tensor Tensor::squeeze() const { return tensor_of("aten::squeeze", "", *this); }
Tensor Tensor::squeeze(int64_t d) const { return tensor_of("aten::squeeze", "dim", *this, d); }
Tensor Tensor::expand(IntArrayRef size) const { return tensor_of("aten::expand", "", *this, size); }
Tensor Tensor::expand_as(const Tensor& other) const { return tensor_of("aten::expand_as", "", *this, other); }
Tensor Tensor::slice(int64_t d, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) const {
  return tensor_of("aten::slice", "Tensor", *this, d, start, end, step);
}
Tensor Tensor::narrow(int64_t d, int64_t start, int64_t length) const {
  return tensor_of("aten::narrow", "", *this, d, start, length);
}
Tensor Tensor::select(int64_t d, int64_t index) const { return tensor_of("aten::select", "int", *this, d, index); }
Tensor Tensor::operator[](int64_t index) const { return select(0, index); }
Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  const auto [view, tensors] = take_slices(*this, indices);
  return tensors.empty() ? view : Tensor::from(call("aten::index", "Tensor", {make(view), Pointers(tensors).value()}));
}
const Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) const {
  const auto [view, tensors] = take_slices(*this, indices);
  if (tensors.empty()) {
    view.copy_(values);
  } else {
    Tensor::from(call("aten::index_put_", "", {make(view), Pointers(tensors).value(), make(values)}));
  }
  return *this;
}
const Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) const {
  return index_put_(indices, scalar_tensor(value, options()));
}
indexing::TensorIndex::TensorIndex(const char* ellipsis) : kind(Kind::kEllipsis) {
  TORCH_CHECK_VALUE(std::string(ellipsis) == "...", "Expected \"...\" to represent an ellipsis index, but got \"",
                    ellipsis, "\"");
}
Tensor Tensor::as_strided(IntArrayRef size, IntArrayRef stride) const {
  return tensor_of("aten::as_strided", "", *this, size, stride);
}
Tensor Tensor::to(ScalarType dtype) const { return tensor_of("aten::to", "dtype", *this, dtype); }
Tensor Tensor::to(Device device) const { return tensor_of("aten::to", "device", *this, device, scalar_type()); }
Tensor Tensor::to(DeviceType device) const { return to(Device(device)); }
Tensor Tensor::to(Device device, ScalarType dtype) const {
  return tensor_of("aten::to", "device", *this, device, dtype);
}
Tensor Tensor::to(const TensorOptions& options) const {
  return to(options.device_opt().value_or(device()), options.dtype_opt().value_or(scalar_type()));
}
Tensor Tensor::toType(ScalarType dtype) const { return to(dtype); }
Tensor Tensor::type_as(const Tensor& other) const { return to(other.device(), other.scalar_type()); }
Tensor Tensor::cuda() const { return is_cuda() ? *this : to(Device(kCUDA, 0)); }
Tensor Tensor::cpu() const { return is_cpu() ? *this : to(Device(kCPU)); }
Tensor Tensor::tensor_data() const { return detach(); }
Tensor Tensor::variable_data() const { return detach(); }
Tensor Tensor::set_requires_grad(bool requires_grad) const {
  return tensor_of("aten::requires_grad_", "", *this, requires_grad);
}
const Tensor& Tensor::zero_() const { return in_place("aten::zero_", "", *this), *this; }
const Tensor& Tensor::fill_(const Scalar& value) const {
  return in_place("aten::fill_", "Scalar", *this, value), *this;
}
const Tensor& Tensor::copy_(const Tensor& source) const {
  return in_place("aten::copy_", "", *this, source), *this;
}
const Tensor& Tensor::resize_(IntArrayRef size) const {
  return in_place("aten::resize_", "", *this, size), *this;
}
Tensor Tensor::new_empty(IntArrayRef size) const { return tensor_of("aten::new_empty", "", *this, size); }
Tensor Tensor::new_zeros(IntArrayRef size) const { return tensor_of("aten::new_zeros", "", *this, size); }
Scalar Tensor::item() const { return Scalar(call("aten::item", "", {make(*this)})); }

// ---- arithmetic: what a strict verifier refuses is refused by its legality check, not here
#define TORCH_ABI_UNARY_METHOD(name)                                                       \
  Tensor Tensor::name() const { return tensor_of("aten::" #name, "", *this); }      \
  Tensor name(const Tensor& x) { return x.name(); }
#include <torch_abi/unary_operators.inc>
#undef TORCH_ABI_UNARY_METHOD
#define TORCH_ABI_BINARY_METHOD(name)                                                                              \
  Tensor Tensor::name(const Tensor& other) const { return tensor_of("aten::" #name, "Tensor", *this, other); } \
  Tensor Tensor::name(const Scalar& other) const { return tensor_of("aten::" #name, "Scalar", *this, other); } \
  Tensor name(const Tensor& a, const Tensor& b) { return a.name(b); }                                       \
  Tensor name(const Tensor& a, const Scalar& b) { return a.name(b); }
#include <torch_abi/binary_operators.inc>
#undef TORCH_ABI_BINARY_METHOD
#define TORCH_ABI_OPERATOR(sign, name)                                                        \
  Tensor operator sign(const Tensor& a, const Tensor& b) { return a.name(b); }         \
  Tensor operator sign(const Tensor& a, const Scalar& b) { return a.name(b); }         \
  Tensor operator sign(const Scalar& a, const Tensor& b) { return full_like(b, a).name(b); }
TORCH_ABI_OPERATOR(+, add)
TORCH_ABI_OPERATOR(-, sub)
TORCH_ABI_OPERATOR(*, mul)
TORCH_ABI_OPERATOR(/, div)
TORCH_ABI_OPERATOR(==, eq)
TORCH_ABI_OPERATOR(!=, ne)
TORCH_ABI_OPERATOR(<, lt)
TORCH_ABI_OPERATOR(>, gt)
TORCH_ABI_OPERATOR(<=, le)
TORCH_ABI_OPERATOR(>=, ge)
TORCH_ABI_OPERATOR(&, bitwise_and)
TORCH_ABI_OPERATOR(|, bitwise_or)
#undef TORCH_ABI_OPERATOR
Tensor operator-(const Tensor& x) { return x.neg(); }
#define TORCH_ABI_IN_PLACE(name)                                                                              \
  const Tensor& Tensor::name(const Tensor& other) const {                                                     \
    return in_place("aten::" #name, "Tensor", *this, other), *this;                                           \
  }                                                                                                           \
  const Tensor& Tensor::name(const Scalar& other) const {                                                     \
    return in_place("aten::" #name, "Scalar", *this, other), *this;                                           \
  }
TORCH_ABI_IN_PLACE(add_)
TORCH_ABI_IN_PLACE(sub_)
TORCH_ABI_IN_PLACE(mul_)
TORCH_ABI_IN_PLACE(div_)
#undef TORCH_ABI_IN_PLACE
Tensor Tensor::add(const Tensor& other, const Scalar& alpha) const {
  return Tensor::from(call("aten::add", "Tensor", {make(*this), make(other), named("alpha", make(alpha))}));
}
Tensor Tensor::sum(IntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) const {
  return Tensor::from(call("aten::sum", "dim_IntList", {make(*this), make(dims), make(keepdim), named("dtype", make(dtype))}));
}
Tensor Tensor::mean(IntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) const {
  return Tensor::from(call("aten::mean", "dim", {make(*this), make(dims), make(keepdim), named("dtype", make(dtype))}));
}
Tensor Tensor::amax(IntArrayRef dims, bool keepdim) const {
  return tensor_of("aten::amax", "", *this, dims, keepdim);
}
Tensor Tensor::amin(IntArrayRef dims, bool keepdim) const {
  return tensor_of("aten::amin", "", *this, dims, keepdim);
}
Tensor Tensor::matmul(const Tensor& other) const { return tensor_of("aten::matmul", "", *this, other); }
Tensor Tensor::mm(const Tensor& other) const { return tensor_of("aten::mm", "", *this, other); }
Tensor Tensor::bmm(const Tensor& other) const { return tensor_of("aten::bmm", "", *this, other); }
Tensor Tensor::softmax(int64_t d) const { return tensor_of("aten::softmax", "int", *this, d); }
Tensor Tensor::cumsum(int64_t d, std::optional<ScalarType> dtype) const {
  return Tensor::from(call("aten::cumsum", "", {make(*this), make(d), named("dtype", make(dtype))}));
}
Tensor Tensor::index_select(int64_t d, const Tensor& index) const {
  return tensor_of("aten::index_select", "", *this, d, index);
}
Tensor Tensor::gather(int64_t d, const Tensor& index) const { return tensor_of("aten::gather", "", *this, d, index); }
Tensor Tensor::masked_fill(const Tensor& mask, const Scalar& value) const {
  return tensor_of("aten::masked_fill", "Scalar", *this, mask, value);
}
const Tensor& Tensor::masked_fill_(const Tensor& mask, const Scalar& value) const {
  return in_place("aten::masked_fill_", "Scalar", *this, mask, value), *this;
}
Tensor Tensor::masked_select(const Tensor& mask) const { return tensor_of("aten::masked_select", "", *this, mask); }
Tensor Tensor::nonzero() const { return tensor_of("aten::nonzero", "", *this); }
Tensor Tensor::repeat(IntArrayRef times) const { return tensor_of("aten::repeat", "", *this, times); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return tensor_of("aten::where", "self", condition, a, b);
}
Tensor nonzero(const Tensor& x) { return x.nonzero(); }
Tensor gather(const Tensor& x, int64_t d, const Tensor& index) { return x.gather(d, index); }
Tensor masked_select(const Tensor& x, const Tensor& mask) { return x.masked_select(mask); }
std::tuple<Tensor, Tensor> Tensor::max(int64_t d, bool keepdim) const {
  return tensors_of("aten::max", "dim", *this, d, keepdim);
}
std::tuple<Tensor, Tensor> Tensor::min(int64_t d, bool keepdim) const {
  return tensors_of("aten::min", "dim", *this, d, keepdim);
}
std::tuple<Tensor, Tensor> Tensor::sort(int64_t d, bool descending) const {
  return tensors_of("aten::sort", "", *this, d, descending);
}
std::tuple<Tensor, Tensor> Tensor::topk(int64_t k, int64_t d, bool largest, bool sorted) const {
  return tensors_of("aten::topk", "", *this, k, d, largest, sorted);
}
Tensor Tensor::argsort(int64_t d, bool descending) const { return tensor_of("aten::argsort", "", *this, d, descending); }
std::tuple<Tensor, Tensor> max(const Tensor& x, int64_t d, bool keepdim) { return x.max(d, keepdim); }
std::tuple<Tensor, Tensor> min(const Tensor& x, int64_t d, bool keepdim) { return x.min(d, keepdim); }
std::tuple<Tensor, Tensor> sort(const Tensor& x, int64_t d, bool descending) { return x.sort(d, descending); }
std::tuple<Tensor, Tensor> topk(const Tensor& x, int64_t k, int64_t d, bool largest, bool sorted) {
  return x.topk(k, d, largest, sorted);
}
Tensor cumsum(const Tensor& x, int64_t d, std::optional<ScalarType> dtype) { return x.cumsum(d, dtype); }
Tensor Tensor::argmax(std::optional<int64_t> d, bool keepdim) const {
  return tensor_of("aten::argmax", "", *this, d, keepdim);
}
Tensor Tensor::clamp(const std::optional<Scalar>& low, const std::optional<Scalar>& high) const {
  return tensor_of("aten::clamp", "", *this, low, high);
}
Tensor Tensor::clamp_min(const Scalar& low) const { return tensor_of("aten::clamp_min", "", *this, low); }
Tensor Tensor::clamp_max(const Scalar& high) const { return tensor_of("aten::clamp_max", "", *this, high); }
Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }
Tensor bmm(const Tensor& a, const Tensor& b) { return a.bmm(b); }
Tensor sum(const Tensor& x, IntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) {
  return x.sum(dims, keepdim, dtype);
}
Tensor mean(const Tensor& x, IntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) {
  return x.mean(dims, keepdim, dtype);
}
Tensor softmax(const Tensor& x, int64_t d) { return x.softmax(d); }
Tensor cat(TensorList tensors, int64_t d) {
  Pointers list(tensors);
  return Tensor::from(call("aten::cat", "", {list.value(), make(d)}));
}
Tensor stack(TensorList tensors, int64_t d) {
  Pointers list(tensors);
  return Tensor::from(call("aten::stack", "", {list.value(), make(d)}));
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << "Tensor" << tensor.sizes(); }

}  // namespace at
