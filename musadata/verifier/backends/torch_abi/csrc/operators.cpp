// The C ABI's tensors and operators, on PyTorch's dispatcher.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/MemoryFormat.h>
#include <dlfcn.h>
#include <torch/csrc/Exceptions.h>

#include <string>
#include <vector>

#include "../include/torch_abi/abi.h"

namespace torch_abi {
namespace {

thread_local std::string g_failure;

c10::TensorImpl* impl(void* tensor) { return static_cast<c10::TensorImpl*>(tensor); }

at::Tensor borrow(void* tensor) {
  if (tensor == nullptr) {
    return {};
  }
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(impl(tensor)));
}

template <class Element>
c10::IValue tensor_list(const Value& value) {
  c10::List<Element> list;
  for (int64_t i = 0; i < value.size; i++) {
    at::Tensor tensor = borrow(static_cast<void**>(value.pointer)[i]);
    if (tensor.defined() || std::is_same_v<Element, at::Tensor>) {
      list.push_back(std::move(tensor));
    } else {
      list.push_back({});
    }
  }
  return list;
}

// A list such as that of index, of which elements may be absent.
bool takes_gaps(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::ListType &&
         type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::OptionalType;
}

template <class T>
c10::IValue number_list(const Value& value) {
  const T* items = static_cast<const T*>(value.pointer);
  c10::List<T> list;
  for (int64_t i = 0; i < value.size; i++) {
    list.push_back(items[i]);
  }
  return list;
}

bool takes_float(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) {
    return takes_float(type->expectRef<c10::OptionalType>().getElementType());
  }
  return type->kind() == c10::TypeKind::FloatType;
}

c10::IValue to_ivalue(const Value& value, const c10::TypePtr& type) {
  switch (value.tag) {
    case Tag::kTensor:
      return borrow(value.pointer);
    case Tag::kInt:
      return takes_float(type) ? c10::IValue(static_cast<double>(value.integer)) : c10::IValue(value.integer);
    case Tag::kDouble:
      return value.real;
    case Tag::kBool:
      return value.integer != 0;
    case Tag::kText:
      return std::string(static_cast<const char*>(value.pointer), static_cast<size_t>(value.size));
    case Tag::kIntList:
      return number_list<int64_t>(value);
    case Tag::kDoubleList:
      return number_list<double>(value);
    case Tag::kTensorList:
      return takes_gaps(type) ? tensor_list<std::optional<at::Tensor>>(value) : tensor_list<at::Tensor>(value);
    case Tag::kDtype:
      return static_cast<int64_t>(value.integer);
    case Tag::kDevice:
      return c10::Device(static_cast<c10::DeviceType>(value.integer), static_cast<c10::DeviceIndex>(value.size));
    default:
      return {};
  }
}

Value to_value(const c10::IValue& ivalue) {
  Value value;
  if (ivalue.isTensor()) {
    value.tag = Tag::kTensor;
    at::Tensor tensor = ivalue.toTensor();
    value.pointer = tensor.unsafeReleaseTensorImpl();
  } else if (ivalue.isInt()) {
    value.tag = Tag::kInt;
    value.integer = ivalue.toInt();
  } else if (ivalue.isDouble()) {
    value.tag = Tag::kDouble;
    value.real = ivalue.toDouble();
  } else if (ivalue.isBool()) {
    value.tag = Tag::kBool;
    value.integer = ivalue.toBool();
  } else {
    TORCH_CHECK(ivalue.isNone(), "an operator returned what the ABI cannot carry: ", ivalue.tagKind());
  }
  return value;
}

size_t position_of(const c10::FunctionSchema& schema, const Value& value, size_t index) {
  if (value.name == nullptr) {
    TORCH_CHECK(index < schema.arguments().size(), schema.name(), " takes fewer arguments");
    return index;
  }
  const auto found = schema.argumentIndexWithName(value.name);
  TORCH_CHECK(found.has_value(), schema.name(), " has no argument ", value.name);
  return static_cast<size_t>(*found);
}

void call(const char* name, const char* overload, const Value* arguments, int count, Value* results, int result_count) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const c10::FunctionSchema& schema = op.schema();
  std::vector<std::optional<c10::IValue>> given(schema.arguments().size());
  for (int i = 0; i < count; i++) {
    const size_t position = position_of(schema, arguments[i], static_cast<size_t>(i));
    given[position] = to_ivalue(arguments[i], schema.arguments()[position].real_type());
  }
  torch::jit::Stack stack;
  for (size_t i = 0; i < given.size(); i++) {
    const c10::Argument& argument = schema.arguments()[i];
    stack.push_back(given[i] ? *given[i] : argument.default_value().value_or(c10::IValue()));
  }
  op.callBoxed(&stack);
  for (int i = 0; i < result_count; i++) {
    results[i] = to_value(stack.at(static_cast<size_t>(i)));
  }
}

}  // namespace
}  // namespace torch_abi

using namespace torch_abi;

extern "C" {

void torch_abi_retain(void* tensor) { c10::raw::intrusive_ptr::incref(impl(tensor)); }
void torch_abi_release(void* tensor) { c10::raw::intrusive_ptr::decref(impl(tensor)); }
int64_t torch_abi_dim(void* tensor) { return impl(tensor)->dim(); }
const int64_t* torch_abi_sizes(void* tensor) { return impl(tensor)->sizes().data(); }
const int64_t* torch_abi_strides(void* tensor) { return impl(tensor)->strides().data(); }
int64_t torch_abi_numel(void* tensor) { return impl(tensor)->numel(); }
int64_t torch_abi_storage_offset(void* tensor) { return impl(tensor)->storage_offset(); }
int torch_abi_dtype(void* tensor) { return static_cast<int>(c10::typeMetaToScalarType(impl(tensor)->dtype())); }
int torch_abi_device_type(void* tensor) { return static_cast<int>(impl(tensor)->device_type()); }
int torch_abi_device_index(void* tensor) { return impl(tensor)->device().index(); }
int torch_abi_is_contiguous(void* tensor, int memory_format) {
  return impl(tensor)->is_contiguous(static_cast<c10::MemoryFormat>(memory_format));
}
int torch_abi_requires_grad(void* tensor) { return impl(tensor)->requires_grad(); }
void* torch_abi_data(void* tensor) {
  c10::TensorImpl* t = impl(tensor);
  return t->numel() == 0 ? nullptr : t->mutable_data();
}

bool torch_abi_call(const char* name, const char* overload, const Value* arguments, int count, Value* results,
                    int result_count) {
  try {
    torch_abi::call(name, overload, arguments, count, results, result_count);
    return true;
  } catch (python_error& error) {  // what an operator raises while a dispatch mode of Python is active
    error.persist();
    g_failure = error.what();
  } catch (const c10::Error& error) {
    g_failure = error.what_without_backtrace();
  } catch (const std::exception& error) {
    g_failure = error.what();
  }
  return false;
}

const char* torch_abi_failure() { return g_failure.c_str(); }

const char* torch_abi_dtype_name(int dtype) { return c10::toString(static_cast<c10::ScalarType>(dtype)); }

int torch_abi_element_size(int dtype) { return static_cast<int>(c10::elementSize(static_cast<c10::ScalarType>(dtype))); }

void* torch_abi_current_stream(int device) {
  static const auto emulated = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "musadata_current_stream"));
  if (emulated != nullptr) {
    return emulated();
  }
  // Exported by CUDA builds of PyTorch for its own ahead-of-time compiler; absent, there is only the default stream.
  using Get = int (*)(int, void**);
  static const auto get = reinterpret_cast<Get>(dlsym(RTLD_DEFAULT, "aoti_torch_get_current_cuda_stream"));
  void* stream = nullptr;
  if (get != nullptr) {
    get(device < 0 ? 0 : device, &stream);
  }
  return stream;
}

void torch_abi_warn(const char* text) { TORCH_WARN(text); }
}
