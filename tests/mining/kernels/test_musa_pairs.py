"""Kernels for CUDA and MUSA in one repository, and what is bound without being linked."""

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.mining.kernels.kernel_rows import KernelMiner
from musadata.mining.kernels.kernel_tasks import check_licenses
from musadata.mining.kernels.repository import is_musa
from musadata.records import KernelDraft, Reject
from musadata.sources.code import CodeFiles
from musadata.sources.trees import MemoryTree

MIT = "Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to deal in the Software without restriction"  # noqa: E501
SCALE = """#include "common.h"
__global__ void scale_kernel(float* x) { x[0] *= 2; }
__global__ void unused_kernel(float* x) {}
void scale(int x) { scale_kernel<<<1, 1>>>(nullptr); }
"""
FILES = {
    "LICENSE": MIT,
    "setup.py": 'CUDAExtension("pkg._C", glob("csrc/**/*"))\n',
    "csrc/common.h": "#pragma once\nstruct Unneeded { int a; };\nint unneeded(int x);\n",
    "csrc/bind.cpp": """void scale(int x); void host_only(int x) {} void shift(int x);
#define REGISTER_IMPL(name, target) static int name##_registered = 0;
void first_cuda(int x) {}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale", &scale); m.def("host_only", &host_only); m.def("shift", &shift); m.def("never", &host_only);
}
""",
    "csrc/cuda/scale_cuda.cu": SCALE,
    "csrc/musa/scale_musa.mu": SCALE.replace("scale_kernel", "scale_musa_kernel"),
    "csrc/cuda/shift_cuda.cu": (
        "#define KERNEL __global__ void\nKERNEL shiftKernel(float* x) {}\n"
        "void shift(int x) { shiftKernel<<<1, 1>>>(0); }\n"
    ),
    "csrc/moore/shift_moore.mu": "__global__ void shift_kernel(float* x) {}\nvoid s() { shift_kernel<<<1, 1>>>(0); }\n",
    "csrc/musa/only_musa.mu": "__global__ void only_kernel(float* x) {}\n",
    "pkg/ops.py": (
        "from pkg import _C\n\ndef scale(x):\n    return _C.scale(x)\n\n"
        "def host(x):\n    return _C.host_only(x), _C.absent(x)\n"
    ),
}


def mine(files):
    tree = MemoryTree({path: text.encode() for path, text in files.items()})
    source = CodeFiles("test", tree, SourceConfig(SourceType.DIRECTORY), seed=1, kernels=True)
    miner = KernelMiner(source)
    found = [item for unit in source.units() for item in miner.rows(unit, sandbox=None)]
    rows = {item.kernel.kernels[0]: item.kernel for item in found if isinstance(item, KernelDraft)}
    return rows, [item for item in found if isinstance(item, Reject)]


@pytest.fixture(scope="module")
def mined():
    return mine(FILES)


def test_a_kernel_of_both_platforms_has_both_sources(mined):
    rows, _ = mined
    row = rows["scale_kernel"]
    assert (row.wrapper, row.binding) == ("scale", "scale")
    [musa] = row.musa
    assert musa.path == "csrc/musa/scale_musa.mu"
    assert "scale_musa_kernel<<<" in musa.text
    assert "unused_kernel" not in musa.text
    assert not any(is_musa(file.path) for file in row.native)


def test_a_pair_without_wrapper_is_a_row(mined):
    rows, _ = mined
    row = rows["shiftKernel"]
    assert (row.wrapper, row.binding, row.host) == ("", "", "shift")
    assert [file.path for file in row.native] == ["csrc/cuda/shift_cuda.cu"]
    assert [file.path for file in row.musa] == ["csrc/moore/shift_moore.mu"]
    assert row.provenance.path == "csrc/cuda/shift_cuda.cu"


def test_a_kernel_of_one_platform_is_no_pair(mined):
    rows, _ = mined
    assert set(rows) == {"scale_kernel", "shiftKernel", "unused_kernel"}


def test_what_is_bound_and_not_linked_is_a_reject(mined):
    _, rejects = mined
    assert {(item.reason, item.detail) for item in rejects} == {
        ("no_kernel_found", "pkg._C.host_only of host"),
        ("not_bound", "pkg._C.absent of host"),
        ("no_kernel_found", "TORCH_EXTENSION_NAME.never"),
        ("not_called_from_python", "TORCH_EXTENSION_NAME.shift"),
    }
    assert {(item.dataset, item.step) for item in rejects} == {("kernels", "pair")}


def test_a_row_is_under_the_licences_of_all_its_files():
    rows, _ = mine(FILES | {"csrc/musa/scale_musa.mu": "// SPDX-License-Identifier: GPL-3.0-only\n" + SCALE})
    row = rows["scale_kernel"]
    assert {file.license for file in row.native} == {"MIT"}
    assert row.provenance.license == "GPL-3.0-only AND MIT"
    reject = check_licenses(row, ("MIT", "Apache-2.0"))
    assert reject is not None
    assert reject.detail == "GPL-3.0-only of csrc/musa/scale_musa.mu"
    assert check_licenses(rows["shiftKernel"], ("MIT",)) is None


def test_a_header_that_is_not_understood_makes_the_row_unknown():
    header = "// Copyright (c) ACME. All rights reserved. Reproduction is strictly prohibited without a license.\n"
    rows, _ = mine(FILES | {"csrc/cuda/scale_cuda.cu": header + SCALE})
    assert rows["scale_kernel"].provenance.license == "NOASSERTION"
    assert check_licenses(rows["scale_kernel"], ("MIT",)) is not None


def test_a_row_holds_no_registrations_and_types_of_other_kernels():
    registrations = (
        "#define REGISTER_IMPL(name, target) Registrar name##_registered(target)\nstruct Used { int a; };\n"
        "struct Foreign { int b; };\nvoid other_impl(Foreign f) {}\nvoid scale_impl(Used u) { scale(1); }\n"
        "REGISTER_IMPL(scale, scale_impl);\nREGISTER_IMPL(other, other_impl);\n"
    )
    rows, _ = mine(FILES | {"csrc/bind.cpp": registrations + FILES["csrc/bind.cpp"]})
    [bind] = [file.text for file in rows["scale_kernel"].native if file.path == "csrc/bind.cpp"]
    assert "REGISTER_IMPL(scale, scale_impl);" in bind
    assert "struct Used" in bind
    assert "other" not in bind
    assert "Foreign" not in bind
