// Calling operators by name through PyTorch's dispatcher.
#pragma once
#include <torch_abi/float16.h>

namespace torch_abi {

inline Value none() { return {}; }
inline Value make(Tag tag, int64_t integer) {
  Value value;
  value.tag = tag;
  value.integer = integer;
  return value;
}
inline Value make(bool value) { return make(Tag::kBool, value); }
inline Value make(int64_t value) { return make(Tag::kInt, value); }
inline Value make(int value) { return make(Tag::kInt, value); }
inline Value make(long long value) { return make(Tag::kInt, value); }
inline Value make(double real) {
  Value value;
  value.tag = Tag::kDouble;
  value.real = real;
  return value;
}
inline Value make(const c10::Scalar& scalar) { return scalar.value(); }
inline Value make(c10::ScalarType dtype) { return make(Tag::kDtype, static_cast<int64_t>(dtype)); }
inline Value make(c10::MemoryFormat format) { return make(Tag::kInt, static_cast<int64_t>(format)); }
inline Value make(c10::Device device) {
  Value value = make(Tag::kDevice, static_cast<int64_t>(device.type()));
  value.size = device.index();
  return value;
}
inline Value make(c10::IntArrayRef list) {
  Value value;
  value.tag = Tag::kIntList;
  value.pointer = const_cast<int64_t*>(list.data());
  value.size = static_cast<int64_t>(list.size());
  return value;
}
inline Value make(const char* text) {
  Value value;
  value.tag = Tag::kText;
  value.pointer = const_cast<char*>(text);
  value.size = static_cast<int64_t>(strlen(text));
  return value;
}
template <class T>
Value make(const std::optional<T>& maybe) {
  return maybe ? make(*maybe) : none();
}
inline Value named(const char* name, Value value) {
  value.name = name;
  return value;
}

// Operators with one result, as most are.
Value call(const char* name, const char* overload, std::initializer_list<Value> arguments);

}  // namespace torch_abi
