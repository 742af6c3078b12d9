"""What a program starts follows from its host code and the shapes of a trace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.teacher.claims.launches import Launch, find_launches
from tests.tracing.examples import traces_of

TRACE = traces_of("linear")[0]  # x (16, 64), linear.weight (32, 64)


@pytest.mark.parametrize(
    ("host", "blocks", "threads"),
    [
        ("f<<<4, 128>>>(x);", (4,), (128,)),
        ("const int n = x.size(0); f<<<(n + 4 - 1) / 4, 32, 0, stream>>>(x);", (4,), (32,)),
        ("int n = x.numel(); dim3 b(n / 100, 2); dim3 t(16, 16); f<float><<<b, t>>>(x);", (10, 2), (16, 16)),
        ("auto n = linear_weight.size(-1); f<<<std::min(n, 1024), 32>>>(x);", (64,), (32,)),
        ("f<<<dim3(2, 3, 4), dim3(8)>>>(x);", (2, 3, 4), (8,)),
        ("int n = 5; n2 = 7; int n = static_cast<int>(x.size(1)) * 2; f<<<n, 1>>>(x);", (128,), (1,)),
    ],
)
def test_sizes_of_a_launch_are_computed(host, blocks, threads):
    assert find_launches(host, TRACE) == (Launch("f", blocks, threads),)


@pytest.mark.parametrize(
    "host",
    ["f<<<n, 128>>>(x);", "int n = other.size(0); f<<<n, 1>>>(x);", "int n = x.size(7); f<<<n, 1>>>(x);", "f<<<>>>(x);",
     "int n = 4; int n = ask(); f<<<n, 1>>>(x);", "f<<<1 / 0, 1>>>(x);"],
)  # fmt: skip
def test_a_launch_whose_sizes_do_not_follow_is_left_out(host):
    assert find_launches(host, TRACE) == ()


@given(st.text(alphabet="fxn<>()[]{},;=.*/ 0123456789\nint dim3size", max_size=120))
def test_any_text_is_read(text):
    find_launches(text, TRACE)
