"""Foreseen sources are those that the candidate will ask for, or none."""

import pytest

from musadata.verifier.compilation.sources import from_load_inline
from musadata.verifier.compilation.speculative_compile import predict_sources


def test_module_level_literals_are_found(relu):
    namespace = {}
    exec(compile(relu.split("ext = ")[0], "relu", "exec"), namespace)
    asked = from_load_inline(
        "relu_ext", "torch::Tensor relu(torch::Tensor x);", namespace["source"], functions=["relu"]
    )
    assert [sources.digest() for sources in predict_sources(relu)] == [asked.digest()]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a = 'x' + 'y'\nload_inline('n', a, [a], functions={'f': 'doc'})", 1),
        ("import torch\ntorch.utils.cpp_extension.load_inline(name='n', cuda_sources='x')", 1),
        ("def late():\n    return load_inline(name='n', cuda_sources='x', functions=['f'])", 1),
        ("a = open('x').read()\nload_inline(name='n', cuda_sources=a)", 0),
        ("a = 'x'\na = make()\nload_inline(name='n', cuda_sources=a)", 0),
        ("load_inline(**arguments)", 0),
        ("load_inline(name='n', functions=1)", 0),
        ("this is no Python", 0),
    ],
)
def test_only_what_can_be_read_is_foreseen(text, count):
    assert len(predict_sources(text)) == count
