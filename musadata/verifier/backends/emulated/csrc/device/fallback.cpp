// Every operator on cuda:0 runs its CPU kernel on the same memory, and is recorded.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../runtime/memory.h"
#include "device.h"

namespace emulator {
namespace {

std::map<std::string, long> g_operators;  // "aten.add.Tensor" -> calls

void record(const c10::OperatorName& name) {
  std::string text = name.name;
  const size_t colons = text.find("::");
  if (colons != std::string::npos) {
    text.replace(colons, 2, ".");
  }
  g_operators[text + "." + (name.overload_name.empty() ? "default" : name.overload_name)]++;
}

void copy_metadata(const at::Tensor& from, const at::Tensor& to) {
  to.unsafeGetTensorImpl()->set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
  if (from.is_conj()) {
    to._set_conj(true);
  }
  if (from.is_neg()) {
    to._set_neg(true);
  }
}

// A CPU tensor on the memory of a CUDA one, which must outlive it.
at::Tensor as_cpu(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  c10::DataPtr data(storage.mutable_data(), c10::Device(c10::DeviceType::CPU));
  c10::Storage alias(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetAllocator(c10::kCPU),
                     /*resizable=*/true);
  auto cpu = at::detail::make_tensor<c10::TensorImpl>(std::move(alias), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                      tensor.dtype());
  copy_metadata(tensor, cpu);
  return cpu;
}

// Keeps a CPU storage alive under a CUDA label, and known to the bounds checks.
struct Adopted {
  c10::Storage storage;
  static void release(void* context) {
    auto* adopted = static_cast<Adopted*>(context);
    musadata_device_disown(adopted->storage.mutable_data());
    delete adopted;
  }
};

c10::DataPtr adopt(const c10::Storage& storage) {
  if (musadata_device_is_covered()) {
    c10::DataPtr copied = device_allocator()->allocate(storage.nbytes());
    memcpy(copied.get(), storage.data(), storage.nbytes());
    return copied;
  }
  auto* adopted = new Adopted{storage};
  musadata_device_adopt(storage.mutable_data(), storage.nbytes());
  return c10::DataPtr(storage.mutable_data(), adopted, &Adopted::release, cuda_device());
}

// A CUDA tensor that owns a CPU kernel's result.
at::Tensor as_cuda(const at::Tensor& cpu) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), cpu.storage().nbytes(), adopt(cpu.storage()),
                       device_allocator(), /*resizable=*/true);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                         cpu.dtype());
  copy_metadata(cpu, tensor);
  return tensor;
}

// The tensors of one call: which CPU alias stands for which CUDA tensor.
class Aliases {
 public:
  at::Tensor to_cpu(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cuda()) {
      return tensor;
    }
    for (const Alias& alias : aliases_) {
      if (alias.cuda.is_same(tensor)) {
        return alias.cpu;
      }
    }
    at::Tensor cpu = as_cpu(tensor);
    aliases_.push_back({tensor, cpu, tensor.storage().mutable_data(), tensor.storage().nbytes()});
    return cpu;
  }

  at::Tensor to_cuda(const at::Tensor& cpu) const {
    if (!cpu.defined() || !cpu.device().is_cpu()) {
      return cpu;
    }
    for (const Alias& alias : aliases_) {
      if (alias.cpu.is_same(cpu)) {
        return alias.cuda;
      }
    }
    for (const Alias& alias : aliases_) {
      if (alias.cpu.storage().is_alias_of(cpu.storage())) {
        return view_of(alias.cuda, cpu);
      }
    }
    return as_cuda(cpu);
  }

  // In-place operators may have resized an alias or changed its shape: the original follows.
  void write_back() const {
    for (const Alias& alias : aliases_) {
      const c10::Storage& storage = alias.cpu.storage();
      if (storage.mutable_data() != alias.data || storage.nbytes() != alias.bytes) {
        c10::Storage original = alias.cuda.storage();
        original.set_data_ptr_noswap(adopt(storage));
        original.set_nbytes(storage.nbytes());
      }
      const bool same_shape = alias.cpu.sizes() == alias.cuda.sizes() && alias.cpu.strides() == alias.cuda.strides();
      if (!same_shape || alias.cpu.storage_offset() != alias.cuda.storage_offset()) {
        alias.cuda.unsafeGetTensorImpl()->set_sizes_and_strides(alias.cpu.sizes(), alias.cpu.strides(),
                                                               alias.cpu.storage_offset());
      }
    }
  }

 private:
  struct Alias {
    at::Tensor cuda, cpu;
    void* data;
    size_t bytes;
  };

  static at::Tensor view_of(const at::Tensor& cuda, const at::Tensor& cpu) {
    auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(cuda.storage()),
                                                         cuda.key_set(), cpu.dtype());
    copy_metadata(cpu, view);
    return view;
  }

  std::vector<Alias> aliases_;
};

void argument_to_cpu(c10::IValue& value, const c10::Argument& argument, Aliases& aliases) {
  if (value.isTensor()) {
    value = aliases.to_cpu(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(aliases.to_cpu(tensor));
    }
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::optional<at::Tensor>(aliases.to_cpu(*tensor)) : std::nullopt);
    }
    value = list;
  } else if (value.isDevice() && value.toDevice().is_cuda()) {
    value = c10::Device(c10::DeviceType::CPU);
  } else if (value.isBool() && argument.name() == "pin_memory") {
    value = false;
  }
}

void result_to_cuda(c10::IValue& value, const Aliases& aliases) {
  if (value.isTensor()) {
    value = aliases.to_cuda(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(aliases.to_cuda(tensor));
    }
    value = list;
  }
}

void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  record(op.operator_name());
  const Uncovered uncovered;
  const c10::FunctionSchema& schema = op.schema();
  Aliases aliases;
  const size_t first_argument = stack->size() - schema.arguments().size();
  for (size_t i = first_argument; i < stack->size(); i++) {
    argument_to_cpu((*stack)[i], schema.arguments()[i - first_argument], aliases);
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  aliases.write_back();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
    result_to_cuda((*stack)[i], aliases);
  }
}

at::ScalarType or_default(std::optional<at::ScalarType> dtype) {
  return dtype.value_or(at::typeMetaToScalarType(at::get_default_dtype()));
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  g_operators["aten.empty.memory_format"]++;
  return at::detail::empty_generic(size, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  g_operators["aten.empty_strided.default"]++;
  return at::detail::empty_strided_generic(size, stride, device_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), or_default(dtype));
}

// Composite operators that branch on is_cuda(): intercepted before they do.
constexpr const char* kDeviceDependent[] = {"copy_", "convolution", "convolution_backward", "lstm.input", "gru.input",
                                            "rnn_tanh.input", "rnn_relu.input", "scaled_dot_product_attention",
                                            "_fused_sdp_choice"};

torch::CppFunction boxed_fallback() { return torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>(); }

bool is_ours(const c10::OperatorName& name) {
  if (name.name == "aten::empty" || name.name == "aten::empty_strided") {
    return true;
  }
  for (const char* known : kDeviceDependent) {
    const std::string text = std::string("aten::") + known;
    if (text == name.name + (name.overload_name.empty() ? "" : "." + name.overload_name)) {
      return true;
    }
  }
  return false;
}

// A CUDA build of torch brings kernels for a device that is not there.
void override_real_kernels() {
  static std::vector<c10::RegistrationHandleRAII> handles;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    auto op = dispatcher.findOp(name);
    if (op && !is_ours(name) && op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) {
      auto kernel = c10::KernelFunction::makeFromBoxedFunction<&run_on_cpu>();
      handles.push_back(
          dispatcher.registerImpl(name, c10::DispatchKey::CUDA, kernel, std::nullopt, nullptr, "musadata"));
    }
  }
}

}  // namespace

// torch warns on every replaced kernel; replacing them is the point.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void install_kernels() {
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard guard(&silence);
  static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  all.fallback(boxed_fallback());
  aten.impl("empty.memory_format", TORCH_FN(empty));
  aten.impl("empty_strided", TORCH_FN(empty_strided));
  for (const char* name : kDeviceDependent) {
    aten.impl(name, boxed_fallback());
  }
  override_real_kernels();
}

}  // namespace emulator

extern "C" const char* musadata_take_operators() {
  static std::string text;
  text.clear();
  for (const auto& [name, calls] : emulator::g_operators) {
    text += name + "\t" + std::to_string(calls) + "\n";
  }
  emulator::g_operators.clear();
  return text.c_str();
}
