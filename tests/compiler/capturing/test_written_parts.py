"""Reads of what was written in place."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from musadata.compiler.capturing.written_parts import read_written_parts

SIZE = 6


def functional(function):
    return make_fx(torch.func.functionalize(function, remove="mutations"))(torch.randn(SIZE, SIZE))


POSITION = st.one_of(st.none(), st.integers(-SIZE, SIZE))
PLACE = st.one_of(
    st.integers(-SIZE, SIZE - 1),
    st.builds(slice, POSITION, POSITION, st.sampled_from([None, 1, 2])),
)
INDEX = st.one_of(PLACE, st.tuples(st.just(slice(None)), PLACE), st.tuples(PLACE, PLACE))


@given(st.lists(st.tuples(INDEX, INDEX, st.floats(-2, 2)), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_reads_and_writes_of_any_parts_give_what_they_give_in_place(statements):
    def function(x):
        x, read = x.clone(), []
        for written, seen, number in statements:
            x[written] += number
            x[written] *= 1.5
            read.append(x[seen].sum())
        return torch.stack([x.sum(), *read])

    traced = functional(function)
    read_written_parts(traced)
    traced.recompile()
    inputs = torch.randn(SIZE, SIZE)
    torch.testing.assert_close(traced(inputs), function(inputs))


def test_gates_that_are_written_in_place_are_read_where_they_are_computed():
    def function(x):
        first, second = x.clone().split(SIZE // 2, 1)
        return first.add_(1).sigmoid_() * second.mul_(2).tanh_()

    traced = functional(function)
    read_written_parts(traced)
    traced.recompile()
    assert "scatter" not in traced.code
    assert traced.code.count("aten.sigmoid") == 1
