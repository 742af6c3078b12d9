// What a candidate binds; see torch_abi/module.h.
#include <torch_abi/module.h>

#include <deque>

namespace pybind11 {

#define TORCH_ABI_PYTHON_ERROR(name, kind)                                             \
  name::name(const std::string& text) : Error(text, torch_abi::ErrorKind::kind) {} \
  name::name(const name&) noexcept = default;                                          \
  name::~name() = default;
TORCH_ABI_PYTHON_ERROR(value_error, kValue)
TORCH_ABI_PYTHON_ERROR(type_error, kType)
TORCH_ABI_PYTHON_ERROR(index_error, kIndex)
TORCH_ABI_PYTHON_ERROR(key_error, kKey)
#undef TORCH_ABI_PYTHON_ERROR

}  // namespace pybind11

namespace torch_abi {
namespace {

// Everything that one candidate binds. Deques, because the tables point into them; reached through a function,
// because candidates fill it before main's initialisers have run in any particular order.
struct Registry {
  std::deque<std::string> texts;
  std::deque<std::vector<Parameter>> parameters;
  std::deque<Function> made;
  std::vector<Function> functions;
  std::vector<LibraryEntry> entries;
  const char* documentation = "";
  void (*module_body)(Module&) = nullptr;
  ModuleTable table = {};

  const char* keep(const std::string& text) {
    texts.push_back(text);
    return texts.back().c_str();
  }
};

Registry& registry() {
  static Registry* instance = new Registry;  // never destroyed: Python may call bound functions until the very end
  return *instance;
}

void name_parameter(Parameter* parameter, const pybind11::arg& argument) {
  parameter->name = argument.name;
  parameter->has_default = argument.has_default;
  parameter->default_value = argument.default_value;
  if (argument.default_value.tag == Tag::kInt) {
    parameter->default_value.real = static_cast<double>(argument.default_value.integer);  // 1 for a double
  }
}

}  // namespace

const Function* make_function(const char* name, const TypeCode* types, int count,
                              bool (*call)(void*, const Value*, Value*, Failure*), void* closure, const Extra* extras,
                              int extra_count) {
  Registry& all = registry();
  std::vector<Parameter>& parameters = all.parameters.emplace_back();
  for (int i = 0; i < count; i++) {
    parameters.push_back({nullptr, types[i].text, false, {}});
  }
  const char* documentation = "";
  int next = 0;
  for (int i = 0; i < extra_count; i++) {
    if (extras[i].argument != nullptr && next < count) {
      name_parameter(&parameters[next++], *extras[i].argument);
    } else if (extras[i].documentation != nullptr) {
      documentation = all.keep(extras[i].documentation);
    }
  }
  all.made.push_back({all.keep(name), documentation, types[count].text, call, closure, parameters.data(), count});
  return &all.made.back();
}

void add_function(const Function* function) { registry().functions.push_back(*function); }

void add_entry(const char* library, const char* dispatch_key, const std::string& schema, const Function* function) {
  registry().entries.push_back({library, dispatch_key, registry().keep(schema), function});
}

Extra::Extra(const pybind11::arg& argument_) : argument(&argument_) {}
Extra::Extra(const char* documentation_) : documentation(documentation_) {}

const char*& module_documentation() { return registry().documentation; }

ModuleInit::ModuleInit(void (*body)(Module&)) { registry().module_body = body; }

}  // namespace torch_abi

// The one symbol that a candidate exports.
extern "C" __attribute__((visibility("default"))) const torch_abi::ModuleTable* torch_abi_module() {
  torch_abi::Registry& all = torch_abi::registry();
  if (all.module_body != nullptr) {
    torch_abi::Module module;
    all.module_body(module);
    all.module_body = nullptr;
  }
  all.table = {all.functions.data(), static_cast<int>(all.functions.size()), all.entries.data(),
               static_cast<int>(all.entries.size()), all.documentation};
  return &all.table;
}
