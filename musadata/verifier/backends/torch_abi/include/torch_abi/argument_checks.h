// ATen/TensorUtils.h: checks of arguments, by name and position.
#pragma once
#include <torch_abi/tensor.h>

namespace at {

struct TensorArg {
  const Tensor& tensor;
  const char* name;
  int pos;
  TensorArg(const Tensor& tensor_, const char* name_, int pos_) : tensor(tensor_), name(name_), pos(pos_) {}
  const Tensor* operator->() const { return &tensor; }
  const Tensor& operator*() const { return tensor; }
};
using TensorGeometryArg = TensorArg;
using CheckedFrom = const char*;
using TensorArgs = ArrayRef<TensorArg>;

void checkDim(CheckedFrom from, const TensorArg& x, int64_t rank);
void checkDimRange(CheckedFrom from, const TensorArg& x, int64_t least, int64_t end);
void checkSameDim(CheckedFrom from, const TensorArg& a, const TensorArg& b);
void checkContiguous(CheckedFrom from, const TensorArg& x);
void checkAllContiguous(CheckedFrom from, TensorArgs all);
void checkSize(CheckedFrom from, const TensorArg& x, IntArrayRef sizes);
void checkSize(CheckedFrom from, const TensorArg& x, int64_t d, int64_t size);
void checkNumel(CheckedFrom from, const TensorArg& x, int64_t count);
void checkScalarType(CheckedFrom from, const TensorArg& x, ScalarType type);
void checkScalarTypes(CheckedFrom from, const TensorArg& x, ArrayRef<ScalarType> types);
void checkDefined(CheckedFrom from, const TensorArg& x);
void checkAllDefined(CheckedFrom from, TensorArgs all);
void checkDeviceType(CheckedFrom from, TensorList tensors, DeviceType type);
void checkAllSameNumel(CheckedFrom from, TensorArgs all);
void checkAllSameGPU(CheckedFrom from, TensorArgs all);
void checkAllSameType(CheckedFrom from, TensorArgs all);
void checkAllSameSize(CheckedFrom from, TensorArgs all);
inline void checkSameNumel(CheckedFrom from, const TensorArg& a, const TensorArg& b) { checkAllSameNumel(from, {a, b}); }
inline void checkSameGPU(CheckedFrom from, const TensorArg& a, const TensorArg& b) { checkAllSameGPU(from, {a, b}); }
inline void checkSameType(CheckedFrom from, const TensorArg& a, const TensorArg& b) { checkAllSameType(from, {a, b}); }
inline void checkSameSize(CheckedFrom from, const TensorArg& a, const TensorArg& b) { checkAllSameSize(from, {a, b}); }

}  // namespace at
