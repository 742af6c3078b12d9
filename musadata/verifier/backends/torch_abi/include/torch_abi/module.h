// PYBIND11_MODULE and TORCH_LIBRARY without pybind11: a table of functions that the Python side turns into callables.
#pragma once
#include <torch_abi/argument_checks.h>
#include <torch_abi/convert.h>
#include <torch_abi/cuda.h>
#include <torch_abi/dispatch.h>

namespace pybind11 {

struct none {};

struct arg {
  const char* name;
  bool has_default = false;
  torch_abi::Value default_value;
  explicit constexpr arg(const char* name_) : name(name_) {}
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
  template <class T>
  arg operator=(const T& value) const {
    arg with_default = *this;
    with_default.has_default = true;
    if constexpr (std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, pybind11::none>) {
      with_default.default_value = torch_abi::none();
    } else if constexpr (std::is_array_v<T>) {
      with_default.default_value = torch_abi::make(static_cast<const char*>(value));
    } else {
      with_default.default_value = torch_abi::Convert<T>::to(value);
    }
    return with_default;
  }
};
namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

// The interpreter's lock: releasing it does nothing here, because one candidate runs alone.
struct gil_scoped_release {
  gil_scoped_release() {}
  ~gil_scoped_release() {}
};
struct gil_scoped_acquire {
  gil_scoped_acquire() {}
  ~gil_scoped_acquire() {}
};
template <class... Guards>
struct call_guard {};
// `py::overload_cast<int>(&f)`: the one of several functions of a name that takes these arguments.
template <class... A>
struct OverloadCast {
  template <class R>
  constexpr R (*operator()(R (*function)(A...)) const)(A...) {
    return function;
  }
};
template <class... A>
constexpr OverloadCast<A...> overload_cast{};
enum class return_value_policy { automatic, copy, move, reference, take_ownership };

#define TORCH_ABI_PYTHON_ERROR(name)              \
  struct name : torch_abi::Error {                \
    explicit name(const std::string& text = ""); \
    name(const name&) noexcept;                   \
    ~name() override;                             \
  };
TORCH_ABI_PYTHON_ERROR(value_error)
TORCH_ABI_PYTHON_ERROR(type_error)
TORCH_ABI_PYTHON_ERROR(index_error)
TORCH_ABI_PYTHON_ERROR(key_error)
#undef TORCH_ABI_PYTHON_ERROR

}  // namespace pybind11
namespace py = pybind11;

namespace torch_abi {

// What `m.def` may be given beside the function: argument names with defaults, a docstring, and things of no effect.
struct Extra {
  const pybind11::arg* argument = nullptr;
  const char* documentation = nullptr;
  Extra() = default;
  Extra(const pybind11::arg& argument_);
  Extra(const char* documentation_);
  template <class Other, std::enable_if_t<!std::is_convertible_v<Other, const char*>, int> = 0>
  Extra(const Other&) {}
};

// The registry of what this candidate binds.
const Function* make_function(const char* name, const TypeCode* types, int count, bool (*call)(void*, const Value*, Value*, Failure*),
                              void* closure, const Extra* extras, int extra_count);
void add_function(const Function* function);
void add_entry(const char* library, const char* dispatch_key, const std::string& schema, const Function* function);
const char*& module_documentation();

template <class Callable, class... Extras>
const Function* bind(const char* name, Callable callable, const Extras&... extras) {
  using Caller = typename Signature<Callable>::template caller<Callable>;
  const Extra all[] = {Extra(extras)..., Extra()};
  return make_function(name, Caller::types, Caller::count, &Caller::call, new Callable(callable), all,
                       sizeof...(Extras));
}

class Module {
  // `m.attr("version") = 3`: a function of no arguments, which the Python side calls at once.
  struct Attribute {
    Module& module;
    std::string name;
    template <class T>
    void operator=(const T& value) {
      if constexpr (std::is_array_v<T>) {
        *this = std::string(value);
      } else {
        module.def((new std::string("=" + name))->c_str(), [value]() -> T { return value; });
      }
    }
  };

 public:
  Attribute attr(const char* name) { return {*this, name}; }
  template <class Callable, class... Extras>
  Module& def(const char* name, Callable callable, const Extras&... extras) {
    add_function(bind(name, callable, extras...));
    return *this;
  }
  const char*& doc() { return module_documentation(); }
};

class Library {
 public:
  Library(const char* name, const char* dispatch_key) : name_(name), dispatch_key_(dispatch_key) {}
  Library& def(const std::string& schema) { return add(schema, nullptr); }
  template <class Callable>
  Library& def(const std::string& schema, Callable callable) {
    return add(schema, bind(schema.c_str(), callable));
  }
  template <class Callable>
  Library& impl(const std::string& name, Callable callable) {
    return add("=" + name, bind(name.c_str(), callable));
  }
  template <class Callable>
  Library& impl(const std::string& name, const char* dispatch_key, Callable callable) {
    return Library(name_, dispatch_key).impl(name, callable), *this;
  }
  template <class Callable>
  Library& impl(const std::string& name, c10::DeviceType device, Callable callable) {
    return impl(name, device == c10::kCUDA ? "CUDA" : "CPU", callable);
  }

 private:
  Library& add(const std::string& schema, const Function* function) {
    add_entry(name_, dispatch_key_, schema, function);
    return *this;
  }
  const char* name_;
  const char* dispatch_key_;
};

struct LibraryInit {
  LibraryInit(const char* name, const char* dispatch_key, void (*body)(Library&)) {
    Library library(name, dispatch_key);
    body(library);
  }
};

// The body of PYBIND11_MODULE, run when the library is opened.
struct ModuleInit {
  explicit ModuleInit(void (*body)(Module&));
};

}  // namespace torch_abi

#define TORCH_ABI_CONCATENATE_(a, b) a##b
#define TORCH_ABI_CONCATENATE(a, b) TORCH_ABI_CONCATENATE_(a, b)
#define PYBIND11_MODULE(name, variable, ...)                                 \
  static void torch_abi_module_body(torch_abi::Module& variable);            \
  static const torch_abi::ModuleInit torch_abi_module_(&torch_abi_module_body); \
  static void torch_abi_module_body(torch_abi::Module& variable)

#define TORCH_ABI_LIBRARY_(library, key, variable, unique)                                        \
  static void TORCH_ABI_CONCATENATE(torch_abi_library_body_, unique)(torch_abi::Library & variable); \
  static const torch_abi::LibraryInit TORCH_ABI_CONCATENATE(torch_abi_library_, unique)(          \
      #library, key, &TORCH_ABI_CONCATENATE(torch_abi_library_body_, unique));                    \
  static void TORCH_ABI_CONCATENATE(torch_abi_library_body_, unique)(torch_abi::Library & variable)
#define TORCH_LIBRARY(library, variable) TORCH_ABI_LIBRARY_(library, "", variable, __COUNTER__)
#define TORCH_LIBRARY_FRAGMENT(library, variable) TORCH_ABI_LIBRARY_(library, "", variable, __COUNTER__)
#define TORCH_LIBRARY_IMPL(library, key, variable) TORCH_ABI_LIBRARY_(library, #key, variable, __COUNTER__)
#define TORCH_FN(function) (&function)

// Guards of one device, and of a dispatcher that no candidate calls with gradients.
namespace torch_abi {
struct NoEffect {
  explicit NoEffect(bool = true) {}
  ~NoEffect() {}
};
}  // namespace torch_abi
namespace c10 {
using DeviceGuard = cuda::CUDAGuard;
using OptionalDeviceGuard = cuda::OptionalCUDAGuard;
using InferenceMode = torch_abi::NoEffect;
inline int64_t maybe_wrap_dim(int64_t d, int64_t rank) {
  TORCH_CHECK_INDEX(-rank <= d && d < rank, "Dimension out of range (got ", d, " of ", rank, ")");
  return d < 0 ? d + rank : d;
}
}  // namespace c10
namespace at {
using c10::DeviceGuard;
using c10::maybe_wrap_dim;
using c10::OptionalDeviceGuard;
using NoGradGuard = torch_abi::NoEffect;
using AutoDispatchBelowADInplaceOrView = torch_abi::NoEffect;
using AutoDispatchBelowAutograd = torch_abi::NoEffect;
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions device(DeviceType type) { return TensorOptions(type); }
inline TensorOptions CUDA(ScalarType type) { return TensorOptions(kCUDA).dtype(type); }
inline TensorOptions CPU(ScalarType type) { return TensorOptions(kCPU).dtype(type); }
}  // namespace at

namespace torch {
using namespace at;
namespace nn::functional {}  // often given a shorter name, and not used
namespace autograd {
using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = variable_list;
// Candidates are called without gradients, so that a function is its `forward`.
struct AutogradContext {
  void save_for_backward(variable_list tensors) { saved_ = std::move(tensors); }
  variable_list get_saved_variables() const { return saved_; }
  void mark_non_differentiable(const variable_list&) {}
  void set_materialize_grads(bool) {}

 private:
  variable_list saved_;
};
template <class Derived>
struct Function {
  template <class... A>
  static auto apply(A&&... arguments) {
    AutogradContext context;
    return Derived::forward(&context, std::forward<A>(arguments)...);
  }
};
}  // namespace autograd
using InferenceMode = torch_abi::NoEffect;
using at::Tensor;
using at::TensorOptions;
using Dtype = c10::ScalarType;
using DeviceType = c10::DeviceType;
using c10::Device;
using c10::IntArrayRef;
using Library = torch_abi::Library;
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions device(DeviceType type) { return TensorOptions(type); }
inline TensorOptions requires_grad(bool = true) { return {}; }
inline TensorOptions layout(Layout) { return {}; }
inline Tensor tensor(const Scalar& value, const TensorOptions& options = {}) { return scalar_tensor(value, options); }
template <class Callable>
Callable wrap_pybind_function(Callable callable) {
  return callable;
}
struct NoGradGuard {
  NoGradGuard() {}
  ~NoGradGuard() {}
};
namespace cuda {
inline bool is_available() { return c10::cuda::device_count() > 0; }
inline int device_count() { return c10::cuda::device_count(); }
inline void synchronize(int64_t = -1) { cudaDeviceSynchronize(); }
using c10::cuda::getCurrentCUDAStream;
}  // namespace cuda
}  // namespace torch
