// The parts of the small headers that are no templates: compiled once, linked into every candidate.
#include <torch_abi/module.h>

#include <deque>

namespace torch_abi {

Text& Text::operator<<(const char* part) {
  done += part == nullptr ? "(null)" : part;
  return *this;
}
Text& Text::operator<<(const std::string& part) {
  done += part;
  return *this;
}
Text& Text::operator<<(int64_t part) {
  done += std::to_string(part);
  return *this;
}
Text& Text::operator<<(double part) {
  char digits[40];
  snprintf(digits, sizeof digits, "%g", part);
  done += digits;
  return *this;
}
Text& Text::operator<<(char part) {
  done += part;
  return *this;
}

std::string default_check_text(const char* condition) {
  return text("Expected ", condition, " to be true, but got false.  (Could this error message be improved?  If so, ",
              "please report an enhancement request to PyTorch.)");
}

void throw_error(std::string text, ErrorKind kind) { throw Error(text, kind); }

void throw_not_implemented(const char* name, c10::ScalarType dtype) {
  throw_error(text("\"", name, "\" not implemented for '", c10::toString(dtype), "'"), ErrorKind::kNotImplemented);
}

Value call(const char* name, const char* overload, std::initializer_list<Value> arguments) {
  Value result;
  if (!torch_abi_call(name, overload, arguments.begin(), static_cast<int>(arguments.size()), &result, 1)) {
    throw Error(torch_abi_failure());
  }
  return result;
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

namespace c10 {

Device::Device(const std::string& text) : type_(text.rfind("cuda", 0) == 0 ? kCUDA : kCPU), index_(-1) {
  const size_t colon = text.find(':');
  if (colon != std::string::npos) {
    index_ = std::stoi(text.substr(colon + 1));
  }
}

std::string Device::str() const {
  return std::string(is_cuda() ? "cuda" : "cpu") + (has_index() ? ":" + std::to_string(index_) : "");
}

std::ostream& operator<<(std::ostream& stream, ScalarType dtype) { return stream << toString(dtype); }
std::ostream& operator<<(std::ostream& stream, const Device& device) { return stream << device.str(); }
std::ostream& operator<<(std::ostream& stream, DeviceType type) { return stream << (type == kCUDA ? "cuda" : "cpu"); }
std::ostream& operator<<(std::ostream& stream, IntArrayRef values) {
  stream << "[";
  for (size_t i = 0; i < values.size(); i++) {
    stream << (i == 0 ? "" : ", ") << values[i];
  }
  return stream << "]";
}

}  // namespace c10

namespace at {

int64_t TensorBase::wrap(int64_t d) const {
  const int64_t n = dim();
  if (n == 0) {
    torch_abi::throw_error(str("Dimension specified as ", d, " but tensor has no dimensions"),
                           torch_abi::ErrorKind::kIndex);
  }
  if (d < -n || d >= n) {
    torch_abi::throw_error(
        str("Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", d, ")"),
        torch_abi::ErrorKind::kIndex);
  }
  return d < 0 ? d + n : d;
}

int64_t TensorBase::size(int64_t d) const { return torch_abi::torch_abi_sizes(checked())[wrap(d)]; }
int64_t TensorBase::stride(int64_t d) const { return torch_abi::torch_abi_strides(checked())[wrap(d)]; }

void* TensorBase::typed_data(ScalarType expected) const {
  if (expected != scalar_type()) {
    torch_abi::throw_error(str("expected scalar type ", toString(expected), " but found ", toString(scalar_type())));
  }
  return data_ptr();
}

void TensorBase::check_rank(size_t rank) const {
  if (static_cast<size_t>(dim()) != rank) {
    torch_abi::throw_error(str("TensorAccessor expected ", rank, " dims but tensor has ", dim()));
  }
}

Tensor factory(const char* name, std::initializer_list<torch_abi::Value> leading, const TensorOptions& options) {
  std::vector<torch_abi::Value> arguments(leading);
  arguments.push_back(named("dtype", make(options.dtype_opt())));
  arguments.push_back(named("device", make(options.device_opt())));
  if (options.memory_format_opt()) {
    arguments.push_back(named("memory_format", make(*options.memory_format_opt())));
  }
  const std::string full = name;
  const size_t dot = full.find('.');
  const std::string base = full.substr(0, dot);
  const std::string overload = dot == std::string::npos ? "" : full.substr(dot + 1);
  torch_abi::Value result;
  if (!torch_abi::torch_abi_call(base.c_str(), overload.c_str(), arguments.data(), static_cast<int>(arguments.size()),
                                 &result, 1)) {
    torch_abi::throw_error(torch_abi::torch_abi_failure());
  }
  return Tensor::from(result);
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << "Tensor" << tensor.sizes(); }

}  // namespace at
