// Calling operators by name through PyTorch's dispatcher.
#pragma once
#include <torch_abi/float16.h>

namespace torch_abi {

Value none();
Value make(bool value);
Value make(int64_t value);
Value make(int value);
Value make(long long value);
Value make(double real);
Value make(const c10::Scalar& scalar);
Value make(c10::ScalarType dtype);
Value make(c10::MemoryFormat format);
Value make(c10::Device device);
Value make(c10::IntArrayRef list);
Value make(const char* text);
template <class T>
Value make(const std::optional<T>& maybe) {
  return maybe ? make(*maybe) : none();
}
Value named(const char* name, Value value);

// Operators with one result, as most are.
Value call(const char* name, const char* overload, std::initializer_list<Value> arguments);
// Operators with two results.
std::pair<Value, Value> call_for_two(const char* name, const char* overload, std::initializer_list<Value> arguments);

}  // namespace torch_abi
