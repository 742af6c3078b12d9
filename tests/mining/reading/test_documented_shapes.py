"""Shapes that docstrings and comments state, and inputs of them."""

import ast
import inspect
from collections.abc import Callable

import pytest

from musadata.mining.arguments.documented_inputs import documented_inputs
from musadata.mining.reading.documented_shapes import Stated, documented_shapes


def stated(body: str, names: str = "x") -> dict[str, Stated]:
    text = f"def forward(self, {names}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    method = ast.parse(text).body[0]
    assert isinstance(method, ast.FunctionDef)
    return documented_shapes(method, text.splitlines(keepends=True), names.split(", "))


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("x: [batch, len, dim]", ("batch", "len", "dim")),
        (":param x: features of shape (B, C, H, W)", ("B", "C", "H", "W")),
        ("x (torch.Tensor): of the shape [B, 2 * C, H // 2]", ("B", "2 * C", "H // 2")),
        ("x: tensor, NxCxHxW", ("N", "C", "H", "W")),
        ("x: batch * len * 7", ("batch", "len", "7")),
        ("x = word features [batch * len * nfeat]", ("batch", "len", "nfeat")),
        ("x: of each. [batch x (length+1)]. +1 for [GO]", ("batch", "(length+1)")),
        ("x: Nx(1,3)xwxh", ("N", "1", "w", "h")),
        ("- x: `(batch size, num points)`", ("batch_size", "num_points")),
        ("x shape is [B, Z], that of y is [B, C]", ("B", "Z")),
        ("the rows y; x.shape: (B, T, C)", ("B", "T", "C")),
    ],
)
def test_a_docstring_states_a_shape(line, sizes):
    assert stated(f'"""Text.\n\nArgs:\n    {line}\n"""')["x"].sizes == sizes


@pytest.mark.parametrize(
    "line",
    ["x: what is added (if any, by default)", "x: a mask (1 for padding, 0 for true)", "y: [B, C]", "the x of (B, C)"],
)
def test_prose_in_brackets_is_no_shape(line):
    assert stated(f'"""Text.\n\n{line}\n"""') == {}


def test_a_name_may_end_with_its_shape():
    found = stated("return 0", "depth_b1hw, pose_bk44, x_best, x_b")
    assert {name: item.sizes for name, item in found.items()} == {
        "depth_b1hw": ("b", "1", "h", "w"),
        "pose_bk44": ("b", "k", "4", "4"),
    }


def test_a_comment_states_the_shape_of_an_input_until_its_name_means_something_else():
    assert stated("# x: [B, T]\ny = x + 1\n# y: [B, T, C]")["x"].sizes == ("B", "T")
    assert stated("x = self.layer(x)\n# x: [B, C]\nreturn x") == {}


def test_a_description_may_go_on_in_the_next_line():
    found = stated(
        '"""\nArgs:\n    x (Tensor): what is\n        looked at (B, C).\n    y: flags (B, T), bool\n"""', "x, y"
    )
    assert found["x"].sizes == ("B", "C")
    assert found["y"].sizes == ("B", "T")


def test_the_kind_of_an_input_is_stated():
    lines = ["x: LongTensor of (B, T)", "y: token ids [B, T]", "z: int, the scale", "w: word indices [B, T, C]"]
    found = stated('"""\n' + "\n".join(lines) + '\n"""', "x, y, z, w")
    assert [found[name].kind for name in "xyzw"] == ["int", "int", "int", ""]
    assert found["z"].sizes == ()


def drawn(constructor: Callable, forward: Callable, init: tuple[str, ...], **shapes: str) -> list[tuple[int, ...]]:
    told = {name: {"sizes": text.split(), "kind": ""} for name, text in shapes.items()}
    own, inputs = (list(inspect.signature(function).parameters.values()) for function in (constructor, forward))
    return [draw.shape for draw in documented_inputs(told, init, inspect.Signature(own), inspect.Signature(inputs), "")]


def test_one_name_has_one_size_in_all_inputs_and_that_of_the_constructor():
    shapes = drawn(lambda q_dim, depth=2: 0, lambda x, y: 0, ("36",), x="B N q_dim", y="B N 2*q_dim")
    (batch, length, width), other = shapes
    assert width == 36
    assert other == (batch, length, 72)
    assert len({batch, length, width}) == 3


def test_sizes_in_configurations_are_those_of_their_names():
    assert drawn(lambda cfg: 0, lambda x: 0, ("SimpleNamespace(hid=12)",), x="B hid")[0][1] == 12


def test_inputs_of_which_nothing_is_stated_are_left_to_guesses():
    assert drawn(lambda: 0, lambda x: 0, (), y="B C") == []
