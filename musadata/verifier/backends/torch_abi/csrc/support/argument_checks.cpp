// Checks of arguments; see torch_abi/argument_checks.h.
#include <torch_abi/argument_checks.h>

namespace at {
namespace {

std::string described(const TensorArg& x) {
  return torch_abi::text({"argument #", x.pos, " '", x.name, "'"});
}

template <class Property>
void check_same(CheckedFrom from, TensorArgs all, const char* what, Property property) {
  for (const TensorArg& x : all) {
    TORCH_CHECK(property(*all[0]) == property(*x), "Expected ", described(all[0]), " and ", described(x),
                " to have the same ", what, " (while checking arguments for ", from, ")");
  }
}

}  // namespace

void checkDim(CheckedFrom from, const TensorArg& x, int64_t rank) {
  TORCH_CHECK(x->dim() == rank, "Expected ", rank, "-dimensional tensor, but got ", x->dim(),
              "-dimensional tensor for ", described(x), " (while checking arguments for ", from, ")");
}
void checkDimRange(CheckedFrom from, const TensorArg& x, int64_t least, int64_t end) {
  TORCH_CHECK(x->dim() >= least && x->dim() < end, "Expected ", least, " to ", end - 1, " dimensions, but got ",
              x->dim(), "-dimensional tensor for ", described(x), " (while checking arguments for ", from, ")");
}
void checkSameDim(CheckedFrom from, const TensorArg& a, const TensorArg& b) {
  check_same(from, {a, b}, "dimension", [](const Tensor& x) { return x.dim(); });
}
void checkContiguous(CheckedFrom from, const TensorArg& x) {
  TORCH_CHECK(x->is_contiguous(), "Expected contiguous tensor, but got non-contiguous tensor for ", described(x),
              " (while checking arguments for ", from, ")");
}
void checkAllContiguous(CheckedFrom from, TensorArgs all) {
  for (const TensorArg& x : all) {
    checkContiguous(from, x);
  }
}
void checkSize(CheckedFrom from, const TensorArg& x, IntArrayRef sizes) {
  TORCH_CHECK(x->sizes() == sizes, "Expected tensor of size ", sizes, ", but got tensor of size ", x->sizes(), " for ",
              described(x), " (while checking arguments for ", from, ")");
}
void checkSize(CheckedFrom from, const TensorArg& x, int64_t d, int64_t size) {
  TORCH_CHECK(x->size(d) == size, "Expected tensor to have size ", size, " at dimension ", d, ", but got size ",
              x->size(d), " for ", described(x), " (while checking arguments for ", from, ")");
}
void checkNumel(CheckedFrom from, const TensorArg& x, int64_t count) {
  TORCH_CHECK(x->numel() == count, "Expected tensor for ", described(x), " to have ", count, " elements; but it has ",
              x->numel(), " elements (while checking arguments for ", from, ")");
}
void checkScalarType(CheckedFrom from, const TensorArg& x, ScalarType type) { checkScalarTypes(from, x, type); }
void checkScalarTypes(CheckedFrom from, const TensorArg& x, ArrayRef<ScalarType> types) {
  bool found = false;
  for (const ScalarType type : types) {
    found = found || x->scalar_type() == type;
  }
  TORCH_CHECK(found, "Expected tensor for ", described(x), " to have another scalar type than ", x->scalar_type(),
              " (while checking arguments for ", from, ")");
}
void checkDefined(CheckedFrom from, const TensorArg& x) {
  TORCH_CHECK(x->defined(), "Expected tensor for ", described(x), " to be non-null, but it was undefined ",
              " (while checking arguments for ", from, ")");
}
void checkAllDefined(CheckedFrom from, TensorArgs all) {
  for (const TensorArg& x : all) {
    checkDefined(from, x);
  }
}
void checkDeviceType(CheckedFrom from, TensorList tensors, DeviceType type) {
  for (const Tensor& x : tensors) {
    TORCH_CHECK(!x.defined() || x.device().type() == type, "Expected tensor to have ", type, " DeviceType, but got ",
                x.device(), " (while checking arguments for ", from, ")");
  }
}
void checkAllSameNumel(CheckedFrom from, TensorArgs all) {
  check_same(from, all, "number of elements", [](const Tensor& x) { return x.numel(); });
}
void checkAllSameGPU(CheckedFrom from, TensorArgs all) {
  check_same(from, all, "device", [](const Tensor& x) { return x.device(); });
}
void checkAllSameType(CheckedFrom from, TensorArgs all) {
  check_same(from, all, "type", [](const Tensor& x) { return x.scalar_type(); });
}
void checkAllSameSize(CheckedFrom from, TensorArgs all) {
  check_same(from, all, "size", [](const Tensor& x) { return x.sizes(); });
}

}  // namespace at
