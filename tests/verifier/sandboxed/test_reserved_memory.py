"""Operators over memory that is reserved give shapes, and touch nothing."""

import resource

import torch

from musadata.dispatch import without_dynamo
from musadata.records import InputSpec
from musadata.verifier.sandboxed.reserved_memory import ReservedMemory, draw_reserved


def test_results_of_many_elements_have_shapes_and_take_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.no_grad(), without_dynamo(), ReservedMemory():
        layer = torch.nn.Linear(1 << 14, 1 << 15).half()
        x = torch.zeros(1 << 15, 1 << 14)
        y = torch.cat([x.half(), layer.weight[:0]])
        moved = x.t().contiguous()
        assert x.add_(1.0) is x
    assert (y.shape, y.dtype, moved.shape) == ((1 << 15, 1 << 14), torch.float16, (1 << 14, 1 << 15))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # KB, of 8 GB


def test_few_elements_are_computed():
    with torch.no_grad(), without_dynamo(), ReservedMemory():
        assert torch.arange(4).add(1).tolist() == [1, 2, 3, 4]
        assert torch.zeros(1 << 20).view(1 << 10, -1).shape == (1 << 10, 1 << 10)


def test_sizes_and_offsets_among_the_arguments_are_drawn():
    specs = [
        InputSpec("x", "normal", "float32", (1 << 12, 1 << 12)),
        InputSpec("lengths", "choice", "int64", (2,), literal="(5,)"),
        InputSpec("scale", "literal", "", (), literal="0.5"),
    ]
    x, lengths, scale = draw_reserved(specs, "cpu")
    assert (x.shape, lengths.tolist(), scale) == ((1 << 12, 1 << 12), [5, 5], 0.5)
