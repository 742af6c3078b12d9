"""Kernels that take the sizes of parameters as arguments, from forms of a reference with different constructors."""

import re
from dataclasses import replace

import pytest

from benchmarks.several_sizes import capture_sizes
from musadata.compiler.candidate_set import CandidateSet, read_graph
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.config import BackendType, VerifierConfig
from musadata.records import InputSpec
from musadata.rows import restore
from musadata.verifier import Verifier
from tests.compiler.references import task_of

TEXT = """
import torch
import torch.nn as nn

width, channels, groups = {width}, {channels}, 4


class Model(nn.Module):
    def __init__(self, width, channels):
        super().__init__()
        self.layer = {layer}
        self.half = channels // 2

    def forward(self, x):
        return {result}


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return [width, channels]
"""
SIZES = [(7680, 4096, 1024), (72, 40, 17), (64, 32, 16)]  # width, channels, batch: as it came, and two proof sizes
LINEAR = {"layer": "nn.Linear(width, channels)", "result": "self.layer(x).relu()", "shape": "{batch}, width"}
CONVOLUTION = {
    "layer": "nn.Conv2d(width, channels, 3, groups=groups)",
    "result": "self.layer(x)[:, : self.half]",
    "shape": "{batch}, width, 9, 10",
}
NORM = {
    "layer": "nn.Sequential(nn.LayerNorm(width), nn.Linear(width, channels))",
    "result": "self.layer(x)",
    "shape": "{batch}, 3, width",
}


WINDOW = {**LINEAR, "layer": "nn.AvgPool1d(channels // 8 + 1)", "result": "self.layer(x)"}
GROUPED = {**LINEAR, "layer": "nn.GroupNorm(2 if width == 64 else 6 if width == 72 else 512, width)"}


def capture(text, sizes):
    return capture_sizes([form(text, *one) for one in sizes], 0)


def form(text, width, channels, batch):
    shape = text["shape"].format(batch=batch)
    filled = TEXT.format(width=width, channels=channels, **{**text, "shape": shape})
    numbers = [width if part.strip() == "width" else int(part) for part in shape.split(",")]
    return filled, [{"name": "x", "kind": "normal", "dtype": "float32", "shape": numbers}]


@pytest.mark.parametrize("text", [LINEAR, CONVOLUTION, NORM])
def test_no_size_of_a_form_is_written_into_the_kernels(text):
    source = CandidateSet(read_graph(capture(text, SIZES)), "key").candidate(0).source
    kernels = source.partition('"""')[2].partition('"""')[0]
    numbers = set(map(int, re.findall(r"(?<![\w.])\d+(?![\w.])", kernels)))
    assert not numbers & {7680, 4096, 40, 36, 2048, 20}  # 72 are nine taps of eight channels, too
    assert "width, channels, groups = 7680, 4096, 4" in source or "width" in source  # constructed as the reference is


@pytest.mark.parametrize(("text", "attribute"), [(WINDOW, "kernel_size[0]"), (GROUPED, "num_groups")])
def test_attributes_that_vary_in_a_way_of_their_own_are_arguments(text, attribute):
    source = CandidateSet(read_graph(capture(text, SIZES)), "key").candidate(0).source
    assert f"self.layer.{attribute}" in source
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        for one in SIZES[1:]:
            reference, specs = form(text, *one)
            task = replace(
                task_of("linear"), reference=reference, inputs=tuple(restore(InputSpec, spec) for spec in specs)
            )
            verdict = verifier.verify(task, source)
            assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("layer", ["Conv2d(width, channels, 3, 2, 1)", "ConvTranspose2d(width, channels, 4, 2, 1)"])
def test_slices_of_one_tap_end_where_unknown_channels_do(layer):
    text = {"layer": f"nn.{layer}", "result": "self.layer(x)", "shape": "{batch}, width, 5, 6"}
    sizes = [(96, 128, 512), (19, 33, 3), (20, 36, 2)]
    candidates = CandidateSet(read_graph(capture(text, sizes)), "key")
    found = {one.kernels[-1].schedule: one for one in map(candidates.candidate, range(len(PLANS)))}
    assert {schedule.label.rpartition("ster ")[2] for schedule in found} == {"tiles", "float32 tensor core tiles"}
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        for one, candidate in zip(sizes[1:], found.values(), strict=True):
            assert "const int slice = next / " in candidate.source
            reference, specs = form(text, *one)
            inputs = tuple(restore(InputSpec, spec) for spec in specs)
            verdict = verifier.verify(replace(task_of("linear"), reference=reference, inputs=inputs), candidate.source)
            assert verdict.accepted, verdict.feedback


def test_a_single_form_of_any_size_gets_kernels_for_it():
    graph = capture(LINEAR, [(1 << 17, 8, 1 << 14)])  # 8 GB of inputs, which are not filled
    assert "131072" in CandidateSet(read_graph(graph), "key").candidate(0).source


def test_a_tensor_that_no_int_can_index_is_indexed_with_64_bits():
    huge = {**WINDOW, "layer": "nn.AvgPool1d(4)", "result": "self.layer(x)"}
    sizes = [(1 << 17, 8, 1 << 15), *SIZES[1:]]  # 2^32 elements, which are not filled
    source = CandidateSet(read_graph(capture(huge, sizes)), "key", {"x": (1 << 15, 1 << 17)}).candidate(0).source
    kernel = source.partition("__global__")[2].partition("\n}")[0]
    assert "int64_t cols" in kernel and not re.search(r"\bint \w+ = ", kernel)
    small = CandidateSet(read_graph(capture(huge, SIZES)), "key").candidate(0).source
    assert "int64_t" not in small
    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as verifier:
        reference, specs = form(huge, *SIZES[1])
        task = replace(task_of("linear"), reference=reference, inputs=tuple(restore(InputSpec, spec) for spec in specs))
        verdict = verifier.verify(task, source)
        assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    "change",
    [
        {"result": "self.layer(x) if x.shape[0] == 17 else x.sum(1)"},
        {"layer": "nn.Sequential(*[nn.Tanh()] * (channels // 8))", "result": "self.layer(x)"},
    ],
)
def test_what_depends_on_sizes_in_another_way_is_refused(change):
    graph = capture({**LINEAR, **change}, SIZES)
    with pytest.raises(Unsupported):
        if "unsupported" in graph:
            raise Unsupported(graph["unsupported"])
        CandidateSet(read_graph(graph), "key").candidate(0)
