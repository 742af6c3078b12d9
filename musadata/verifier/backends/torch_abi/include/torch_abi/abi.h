// The C ABI between a candidate and PyTorch: plain values and a dozen functions, implemented once against the real
// headers in csrc/. No exception crosses it, so the two sides may come from different compilers.
#pragma once
#include <cstdint>

namespace torch_abi {

enum class Tag : int32_t {
  kNone,
  kTensor,  // `pointer` is a c10::TensorImpl*
  kInt,
  kDouble,
  kBool,
  kText,  // `pointer` is a zero-terminated string, `size` its length
  kIntList,  // `pointer` is an int64_t array
  kDoubleList,  // `pointer` is a double array
  kTensorList,  // `pointer` is an array of c10::TensorImpl*
  kTuple,  // `pointer` is a Value array
  kDtype,  // `integer` is a c10::ScalarType
  kDevice,  // `integer` is a c10::DeviceType, `size` the index
};

// As an argument a value is borrowed; as a result it owns its tensors, and its arrays come from new[].
struct Value {
  Tag tag = Tag::kNone;
  const char* name = nullptr;  // of a keyword argument; null if positional
  int64_t integer = 0;
  double real = 0;
  void* pointer = nullptr;
  int64_t size = 0;
};

// Which Python exception a failure becomes.
enum class ErrorKind : int32_t { kRuntime, kValue, kIndex, kType, kNotImplemented, kKey, kMemory };

struct Failure {
  ErrorKind kind;
  char text[4096];
};

struct Parameter {
  const char* name;  // null if the binding names none
  const char* type;  // see torch_abi/convert.h
  bool has_default;
  Value default_value;
};

// One bound function. `call` returns false and fills `failure` instead of throwing.
struct Function {
  const char* name;
  const char* documentation;
  const char* result_type;
  bool (*call)(void* closure, const Value* arguments, Value* result, Failure* failure);
  void* closure;
  const Parameter* parameters;
  int parameter_count;
};

// One `m.def` or `m.impl` of a TORCH_LIBRARY block; `function` is null for a schema alone.
struct LibraryEntry {
  const char* library;
  const char* dispatch_key;  // "" in a TORCH_LIBRARY block
  const char* schema;
  const Function* function;
};

struct ModuleTable {
  const Function* functions;
  int function_count;
  const LibraryEntry* entries;
  int entry_count;
  const char* documentation;
};

extern "C" {
void torch_abi_retain(void* tensor);
void torch_abi_release(void* tensor);
int64_t torch_abi_dim(void* tensor);
const int64_t* torch_abi_sizes(void* tensor);
const int64_t* torch_abi_strides(void* tensor);
int64_t torch_abi_numel(void* tensor);
int64_t torch_abi_storage_offset(void* tensor);
int torch_abi_dtype(void* tensor);
int torch_abi_device_type(void* tensor);
int torch_abi_device_index(void* tensor);
int torch_abi_is_contiguous(void* tensor, int memory_format);
int torch_abi_requires_grad(void* tensor);
void* torch_abi_data(void* tensor);

// Calls an operator through PyTorch's dispatcher; missing arguments take the schema's defaults. False on failure.
bool torch_abi_call(const char* name, const char* overload, const Value* arguments, int count, Value* results,
                    int result_count);
const char* torch_abi_failure();

const char* torch_abi_dtype_name(int dtype);
int torch_abi_element_size(int dtype);
void* torch_abi_current_stream(int device);
void torch_abi_warn(const char* text);
}

}  // namespace torch_abi
