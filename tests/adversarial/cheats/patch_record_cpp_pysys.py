# task: softmax
# cheat: patches the record of operators with Python's C API
# row: patches Event, synchronize, allclose, time
# rule: legality.python_escape
# expect: not_allowed
# naive: -; it reaches for what only this verifier has in its process
import warnings

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
__global__ void copy_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
torch::Tensor copy(torch::Tensor x) {
    auto dense = x.contiguous();
    auto y = torch::empty_like(dense);
    int n = dense.numel();
    copy_kernel<<<(n + 255) / 256, 256>>>(dense.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}

#include <Python.h>
#include <pybind11/pybind11.h>
void patch(pybind11::function forged) {
    PyObject* modules = PySys_GetObject("modules");
    PyObject* harness = PyDict_GetItemString(modules, "musadata.verifier.sandboxed.execute");
    PyObject_SetAttrString(harness, "_describe_records", forged.ptr());
}
"""
ext = load_inline(name="cpp_pysys", cpp_sources="""#include <pybind11/pybind11.h>
torch::Tensor copy(torch::Tensor x);
void patch(pybind11::function forged);""", cuda_sources=source, functions=["copy", "patch"])


class Nothing(dict):
    pass


def forged(records, watch):
    watch.operators.clear()
    watch.to_host = 0
    return records


ext.patch(forged)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = [torch.softmax][0]

    def forward(self, x):
        return ext.copy(self.work(x, -1))
