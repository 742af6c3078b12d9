// Values of the ABI; see torch_abi/call.h and torch_abi/convert.h.
#include <torch_abi/convert.h>

namespace torch_abi {
namespace {

Value tagged(Tag tag, int64_t integer) {
  Value value;
  value.tag = tag;
  value.integer = integer;
  return value;
}

}  // namespace

Value none() { return {}; }
Value make(bool value) { return tagged(Tag::kBool, value); }
Value make(int64_t value) { return tagged(Tag::kInt, value); }
Value make(int value) { return tagged(Tag::kInt, value); }
Value make(long long value) { return tagged(Tag::kInt, value); }
Value make(double real) {
  Value value;
  value.tag = Tag::kDouble;
  value.real = real;
  return value;
}
Value make(const c10::Scalar& scalar) { return scalar.value(); }
Value make(c10::ScalarType dtype) { return tagged(Tag::kDtype, static_cast<int64_t>(dtype)); }
Value make(c10::MemoryFormat format) { return tagged(Tag::kInt, static_cast<int64_t>(format)); }
Value make(c10::Device device) {
  Value value = tagged(Tag::kDevice, static_cast<int64_t>(device.type()));
  value.size = device.index();
  return value;
}
Value make(c10::IntArrayRef list) {
  Value value;
  value.tag = Tag::kIntList;
  value.pointer = const_cast<int64_t*>(list.data());
  value.size = static_cast<int64_t>(list.size());
  return value;
}
Value make(const char* text) {
  Value value;
  value.tag = Tag::kText;
  value.pointer = const_cast<char*>(text);
  value.size = static_cast<int64_t>(strlen(text));
  return value;
}
Value make(const at::TensorBase& tensor) {
  Value value;
  value.tag = tensor.defined() ? Tag::kTensor : Tag::kNone;
  value.pointer = tensor.unsafeGetTensorImpl();
  return value;
}
Value named(const char* name, Value value) {
  value.name = name;
  return value;
}

Value call(const char* name, const char* overload, std::initializer_list<Value> arguments) {
  Value result;
  if (!torch_abi_call(name, overload, arguments.begin(), static_cast<int>(arguments.size()), &result, 1)) {
    throw_error({torch_abi_failure()});
  }
  return result;
}
std::pair<Value, Value> call_for_two(const char* name, const char* overload, std::initializer_list<Value> arguments) {
  Value results[2];
  if (!torch_abi_call(name, overload, arguments.begin(), static_cast<int>(arguments.size()), results, 2)) {
    throw_error({torch_abi_failure()});
  }
  return {results[0], results[1]};
}

at::Tensor Convert<at::Tensor>::from(const Value& value) {
  if (value.tag == Tag::kNone) {
    return {};
  }
  torch_abi_retain(value.pointer);
  return at::Tensor::adopt(value.pointer);
}
Value Convert<at::Tensor>::to(at::Tensor tensor) {
  Value value = make(tensor);
  tensor.release();
  return value;
}

std::string Convert<std::string>::from(const Value& value) {
  return {static_cast<const char*>(value.pointer), static_cast<size_t>(value.size)};
}
Value Convert<std::string>::to(const std::string& text) {
  char* copy = new char[text.size() + 1];
  memcpy(copy, text.c_str(), text.size() + 1);
  return make(const_cast<const char*>(copy));
}
const char* Convert<const char*>::from(const Value& value) { return static_cast<const char*>(value.pointer); }
Value Convert<const char*>::to(const char* text) { return Convert<std::string>::to(text); }

c10::ScalarType Convert<c10::ScalarType>::from(const Value& value) {
  return static_cast<c10::ScalarType>(value.integer);
}
Value Convert<c10::ScalarType>::to(c10::ScalarType dtype) { return make(dtype); }

c10::Device Convert<c10::Device>::from(const Value& value) {
  return {static_cast<c10::DeviceType>(value.integer), static_cast<int>(value.size)};
}
Value Convert<c10::Device>::to(c10::Device device) { return make(device); }

c10::Scalar Convert<c10::Scalar>::from(const Value& value) { return c10::Scalar(value); }
Value Convert<c10::Scalar>::to(const c10::Scalar& scalar) { return scalar.value(); }

c10::IntArrayRef Convert<c10::IntArrayRef>::from(const Value& value) {
  return {static_cast<const int64_t*>(value.pointer), static_cast<size_t>(value.size)};
}
Value Convert<c10::IntArrayRef>::to(c10::IntArrayRef values) { return list_of(Tag::kIntList, values.vec()); }

std::vector<at::Tensor> Convert<std::vector<at::Tensor>>::from(const Value& value) {
  std::vector<at::Tensor> tensors;
  for (int64_t i = 0; i < value.size; i++) {
    void* impl = static_cast<void**>(value.pointer)[i];
    torch_abi_retain(impl);
    tensors.push_back(at::Tensor::adopt(impl));
  }
  return tensors;
}
Value Convert<std::vector<at::Tensor>>::to(std::vector<at::Tensor> tensors) {
  std::vector<void*> impls;
  for (at::Tensor& tensor : tensors) {
    impls.push_back(tensor.release());
  }
  return list_of(Tag::kTensorList, impls);
}

void describe_exception(Failure* failure) {
  const auto fail = [&](ErrorKind kind, const char* text) {
    failure->kind = kind;
    strncpy(failure->text, text, sizeof failure->text - 1);
    failure->text[sizeof failure->text - 1] = '\0';
  };
  try {
    throw;
  } catch (const Error& error) {
    fail(error.kind, error.what());
  } catch (const std::bad_alloc& error) {
    fail(ErrorKind::kMemory, error.what());
  } catch (const std::invalid_argument& error) {
    fail(ErrorKind::kValue, error.what());
  } catch (const std::domain_error& error) {
    fail(ErrorKind::kValue, error.what());
  } catch (const std::length_error& error) {
    fail(ErrorKind::kValue, error.what());
  } catch (const std::out_of_range& error) {
    fail(ErrorKind::kIndex, error.what());
  } catch (const std::exception& error) {
    fail(ErrorKind::kRuntime, error.what());
  } catch (...) {
    fail(ErrorKind::kRuntime, "Caught an unknown exception!");
  }
}

}  // namespace torch_abi
