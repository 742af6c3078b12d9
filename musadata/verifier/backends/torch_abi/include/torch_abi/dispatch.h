// AT_DISPATCH_*: one lambda compiled for several dtypes.
#pragma once
#include <torch_abi/tensor.h>

namespace torch_abi {
[[noreturn]] void throw_not_implemented(const char* name, c10::ScalarType dtype);
}  // namespace torch_abi

#define AT_PRIVATE_CASE_TYPE_USING_HINT(dtype, hint, ...)                       \
  case dtype: {                                                                 \
    using hint [[maybe_unused]] = typename c10::ScalarTypeToCPPType<dtype>::type_; \
    return __VA_ARGS__();                                                       \
  }
#define AT_DISPATCH_CASE(dtype, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(dtype, scalar_t, __VA_ARGS__)

#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                           \
  [&] {                                                                                               \
    const at::ScalarType torch_abi_dtype_ = TYPE;                                                     \
    constexpr const char* torch_abi_name_ = NAME;                                                     \
    switch (torch_abi_dtype_) {                                                                       \
      __VA_ARGS__                                                                                     \
      default:                                                                                        \
        torch_abi::throw_not_implemented(torch_abi_name_, torch_abi_dtype_);                          \
    }                                                                                                 \
  }()

#define AT_DISPATCH_CASE_FLOATING_TYPES(...)                    \
  AT_DISPATCH_CASE(at::ScalarType::Double, __VA_ARGS__)         \
  AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(T1, ...)            \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)                  \
  AT_DISPATCH_CASE(T1, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND(at::ScalarType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(T1, T2, ...)       \
  AT_DISPATCH_CASE_FLOATING_TYPES_AND(T1, __VA_ARGS__)          \
  AT_DISPATCH_CASE(T2, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...)            \
  AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__)           \
  AT_DISPATCH_CASE(at::ScalarType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                    \
  AT_DISPATCH_CASE(at::ScalarType::Byte, __VA_ARGS__)           \
  AT_DISPATCH_CASE(at::ScalarType::Char, __VA_ARGS__)           \
  AT_DISPATCH_CASE(at::ScalarType::Int, __VA_ARGS__)            \
  AT_DISPATCH_CASE(at::ScalarType::Long, __VA_ARGS__)           \
  AT_DISPATCH_CASE(at::ScalarType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)                         \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__)                  \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND(T1, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(T1, T2, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(T1, T2, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                            \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(T1, T2, __VA_ARGS__)       \
                     AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(T1, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE(T1, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(T1, T2, TYPE, NAME, ...)                                \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)                   \
                     AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(T1, T2, T3, TYPE, NAME, ...)                            \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)                   \
                     AT_DISPATCH_CASE(T1, __VA_ARGS__) AT_DISPATCH_CASE(T2, __VA_ARGS__)   \
                     AT_DISPATCH_CASE(T3, __VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...)                                                        \
  AT_DISPATCH_SWITCH(TYPE, NAME,                                                                        \
                     AT_PRIVATE_CASE_TYPE_USING_HINT(at::ScalarType::Int, index_t, __VA_ARGS__)         \
                     AT_PRIVATE_CASE_TYPE_USING_HINT(at::ScalarType::Long, index_t, __VA_ARGS__))
