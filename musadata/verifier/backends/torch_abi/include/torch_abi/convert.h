// Between the ABI's values and the C++ types of bound functions. `type` tells the Python side what to accept:
//   t tensor   i int64   j int32   u unsigned int   d double   b bool   s str   I ints   D doubles   T tensors
//   e dtype    v device  S number  ? optional of what follows           n nothing   ( tuple of what follows )
#pragma once
#include <torch_abi/tensor.h>

namespace torch_abi {

// A short text that is put together at compile time.
struct TypeCode {
  char text[32] = {};
  constexpr TypeCode(const char* code) { append(code); }
  constexpr TypeCode operator+(const TypeCode& other) const {
    TypeCode both = *this;
    both.append(other.text);
    return both;
  }
  constexpr void append(const char* code) {
    int length = 0;
    while (text[length] != '\0') {
      length++;
    }
    while (*code != '\0' && length < 31) {
      text[length++] = *code++;
    }
  }
};

template <class T, class = void>
struct Convert;

template <>
struct Convert<at::Tensor> {
  static constexpr TypeCode type() { return "t"; }
  static at::Tensor from(const Value& value);
  static Value to(at::Tensor tensor);
};

template <>
struct Convert<bool> {
  static constexpr TypeCode type() { return "b"; }
  static bool from(const Value& value) { return value.integer != 0; }
  static Value to(bool value) { return make(value); }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr TypeCode type() { return sizeof(T) == 8 ? "i" : std::is_unsigned_v<T> ? "u" : "j"; }
  static T from(const Value& value) { return static_cast<T>(value.integer); }
  static Value to(T value) { return make(static_cast<int64_t>(value)); }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr TypeCode type() { return "d"; }
  static T from(const Value& value) { return static_cast<T>(value.real); }
  static Value to(T value) { return make(static_cast<double>(value)); }
};

template <>
struct Convert<std::string> {
  static constexpr TypeCode type() { return "s"; }
  static std::string from(const Value& value);
  static Value to(const std::string& text);
};
template <>
struct Convert<const char*> {
  static constexpr TypeCode type() { return "s"; }
  static const char* from(const Value& value);
  static Value to(const char* text);
};

template <>
struct Convert<c10::ScalarType> {
  static constexpr TypeCode type() { return "e"; }
  static c10::ScalarType from(const Value& value);
  static Value to(c10::ScalarType dtype);
};
template <>
struct Convert<c10::Device> {
  static constexpr TypeCode type() { return "v"; }
  static c10::Device from(const Value& value);
  static Value to(c10::Device device);
};
template <>
struct Convert<c10::Scalar> {
  static constexpr TypeCode type() { return "S"; }
  static c10::Scalar from(const Value& value);
  static Value to(const c10::Scalar& scalar);
};

// Sequences of whole numbers, of floating-point numbers, of tensors.
template <class T>
Value list_of(Tag tag, const std::vector<T>& values) {
  T* copy = new T[values.size() + 1];
  std::copy(values.begin(), values.end(), copy);
  Value value;
  value.tag = tag;
  value.pointer = copy;
  value.size = static_cast<int64_t>(values.size());
  return value;
}
template <class T>
struct Convert<std::vector<T>, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr TypeCode type() { return "I"; }
  static std::vector<T> from(const Value& value) {
    const auto* items = static_cast<const int64_t*>(value.pointer);
    return std::vector<T>(items, items + value.size);
  }
  static Value to(const std::vector<T>& values) {
    return list_of(Tag::kIntList, std::vector<int64_t>(values.begin(), values.end()));
  }
};
template <class T>
struct Convert<std::vector<T>, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr TypeCode type() { return "D"; }
  static std::vector<T> from(const Value& value) {
    const auto* items = static_cast<const double*>(value.pointer);
    return std::vector<T>(items, items + value.size);
  }
  static Value to(const std::vector<T>& values) {
    return list_of(Tag::kDoubleList, std::vector<double>(values.begin(), values.end()));
  }
};
template <>
struct Convert<c10::IntArrayRef> {
  static constexpr TypeCode type() { return "I"; }
  static c10::IntArrayRef from(const Value& value);
  static Value to(c10::IntArrayRef values);
};
template <>
struct Convert<std::vector<at::Tensor>> {
  static constexpr TypeCode type() { return "T"; }
  static std::vector<at::Tensor> from(const Value& value);
  static Value to(std::vector<at::Tensor> tensors);
};

template <class T>
struct Convert<std::optional<T>> {
  static constexpr TypeCode type() { return TypeCode("?") + Convert<T>::type(); }
  static std::optional<T> from(const Value& value) {
    return value.tag == Tag::kNone ? std::nullopt : std::optional<T>(Convert<T>::from(value));
  }
  static Value to(std::optional<T> maybe) { return maybe ? Convert<T>::to(std::move(*maybe)) : none(); }
};

template <class... T>
struct Convert<std::tuple<T...>> {
  static constexpr TypeCode type() { return TypeCode("(") + (Convert<T>::type() + ... + TypeCode("")) + ")"; }
  static Value to(std::tuple<T...> items) {
    return std::apply(
        [](T&... item) { return list_of(Tag::kTuple, std::vector<Value>{Convert<T>::to(std::move(item))...}); }, items);
  }
};
template <class A, class B>
struct Convert<std::pair<A, B>> : Convert<std::tuple<A, B>> {
  static Value to(std::pair<A, B> pair) {
    return Convert<std::tuple<A, B>>::to({std::move(pair.first), std::move(pair.second)});
  }
};
template <size_t N>
struct Convert<std::array<at::Tensor, N>> {
  static constexpr TypeCode type() { return "T"; }
  static Value to(const std::array<at::Tensor, N>& tensors) {
    return Convert<std::vector<at::Tensor>>::to({tensors.begin(), tensors.end()});
  }
};

// The exception that is being handled, in the ABI's words.
void describe_exception(Failure* failure);

// An argument as a parameter of type T takes it; what a reference refers to lives as long as the call.
template <class T>
T&& pass(std::decay_t<T>&& argument) {
  return static_cast<T&&>(argument);
}

// Calls a C++ function with the ABI's values; exceptions end here.
template <class Callable, class Result, class... Arguments>
struct Caller {
  template <size_t... I>
  static Value invoke(Callable& callable, [[maybe_unused]] const Value* arguments, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<Result>) {
      callable(pass<Arguments>(Convert<std::decay_t<Arguments>>::from(arguments[I]))...);
      return none();
    } else {
      return Convert<std::decay_t<Result>>::to(
          callable(pass<Arguments>(Convert<std::decay_t<Arguments>>::from(arguments[I]))...));
    }
  }

  static bool call(void* closure, const Value* arguments, Value* result, Failure* failure) {
    try {
      *result = invoke(*static_cast<Callable*>(closure), arguments, std::index_sequence_for<Arguments...>());
      return true;
    } catch (...) {
      describe_exception(failure);
      return false;
    }
  }

  static constexpr TypeCode result_type() {
    if constexpr (std::is_void_v<Result>) {
      return "n";
    } else {
      return Convert<std::decay_t<Result>>::type();
    }
  }
  static constexpr int count = sizeof...(Arguments);
  static constexpr TypeCode types[count + 1] = {Convert<std::decay_t<Arguments>>::type()..., result_type()};
};

template <class Callable, class = void>
struct Signature : Signature<decltype(&Callable::operator())> {};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  template <class Callable>
  using caller = Caller<Callable, R, A...>;
};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};

}  // namespace torch_abi
