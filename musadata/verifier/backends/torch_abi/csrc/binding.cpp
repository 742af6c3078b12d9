// Python's side of the ABI: loads a candidate's library and turns its table of functions into callables.
#include <Python.h>

#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <dlfcn.h>

#include <deque>
#include <string>
#include <vector>

#include "../include/torch_abi/abi.h"

namespace torch_abi {
namespace {

PyObject* g_tensor_class;  // torch.Tensor
PyObject* g_torch;

// THPVariable_Wrap(const at::TensorBase&): its header costs seven seconds of compilation, its symbol nothing. Both
// ways in which PyTorch has declared it take the address of a TensorBase, which is one owned TensorImpl*.
using WrapTensor = PyObject* (*)(void** tensor_base);
WrapTensor find_wrap() {
  // Python loads libtorch_python for itself only, so its symbols are not in the global scope.
  void* torch_python = dlopen("libtorch_python.so", RTLD_NOW | RTLD_NOLOAD);
  if (torch_python == nullptr) {
    return nullptr;
  }
  for (const char* symbol : {"_Z16THPVariable_WrapRKN2at10TensorBaseE", "_Z16THPVariable_WrapN2at10TensorBaseE"}) {
    if (void* found = dlsym(torch_python, symbol)) {
      return reinterpret_cast<WrapTensor>(found);
    }
  }
  return nullptr;
}

PyObject* wrap_tensor(void* owned) {
  static const WrapTensor wrap = find_wrap();
  if (wrap == nullptr) {
    PyErr_SetString(PyExc_ImportError, "this PyTorch has no THPVariable_Wrap");
    return nullptr;
  }
  void* base = owned != nullptr ? owned : c10::UndefinedTensorImpl::singleton();
  PyObject* object = wrap(&base);
  if (owned != nullptr && base == owned) {  // not moved away by the callee
    torch_abi_release(owned);
  }
  return object;
}

void* tensor_pointer(PyObject* object) {
  PyObject* address = PyObject_GetAttrString(object, "_cdata");
  if (address == nullptr) {
    return nullptr;
  }
  void* pointer = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  return pointer;
}

bool is_tensor(PyObject* object) { return PyObject_IsInstance(object, g_tensor_class) == 1; }

// What a call's arguments point to, for as long as the call lasts.
struct Arena {
  std::deque<std::vector<int64_t>> integers;
  std::deque<std::vector<double>> reals;
  std::deque<std::vector<void*>> pointers;
};

bool read_integer(PyObject* object, Value* value, int64_t low, uint64_t high) {
  if (PyFloat_Check(object) || !PyIndex_Check(object)) {
    return false;
  }
  int overflow = 0;
  PyObject* index = PyNumber_Index(object);
  if (index == nullptr) {
    PyErr_Clear();
    return false;
  }
  const int64_t number = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  const bool fits = overflow == 0 && number >= low && (number < 0 || static_cast<uint64_t>(number) <= high);
  value->tag = Tag::kInt;
  value->integer = number;
  value->real = static_cast<double>(number);
  return fits;
}

bool read_real(PyObject* object, Value* value) {
  if (is_tensor(object)) {
    return false;
  }
  value->real = PyFloat_AsDouble(object);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  value->tag = Tag::kDouble;
  return true;
}

bool read_scalar(PyObject* object, Value* value) {
  if (PyBool_Check(object)) {
    value->tag = Tag::kBool;
    value->integer = object == Py_True;
    value->real = static_cast<double>(value->integer);
    return true;
  }
  return read_integer(object, value, INT64_MIN, INT64_MAX) || read_real(object, value);
}

bool read_text(PyObject* object, Value* value) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
  value->tag = Tag::kText;
  value->pointer = const_cast<char*>(text);
  value->size = size;
  return text != nullptr;
}

bool read_dtype(PyObject* object, Value* value) {
  // torch.float32 and its kind know no number; an empty tensor of that dtype does.
  PyObject* dtype_class = PyObject_GetAttrString(g_torch, "dtype");
  const bool fits = dtype_class != nullptr && PyObject_IsInstance(object, dtype_class) == 1;
  Py_XDECREF(dtype_class);
  if (!fits) {
    return false;
  }
  PyObject* empty = PyObject_CallMethod(g_torch, "empty", "i", 0);
  PyObject* typed = empty == nullptr ? nullptr : PyObject_CallMethod(empty, "to", "O", object);
  Py_XDECREF(empty);
  if (typed == nullptr) {
    PyErr_Clear();
    return false;
  }
  value->tag = Tag::kDtype;
  value->integer = torch_abi_dtype(tensor_pointer(typed));
  Py_DECREF(typed);
  return true;
}

bool read_device(PyObject* object, Value* value) {
  PyObject* device = PyObject_CallMethod(g_torch, "device", "O", object);
  PyObject* type = device == nullptr ? nullptr : PyObject_GetAttrString(device, "type");
  PyObject* index = device == nullptr ? nullptr : PyObject_GetAttrString(device, "index");
  const bool fits = type != nullptr && index != nullptr;
  if (fits) {
    value->tag = Tag::kDevice;
    value->integer = PyUnicode_CompareWithASCIIString(type, "cuda") == 0;
    value->size = index == Py_None ? -1 : PyLong_AsLong(index);
  }
  Py_XDECREF(device);
  Py_XDECREF(type);
  Py_XDECREF(index);
  PyErr_Clear();
  return fits;
}

bool read_list(PyObject* object, char kind, Value* value, Arena* arena) {
  if (PyUnicode_Check(object) || is_tensor(object) || !PySequence_Check(object)) {
    return false;
  }
  PyObject* items = PySequence_Fast(object, "");
  if (items == nullptr) {
    PyErr_Clear();
    return false;
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items);
  auto& integers = arena->integers.emplace_back();
  auto& reals = arena->reals.emplace_back();
  auto& pointers = arena->pointers.emplace_back();
  bool fits = true;
  for (Py_ssize_t i = 0; i < count && fits; i++) {
    PyObject* item = PySequence_Fast_GET_ITEM(items, i);
    Value element;
    if (kind == 'T') {
      fits = is_tensor(item);
      pointers.push_back(fits ? tensor_pointer(item) : nullptr);
    } else if (kind == 'I') {
      fits = read_integer(item, &element, INT64_MIN, INT64_MAX);
      integers.push_back(element.integer);
    } else {
      fits = read_real(item, &element);
      reals.push_back(element.real);
    }
  }
  Py_DECREF(items);
  value->size = count;
  value->tag = kind == 'T' ? Tag::kTensorList : kind == 'I' ? Tag::kIntList : Tag::kDoubleList;
  value->pointer = kind == 'T' ? static_cast<void*>(pointers.data())
                   : kind == 'I' ? static_cast<void*>(integers.data())
                                 : static_cast<void*>(reals.data());
  return fits;
}

bool read_argument(PyObject* object, const char* type, Value* value, Arena* arena) {
  switch (*type) {
    case '?':
      if (object == Py_None) {
        value->tag = Tag::kNone;
        return true;
      }
      return read_argument(object, type + 1, value, arena);
    case 't':
      value->tag = Tag::kTensor;
      value->pointer = is_tensor(object) ? tensor_pointer(object) : nullptr;
      return value->pointer != nullptr;
    case 'i':
      return read_integer(object, value, INT64_MIN, INT64_MAX);
    case 'j':
      return read_integer(object, value, INT32_MIN, INT32_MAX);
    case 'u':
      return read_integer(object, value, 0, UINT32_MAX);
    case 'd':
      return read_real(object, value);
    case 'b':
      value->tag = Tag::kBool;
      value->integer = object == Py_True;
      return PyBool_Check(object);
    case 's':
      return read_text(object, value);
    case 'e':
      return read_dtype(object, value);
    case 'v':
      return read_device(object, value);
    case 'S':
      return read_scalar(object, value);
    default:
      return read_list(object, *type, value, arena);
  }
}

PyObject* to_python(const Value& value);

PyObject* sequence_to_python(const Value& value) {
  PyObject* sequence = value.tag == Tag::kTuple ? PyTuple_New(value.size) : PyList_New(value.size);
  for (int64_t i = 0; i < value.size && sequence != nullptr; i++) {
    PyObject* item = nullptr;
    if (value.tag == Tag::kTuple) {
      item = to_python(static_cast<Value*>(value.pointer)[i]);
    } else if (value.tag == Tag::kTensorList) {
      item = wrap_tensor(static_cast<void**>(value.pointer)[i]);
    } else if (value.tag == Tag::kIntList) {
      item = PyLong_FromLongLong(static_cast<int64_t*>(value.pointer)[i]);
    } else {
      item = PyFloat_FromDouble(static_cast<double*>(value.pointer)[i]);
    }
    if (item == nullptr) {
      Py_DECREF(sequence);
      return nullptr;
    }
    if (value.tag == Tag::kTuple) {
      PyTuple_SET_ITEM(sequence, i, item);
    } else {
      PyList_SET_ITEM(sequence, i, item);
    }
  }
  return sequence;  // the array itself is small and rare enough to be left behind
}

PyObject* dtype_to_python(int64_t dtype) {
  const char* const names[] = {"uint8", "int8",   "int16",   "int32", "int64", "float16", "float32", "float64",
                               "",      "",       "",        "bool",  "",      "",        "",        "bfloat16"};
  const bool known = dtype >= 0 && dtype < 16 && names[dtype][0] != '\0';
  return PyObject_GetAttrString(g_torch, known ? names[dtype] : "float32");
}

PyObject* to_python(const Value& value) {
  switch (value.tag) {
    case Tag::kTensor:
      return wrap_tensor(value.pointer);
    case Tag::kInt:
      return PyLong_FromLongLong(value.integer);
    case Tag::kDouble:
      return PyFloat_FromDouble(value.real);
    case Tag::kBool:
      return PyBool_FromLong(value.integer != 0);
    case Tag::kText:
      return PyUnicode_FromStringAndSize(static_cast<const char*>(value.pointer), value.size);
    case Tag::kDtype:
      return dtype_to_python(value.integer);
    case Tag::kDevice:
      return PyObject_CallMethod(g_torch, "device", "s", value.integer == 1 ? "cuda" : "cpu");
    case Tag::kNone:
      Py_RETURN_NONE;
    default:
      return sequence_to_python(value);
  }
}

PyObject* exception_class(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kValue:
      return PyExc_ValueError;
    case ErrorKind::kIndex:
      return PyExc_IndexError;
    case ErrorKind::kType:
      return PyExc_TypeError;
    case ErrorKind::kNotImplemented:
      return PyExc_NotImplementedError;
    case ErrorKind::kKey:
      return PyExc_KeyError;
    case ErrorKind::kMemory:
      return PyExc_MemoryError;
    default:
      return PyExc_RuntimeError;
  }
}

const char* type_name(const char* type) {
  switch (*type) {
    case 't': return "torch.Tensor";
    case 'i': case 'j': case 'u': return "int";
    case 'd': return "float";
    case 'b': return "bool";
    case 's': return "str";
    case 'e': return "torch.dtype";
    case 'v': return "torch.device";
    case 'S': return "number";
    case 'I': return "list[int]";
    case 'D': return "list[float]";
    case 'T': return "list[torch.Tensor]";
    case 'n': return "None";
    case '(': return "tuple";
    default: return "object";
  }
}

std::string signature(const Function& function) {
  std::string text = std::string(function.name) + "(";
  for (int i = 0; i < function.parameter_count; i++) {
    const Parameter& parameter = function.parameters[i];
    const bool optional = *parameter.type == '?';
    text += i == 0 ? "" : ", ";
    text += parameter.name != nullptr ? parameter.name : "arg" + std::to_string(i);
    text += std::string(": ") + type_name(parameter.type + optional) + (optional ? " | None" : "");
  }
  const bool optional = *function.result_type == '?';
  return text + ") -> " + type_name(function.result_type + optional);
}

// Functions of one name: tried in the order of their definition, as pybind11 does.
struct Overloads {
  std::vector<Function> functions;
};

bool bind_arguments(const Function& function, PyObject* args, PyObject* kwargs, std::vector<Value>* values,
                    Arena* arena) {
  const Py_ssize_t positional = PyTuple_GET_SIZE(args);
  Py_ssize_t keywords_used = 0;
  if (positional > function.parameter_count) {
    return false;
  }
  for (int i = 0; i < function.parameter_count; i++) {
    const Parameter& parameter = function.parameters[i];
    PyObject* object = i < positional ? PyTuple_GET_ITEM(args, i) : nullptr;
    if (object == nullptr && kwargs != nullptr && parameter.name != nullptr) {
      object = PyDict_GetItemString(kwargs, parameter.name);
      keywords_used += object != nullptr;
    }
    if (object != nullptr) {
      if (!read_argument(object, parameter.type, &(*values)[i], arena)) {
        return false;
      }
    } else if (parameter.has_default) {
      (*values)[i] = parameter.default_value;
    } else {
      return false;
    }
  }
  return kwargs == nullptr || keywords_used == PyDict_Size(kwargs);
}

void raise_no_match(const Overloads& overloads, PyObject* args) {
  std::string text = std::string(overloads.functions[0].name) +
                     "(): incompatible function arguments. The following argument types are supported:\n";
  for (size_t i = 0; i < overloads.functions.size(); i++) {
    text += "    " + std::to_string(i + 1) + ". " + signature(overloads.functions[i]) + "\n";
  }
  text += "\nInvoked with types: ";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
    text += (i == 0 ? "" : ", ") + std::string(Py_TYPE(PyTuple_GET_ITEM(args, i))->tp_name);
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
}

PyObject* call_function(PyObject* self, PyObject* args, PyObject* kwargs) {
  auto* overloads = static_cast<Overloads*>(PyCapsule_GetPointer(self, nullptr));
  for (const Function& function : overloads->functions) {
    Arena arena;
    std::vector<Value> values(function.parameter_count);
    if (!bind_arguments(function, args, kwargs, &values, &arena)) {
      PyErr_Clear();
      continue;
    }
    Value result;
    static thread_local Failure failure;
    if (!function.call(function.closure, values.data(), &result, &failure)) {
      PyErr_SetString(exception_class(failure.kind), failure.text);
      return nullptr;
    }
    return to_python(result);
  }
  raise_no_match(*overloads, args);
  return nullptr;
}

PyObject* make_callable(const Function& function) {
  // Lives as long as the library, which is never unloaded.
  auto* overloads = new Overloads{{function}};
  auto* method = new PyMethodDef{function.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_function)),
                                 METH_VARARGS | METH_KEYWORDS, nullptr};
  auto* documentation = new std::string(signature(function) + "\n\n" + function.documentation);
  method->ml_doc = documentation->c_str();
  PyObject* capsule = PyCapsule_New(overloads, nullptr, nullptr);
  PyObject* callable = PyCFunction_New(method, capsule);
  Py_XDECREF(capsule);
  return callable;
}

bool add_function(PyObject* functions, const Function& function) {
  PyObject* known = PyDict_GetItemString(functions, function.name);
  if (known != nullptr) {
    auto* overloads = static_cast<Overloads*>(PyCapsule_GetPointer(PyCFunction_GetSelf(known), nullptr));
    overloads->functions.push_back(function);
    return true;
  }
  PyObject* callable = make_callable(function);
  const bool good = callable != nullptr && PyDict_SetItemString(functions, function.name, callable) == 0;
  Py_XDECREF(callable);
  return good;
}

// [(library, dispatch key, schema, callable or None, types of parameters, type of result), ...]
PyObject* library_entries(const ModuleTable& table) {
  PyObject* entries = PyList_New(0);
  for (int i = 0; i < table.entry_count && entries != nullptr; i++) {
    const LibraryEntry& entry = table.entries[i];
    PyObject* callable = entry.function != nullptr ? make_callable(*entry.function) : Py_NewRef(Py_None);
    PyObject* types = PyList_New(0);
    for (int p = 0; entry.function != nullptr && p < entry.function->parameter_count; p++) {
      PyObject* type = PyUnicode_FromString(entry.function->parameters[p].type);
      PyList_Append(types, type);
      Py_DECREF(type);
    }
    PyObject* item = Py_BuildValue("(sssNNs)", entry.library, entry.dispatch_key, entry.schema, callable, types,
                                   entry.function != nullptr ? entry.function->result_type : "");
    PyList_Append(entries, item);
    Py_DECREF(item);
  }
  return entries;
}

PyObject* load(PyObject*, PyObject* argument) {
  const char* path = PyUnicode_AsUTF8(argument);
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    if (!PyErr_Occurred()) {
      PyErr_SetString(PyExc_ImportError, dlerror());
    }
    return nullptr;
  }
  using GetTable = const ModuleTable* (*)();
  const auto get_table = reinterpret_cast<GetTable>(dlsym(library, "torch_abi_module"));
  if (get_table == nullptr) {
    Py_RETURN_NONE;
  }
  const ModuleTable* table = get_table();
  PyObject* functions = PyDict_New();
  for (int i = 0; i < table->function_count; i++) {
    if (!add_function(functions, table->functions[i])) {
      Py_DECREF(functions);
      return nullptr;
    }
  }
  return Py_BuildValue("(NNs)", functions, library_entries(*table), table->documentation);
}

PyMethodDef g_methods[] = {{"load", &load, METH_O,
                            "load(path) -> (functions, library entries, docstring): open a candidate; None if it was "
                            "compiled with other headers."},
                           {nullptr, nullptr, 0, nullptr}};
PyModuleDef g_module = {PyModuleDef_HEAD_INIT, "musadata_torch_abi", "Small torch headers: Python's side.", -1,
                        g_methods,             nullptr,              nullptr,                               nullptr,
                        nullptr};

}  // namespace
}  // namespace torch_abi

PyMODINIT_FUNC PyInit_musadata_torch_abi() {
  using namespace torch_abi;
  g_torch = PyImport_ImportModule("torch");
  g_tensor_class = g_torch == nullptr ? nullptr : PyObject_GetAttrString(g_torch, "Tensor");
  return g_tensor_class == nullptr ? nullptr : PyModule_Create(&g_module);
}
