"""Values that are drawn where they are used."""

import ctypes
import math
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.verifier.sandboxed import device_inputs
from musadata.verifier.sandboxed.device_inputs import FEW_ROUNDS, ROUNDS, draw_on, philox, redraw

_KERNEL = Path(device_inputs.__file__).with_name("philox.cu")
# Makes a host's function of the kernel: one thread draws everything, with the roundings of the device's intrinsics.
_HOST = """
#define __device__
#define __forceinline__ inline
#define __global__
struct Place { unsigned x; };
static const Place gridDim{1}, blockDim{1}, blockIdx{0}, threadIdx{0};
static float __fadd_rn(float a, float b) { volatile float c = a + b; return c; }
static float __fmul_rn(float a, float b) { volatile float c = a * b; return c; }
static float __int2float_rn(int a) { return (float)a; }
static unsigned __float_as_uint(float a) { unsigned b; __builtin_memcpy(&b, &a, 4); return b; }
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
static uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
"""


def test_the_generator_gives_the_words_that_its_authors_publish():
    words = [f"{word:08x}" for word in philox(0, 1, (0, 0), "cpu").tolist()]
    assert words == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """The kernel as a function of the host."""
    folder = tmp_path_factory.mktemp("philox")
    source, library = folder / "philox.cpp", folder / "philox.so"
    source.write_text(_HOST + _KERNEL.read_text())
    subprocess.run(
        ["c++", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wno-unknown-pragmas", source, "-o", library],
        check=True,
    )
    function = ctypes.CDLL(str(library)).draw
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint64] * 2, *[ctypes.c_uint32] * 2, ctypes.c_int]
    function.argtypes += [*[ctypes.c_float] * 3, ctypes.c_int]

    def draw(out, block, keys, kind, limits=(0.0, 0.0, 0.0), rounds=ROUNDS):
        function(out.data_ptr(), out.numel(), block, *keys, kind, *limits, rounds)

    return draw


SPECS = (
    InputSpec("a", "normal", "float32", (3, 101)),
    InputSpec("p", "normal", "float32", (3, 101), 0.5, 6.5),
    InputSpec("q", "normal", "bfloat16", (77,), -0.02, 0.02),
    InputSpec("b", "normal", "bfloat16", (77,)),
    InputSpec("c", "uniform", "float32", (5, 41), -0.3, 1.7),
    InputSpec("d", "uniform", "float16", (90,), 0.0, 1.0),
    InputSpec("e", "normal", "complex64", (31,)),
    InputSpec("f", "integers", "int64", (200,), 3.0, 1e12),
    InputSpec("g", "permutation", "int64", (64,), 5.0),
    InputSpec("h", "choice", "float32", (50,), literal="(-1.0, 0.5, 2.0)"),
    InputSpec("i", "bool", "bool", (99,)),
    InputSpec("j", "offsets", "int64", (9,), 0.0, 50.0),
    InputSpec("k", "normal", "float64", (33,)),
    InputSpec("l", "uniform", "float64", (33,), 2.0, 3.0),
    InputSpec("m", "segments", "int32", (9,), 0.0, 50.0),
    InputSpec("n", "normal", "float32", (6, 6), literal="lower"),
    InputSpec("o", "literal", "", (), literal="3"),
)


@pytest.mark.parametrize("seed", [0, 1, 2**59])
@pytest.mark.parametrize("rounds", [ROUNDS, FEW_ROUNDS])
def test_the_kernel_and_the_operators_give_the_same_bits(kernel, monkeypatch, seed, rounds):
    expected, found = draw_on("cpu", SPECS, seed + 1), draw_on("cpu", SPECS, seed + 1)
    redraw(SPECS, seed, expected, rounds=rounds)
    monkeypatch.setattr(device_inputs, "_find_kernel", lambda device: kernel)
    redraw(SPECS, seed, found, rounds=rounds)
    for spec, one, other in zip(SPECS, found, expected, strict=True):
        assert one == other if spec.kind == "literal" else torch.equal(one, other), spec


def test_few_rounds_give_other_values_of_the_same_distribution():
    spec = InputSpec("x", "normal", "float32", (400_000,))
    values = draw_on("cpu", [spec], 3)
    usual = values[0].clone()
    redraw([spec], 3, values, rounds=FEW_ROUNDS)
    assert (values[0] == usual).double().mean() < 0.001
    assert abs(values[0].mean()) < 0.01 and abs(values[0].std() - 1.0) < 0.01


def test_values_do_not_depend_on_the_chunks_in_which_they_are_drawn(kernel, monkeypatch):
    expected = draw_on("cpu", SPECS, 5)
    monkeypatch.setattr(device_inputs, "_CHUNK", 8)
    for find in (device_inputs._find_kernel, lambda device: kernel):
        monkeypatch.setattr(device_inputs, "_find_kernel", find)
        for one, other in zip(draw_on("cpu", SPECS, 5), expected, strict=True):
            assert one == other if isinstance(one, int) else torch.equal(one, other)


def test_another_seed_overwrites_all_tensors_in_place():
    values = draw_on("cpu", SPECS, 1)
    addresses = [value.data_ptr() for value in values if isinstance(value, torch.Tensor)]
    redraw(SPECS, 2, values)
    assert addresses == [value.data_ptr() for value in values if isinstance(value, torch.Tensor)]
    assert all(
        torch.equal(one, other)
        for one, other in zip(values[:-1], draw_on("cpu", SPECS, 2)[:-1], strict=True)
        if isinstance(one, torch.Tensor)
    )
    assert not torch.equal(values[0], draw_on("cpu", SPECS, 1)[0])


def test_normal_values_have_mean_0_and_deviation_1_and_hardly_repeat():
    values = draw_on("cpu", [InputSpec("x", "normal", "float32", (400_000,))], 3)[0].double()
    assert abs(float(values.mean())) < 0.01
    assert abs(float(values.std()) - 1) < 0.01
    assert float(values.abs().max()) < 3.5
    assert len(values.unique()) > 0.97 * len(values)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-1e6, 1e6).map(lambda value: float(np.float32(value))),
    st.floats(1e-3, 1e6),
    st.sampled_from(["float32", "float16", "bfloat16", "float64"]),
)
def test_uniform_values_stay_in_their_range(low, span, dtype):
    high = low + span
    low, high = (float(torch.tensor(value, dtype=getattr(torch, dtype))) for value in (low, high))
    if not low < high or math.isinf(low) or math.isinf(high):
        return
    values = draw_on("cpu", [InputSpec("x", "uniform", dtype, (999,), low, high)], 4)[0].double()
    assert float(values.min()) >= low
    assert float(values.max()) < high


def test_integers_are_spread_over_their_range_and_a_permutation_holds_each_once():
    integers, order, choice = draw_on(
        "cpu",
        [
            InputSpec("x", "integers", "int64", (7000,), 2.0, 9.0),
            InputSpec("y", "permutation", "int64", (100,), 0.0),
            InputSpec("z", "choice", "float32", (3000,), literal="(-1.0, 1.0)"),
        ],
        1,
    )
    assert set(integers.tolist()) == set(range(2, 9))
    assert sorted(order.tolist()) == list(range(100))
    assert 0.4 < float((choice > 0).double().mean()) < 0.6


@pytest.mark.parametrize(
    "spec",
    [
        InputSpec("x", "gamma", "float32", (3,)),
        InputSpec("x", "uniform", "float32", (3,), 1.0, 1.0),
        InputSpec("x", "choice", "float32", (3,), literal="()"),
    ],
)
def test_a_spec_that_cannot_be_drawn_is_an_error(spec):
    with pytest.raises(ValueError, match="input 'x'"):
        draw_on("cpu", [spec], 0)


def test_kernel_is_compiled_once_for_all_processes_in_one_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path))
    monkeypatch.setattr(device_inputs, "_compile_kernel", lambda architecture: f"{architecture} {os.getpid()}".encode())
    device_inputs.compile_ahead("90")
    architecture, process = device_inputs._machine_code("90").split()
    assert architecture == b"90"
    assert int(process) != os.getpid()
    assert device_inputs._machine_code("100").split() == [b"100", str(os.getpid()).encode()]


def test_kernel_that_cannot_be_kept_is_compiled_by_those_who_need_it(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path / "file" / "folder"))
    (tmp_path / "file").touch()
    monkeypatch.setattr(device_inputs, "_compile_kernel", lambda architecture: b"code")
    device_inputs.compile_ahead("90")
    assert device_inputs._machine_code("90") == b"code"


def test_kernel_that_does_not_compile_is_left_to_those_who_need_it(monkeypatch, tmp_path):
    def fail(architecture):
        raise RuntimeError("no NVRTC")

    monkeypatch.setenv("MUSADATA_CACHE", str(tmp_path))
    monkeypatch.setattr(device_inputs, "_compile_kernel", fail)
    device_inputs.compile_ahead("90")
    with pytest.raises(RuntimeError, match="no NVRTC"):
        device_inputs._machine_code("90")
