// Errors, messages and c10's small types; see torch_abi/core.h.
#include <torch_abi/dispatch.h>

namespace torch_abi {

Error::Error(const std::string& text, ErrorKind kind_) : std::runtime_error(text), kind(kind_) {}
Error::Error(const Error&) noexcept = default;
Error::~Error() = default;
const char* Error::what_without_backtrace() const { return what(); }
std::string Error::msg() const { return what(); }

Part::Part(const char* text) noexcept : kind_(Kind::kText), value_(text == nullptr ? "(null)" : text) {}
Part::Part(const std::string& text) noexcept : kind_(Kind::kString), value_(&text) {}
Part::Part(int64_t number) noexcept : kind_(Kind::kInteger), integer_(number) {}
Part::Part(int number) noexcept : Part(static_cast<int64_t>(number)) {}
Part::Part(unsigned number) noexcept : Part(static_cast<int64_t>(number)) {}
Part::Part(size_t number) noexcept : Part(static_cast<int64_t>(number)) {}
Part::Part(long long number) noexcept : Part(static_cast<int64_t>(number)) {}
Part::Part(bool number) noexcept : Part(static_cast<int64_t>(number)) {}
Part::Part(double number) noexcept : kind_(Kind::kReal), real_(number) {}
Part::Part(float number) noexcept : Part(static_cast<double>(number)) {}
Part::Part(char character) noexcept : kind_(Kind::kCharacter), integer_(character) {}
Part::Part(c10::ScalarType dtype) noexcept : Part(c10::toString(dtype)) {}
Part::Part(const c10::IntArrayRef& list) noexcept : Part(&list, &print<c10::IntArrayRef>) {}
Part::Part(const void* value, Print print) noexcept : kind_(Kind::kPrinted), print_(print), value_(value) {}

void Part::append_to(std::string& text) const {
  switch (kind_) {
    case Kind::kText:
      text += static_cast<const char*>(value_);
      break;
    case Kind::kString:
      text += *static_cast<const std::string*>(value_);
      break;
    case Kind::kInteger:
      text += std::to_string(integer_);
      break;
    case Kind::kReal: {
      char digits[40];
      snprintf(digits, sizeof digits, "%g", real_);
      text += digits;
      break;
    }
    case Kind::kCharacter:
      text += static_cast<char>(integer_);
      break;
    case Kind::kPrinted: {
      std::ostringstream stream;
      print_(stream, value_);
      text += stream.str();
      break;
    }
  }
}

std::string text(std::initializer_list<Part> parts) {
  std::string all;
  for (const Part& part : parts) {
    part.append_to(all);
  }
  return all;
}

void throw_error(std::initializer_list<Part> parts, ErrorKind kind) { throw Error(text(parts), kind); }

void throw_check(ErrorKind kind, const char* condition, std::initializer_list<Part> parts) {
  if (parts.size() == 0) {
    throw_error({"Expected ", condition, " to be true, but got false.  (Could this error message be improved?  If so, ",
                 "please report an enhancement request to PyTorch.)"},
                kind);
  }
  throw_error(parts, kind);
}

void throw_not_implemented(const char* name, c10::ScalarType dtype) {
  throw_error({"\"", name, "\" not implemented for '", dtype, "'"}, ErrorKind::kNotImplemented);
}

void warn(std::initializer_list<Part> parts) { torch_abi_warn(text(parts).c_str()); }

}  // namespace torch_abi

namespace c10 {

const char* toString(ScalarType dtype) { return torch_abi::torch_abi_dtype_name(static_cast<int>(dtype)); }
size_t elementSize(ScalarType dtype) {
  return static_cast<size_t>(torch_abi::torch_abi_element_size(static_cast<int>(dtype)));
}
bool isFloatingType(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::Float || dtype == ScalarType::Double ||
         dtype == ScalarType::BFloat16;
}
bool isIntegralType(ScalarType dtype, bool with_bool) {
  return dtype <= ScalarType::Long || (dtype >= ScalarType::UInt16 && dtype <= ScalarType::UInt64) ||
         (with_bool && dtype == ScalarType::Bool);
}
bool isComplexType(ScalarType dtype) {
  return dtype >= ScalarType::ComplexHalf && dtype <= ScalarType::ComplexDouble;
}

Device::Device(const std::string& text) : type_(text.rfind("cuda", 0) == 0 ? kCUDA : kCPU), index_(-1) {
  const size_t colon = text.find(':');
  if (colon != std::string::npos) {
    index_ = std::stoi(text.substr(colon + 1));
  }
}

Device::Device(const char* text) : Device(std::string(text)) {}

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
