"""References of any size become small without a large tensor, by smaller integers in their text."""

import math
import resource
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.records import InputSpec
from musadata.rows import restore
from musadata.tasks.sizing.constants import find_constants, replace_constants
from musadata.tasks.sizing.fake_execution import _FLOPS_PER_ELEMENT, OperatorBudget, measure_cost, shapes_only
from musadata.tasks.sizing.shrinking import ENOUGH_WORK, _even, read_reference, resize_reference
from musadata.tracing.inputs import draw
from musadata.verifier.sandboxed.device_inputs import draw_on
from tests.tasks.conftest import reference

PRODUCT = """
import torch
import torch.nn as nn

batch_size, features = 4096, 16384
hidden: int = 8192 * 2
groups = 8
epsilon = 1e-5


class Model(nn.Module):
    def __init__(self, features, hidden, groups):
        super().__init__()
        self.product = nn.Linear(features, hidden)
        self.norm = nn.GroupNorm(groups, hidden)

    def forward(self, x):
        return self.norm(self.product(x))


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features, hidden, groups]
"""


def sizes(form: dict) -> dict[str, tuple[int, int]]:
    return {name: (old, new) for name, _, old, new in form["shrunk"]}


def test_a_large_reference_is_shrunk_with_its_constructor_and_nothing_large_is_allocated():
    read_reference(reference("return F.relu(x)", inputs="torch.rand(4096, 4096)"))  # loads what it needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = read_reference(PRODUCT)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB; the parameters alone are 1 GB
    first = found["forms"][0]
    changed = sizes(first)
    assert set(changed) >= {"batch_size", "features", "hidden"}
    assert all(new < old for old, new in changed.values())
    (x,) = first["inputs"]
    assert x["shape"] == [changed["batch_size"][1], changed["features"][1]]
    assert found["measure"][0]["shape"] == [4096, 16384]


def test_the_first_form_has_uneven_sizes_and_the_second_powers_of_two():
    uneven, even = read_reference(reference("return F.relu(x)", inputs="torch.rand(4096, 8192)"))["forms"]
    assert all(size % 2 for size in uneven["inputs"][0]["shape"])
    assert all(size & (size - 1) == 0 for size in even["inputs"][0]["shape"])


@given(st.integers(65, 1 << 16), st.floats(0.3, 0.95))
def test_a_smaller_size_leaves_over_what_the_size_leaves(size, power):
    found = _even(size, power)
    twos = size & -size
    assert found <= size
    if twos < 64 and found < size and size**power >= 2 * twos:
        assert found % (2 * twos) == twos  # as many times divisible by two, so that a product of sizes is as well


def test_sizes_that_are_odd_stay_odd_and_their_product_leaves_a_tail():
    for rows, columns in ((1000, 1000), (513, 1023)):
        for form in read_reference(reference("return F.relu(x)", inputs=f"torch.rand({rows}, {columns})"))["forms"]:
            assert math.prod(form["inputs"][0]["shape"]) % 256


def test_a_size_that_is_asked_for_stays_and_the_others_pay_for_it():
    text = reference("return F.relu(x)", inputs="torch.rand(8192, 4096)")
    for form in resize_reference(text, [[4096, 2048]], 1 << 21)["forms"]:
        rows, columns = form["inputs"][0]["shape"]
        assert columns == 2048 and rows < 512
        assert [4096, 2048] in [one[2:] for one in form["shrunk"]]
    assert (
        resize_reference(reference("return x @ x", inputs="torch.rand(4096, 4096)"), [[4096, 2048]], 1 << 21)["forms"]
        == []
    )


def test_an_image_that_is_no_square_stays_none():
    for sides in ((512, 384), (384, 512)):
        text = reference("return F.relu(x)", inputs="torch.rand(16, 32, {}, {})".format(*sides))
        for form in read_reference(text)["forms"]:
            *_, rows, columns = form["inputs"][0]["shape"]
            assert (rows < columns) is (sides[0] < sides[1]) and rows != columns


def test_what_is_scattered_stays_as_large_as_its_index():
    body = "where = nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[1].flatten(2)\n"
    body += "return torch.zeros_like(x).flatten(2).scatter_add(2, where, grad.flatten(2)).view_as(x)"
    inputs = "torch.randn(16, 64, 56, 56), torch.randn(16, 64, 112, 112)"
    for form in read_reference(reference(body, arguments="grad, x", inputs=inputs))["forms"]:
        grad, x = (spec["shape"] for spec in form["inputs"])
        assert grad[2:] == [(size + 1) // 2 for size in x[2:]]


def test_a_size_along_which_is_scanned_may_stay():
    text = reference("return torch.cumsum(x, dim=1)", inputs="torch.rand(16, 1048576)")
    found = resize_reference(text, [[1048576, 1048576]], 1 << 24)
    assert found["forms"][-1]["inputs"][0]["shape"] == [2, 1048576] and found["work"] <= 1 << 24


def test_forms_are_as_large_as_is_asked_for():
    text = reference("return F.relu(x)", inputs="torch.rand(32768, 4096)")
    found = resize_reference(text, [], 1 << 22, enough=1 << 20)
    assert 1 << 19 <= found["work"] <= 1 << 21


def test_what_constructor_and_inputs_share_stays_equal_though_they_spell_it_out_apart():
    text = PRODUCT.replace("[features, hidden, groups]", "[16384, 16384, 8]")
    (x,) = read_reference(text)["forms"][0]["inputs"]
    assert x["shape"][1] < 16384


def test_a_small_reference_stays_as_it_is():
    text = reference("return F.relu(x)")
    assert read_reference(text) == {
        "forms": [{"reference": text, "inputs": read_reference(text)["forms"][0]["inputs"], "shrunk": []}],
        "measure": [],
        "reason": "",
        "work": 264,
    }


def test_integers_that_are_no_sizes_stay():
    text = reference("return F.hardtanh(x, -top, top)", top="top = 20\nsize = 8192", inputs="torch.rand(size, size)")
    assert set(sizes(read_reference(text)["forms"][0])) == {"size"}


def test_the_text_draws_its_own_values_at_its_own_size():
    """Classes of which some are ignored: others between the least and the largest would be none."""
    found = read_reference(
        "import torch\nfrom torch import nn\n\nrows, classes = 16384, 1000\n\n\nclass Model(nn.Module):\n"
        "    def forward(self, x, target):\n        return nn.functional.cross_entropy(x, target)\n\n\n"
        "def get_inputs():\n    target = torch.randint(0, classes, (rows,))\n    target[::7] = -100\n"
        "    return [torch.randn(rows, classes), target]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    assert [form["inputs"][1]["kind"] for form in found["forms"]] == ["own"] * len(found["forms"])
    for inputs in (found["measure"], *(form["inputs"] for form in found["forms"])):
        specs = [restore(InputSpec, spec) for spec in inputs]
        x, target = draw(specs, 3)
        assert len(target) == len(x) and bool((target[::7] == -100).all()) and int(target.max()) < x.shape[1]
        assert not torch.equal(target, draw(specs, 4)[1])


def test_bounds_of_indices_have_their_own_size_again_at_the_measure_size():
    text = reference(
        "return F.cross_entropy(x, y)", top="rows = 32768\nclasses = 4096", arguments="x, y",
        inputs="torch.rand(rows, classes), torch.randint(0, classes, (rows,))",
    )  # fmt: skip
    found = read_reference(text)
    assert found["forms"][0]["inputs"][1]["high"] <= found["forms"][0]["inputs"][0]["shape"][1]
    assert found["measure"][1]["shape"] == [32768]
    assert found["measure"][1]["high"] <= 4096


@pytest.mark.parametrize(
    "forward", ["return x[x > 0].sum()", "return x.view(16384, 8192).sum(0)", "return x + torch.ones(8192, 16384)"]
)
def test_a_large_reference_that_cannot_be_shrunk_says_why_and_what_its_inputs_are(forward):
    found = read_reference(reference(forward, inputs="torch.rand(8192, 16384)"))
    assert found["forms"] == []
    assert found["reason"]
    assert [(spec["kind"], spec["shape"]) for spec in found["measure"]] == [("uniform", [8192, 16384])]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(8, 10**9), min_size=1, max_size=5), st.integers(8, 10**6))
def test_replaced_constants_are_found_again_and_nothing_else_changes(values, new):
    text = "é = 3; " + "; ".join(f"x{i} = ({value} + 1, -0.5)" for i, value in enumerate(values)) + "  # 4096\n"
    constants = find_constants(text)
    assert [one.value for one in constants] == values
    replaced = replace_constants(text, dict.fromkeys(constants, new))
    assert [one.value for one in find_constants(replaced)] == [new] * len(values)
    assert replace_constants(replaced, dict(zip(find_constants(replaced), values, strict=True))) == text


BOUNDED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x, index):
        return torch.gather(x, 1, index) * self.scale


def get_inputs():
    return [torch.randn(16384, 8192), torch.randint(0, 8192, (16384, 40))]


def get_init_inputs():
    return [40]
"""


def test_bounds_of_indices_are_within_the_sizes_that_they_index():
    found = read_reference(BOUNDED)
    for form in found["forms"]:
        x, index = form["inputs"]
        assert index["high"] == x["shape"][1] < 8192
    assert found["measure"][1]["high"] == 8192


def test_what_the_constructor_fixes_stays_where_the_other_sizes_suffice():
    assert all(form["inputs"][1]["shape"][1] == 40 for form in read_reference(BOUNDED)["forms"])


def test_a_size_is_shrunk_further_where_the_others_are_fixed():
    model = BOUNDED.replace("(width))", "(16, 256))").replace("torch.gather(x, 1, index)", "torch.tanh(torch.exp(x))")
    text = model.replace("(16384, 8192)", "(16384, 16, 256)")
    assert 2 <= read_reference(text)["forms"][0]["inputs"][0]["shape"][0] < 512


def test_a_scan_is_small_enough_for_kernels_that_read_a_prefix_for_every_element():
    rows, cols = read_reference(reference("return torch.cumsum(x, 1)", inputs="torch.rand(4096, 32768)"))["forms"][0][
        "inputs"
    ][0]["shape"]
    assert rows * cols * cols <= 2 * ENOUGH_WORK


GROUPS = PRODUCT.replace("nn.Linear(features, hidden)", "nn.ConvTranspose2d(features, hidden, 3)").replace(
    "torch.rand(batch_size, features)", "torch.rand(batch_size, features, 40, 48)"
)


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_a_group_keeps_several_channels(groups):
    text = GROUPS.replace("groups = 8", f"groups = {groups}")
    for form in read_reference(text)["forms"]:
        assert sizes(form)["hidden"][1] >= 2 * groups


def test_a_transposed_convolution_is_as_much_work_as_its_kernel_has_to_do():
    def work(size: int) -> int:
        with shapes_only():
            model = torch.nn.ConvTranspose3d(4, 8, (3, 5, 5))
            return measure_cost(model, [torch.empty(1, 4, size, size, size)], OperatorBudget(10)).work

    taps, channels, outputs = 75, 4, 8 * 3 * 5 * 5  # of one element that becomes 3 × 5 × 5
    assert work(1) >= 2 * taps * channels * outputs // _FLOPS_PER_ELEMENT


SEGMENTS = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, sizes, starts):
        parts = [x[start : start + rows * columns].view(rows, columns).sum(1)
                 for (rows, columns), start in zip(sizes.tolist(), starts.tolist(), strict=True)]
        return torch.cat(parts)


def get_inputs():
    return [torch.randn(48, 1), torch.tensor([[4, 6], [3, 4], [2, 6]]), torch.tensor([0, 24, 36])]


def get_init_inputs():
    return []
"""


def test_integers_that_agree_with_other_inputs_are_the_reference_s_own():
    ((x, sizes, starts),) = [form["inputs"] for form in read_reference(SEGMENTS)["forms"]]
    assert (x["kind"], sizes["kind"], starts["kind"]) == ("normal", "own", "own")
    specs = [restore(InputSpec, spec) for spec in (x, sizes, starts)]
    for seed in (1, 2):
        for found in (draw(specs, seed), draw_on("cpu", specs, seed)):
            assert found[1].tolist() == [[4, 6], [3, 4], [2, 6]] and found[2].tolist() == [0, 24, 36]
    free = SEGMENTS.replace("x[start : start + rows * columns].view(rows, columns).sum(1)", "x[:1, 0] + rows + start")
    assert [one["kind"] for one in read_reference(free)["forms"][0]["inputs"]] == ["normal", "integers", "own"]


BOXES = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, boxes):
        return x[boxes[:, 0].long()].sum(1) * (boxes[:, 2] - boxes[:, 1])


def get_inputs():
    return [torch.randn(3, 5), torch.cat([torch.randint(0, 3, (9, 1)).float(), torch.rand(9, 2) * 90], 1)]


def get_init_inputs():
    return []
"""


def test_rows_that_hold_an_index_beside_real_numbers_are_drawn_by_the_reference():
    (form,) = read_reference(BOXES)["forms"]
    assert [one["kind"] for one in form["inputs"]] == ["normal", "own"]
    specs = [restore(InputSpec, spec) for spec in form["inputs"]]
    state = torch.get_rng_state()
    drawn = [draw(specs, 1)[1], draw(specs, 2)[1], draw_on("cpu", specs, 1)[1]]
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])
    assert torch.equal(torch.get_rng_state(), state)
    for boxes in drawn:
        assert set(boxes[:, 0].tolist()) <= {0.0, 1.0, 2.0} and bool((boxes[:, 1:] != boxes[:, 1:].round()).all())
    with pytest.raises(ValueError, match="not"):
        draw([specs[0], replace(specs[1], shape=(8, 3))], 1)


def test_one_of_several_sizes_of_one_value_can_stay():
    text = reference("return x.sum(1)", inputs="torch.rand(4096, 4096)")
    assert resize_reference(text, [[4096, 4096]], 1 << 21)["forms"] == []
    for number in (0, 1):
        (form, *_) = resize_reference(text, [[4096, 4096, number]], 1 << 21)["forms"][-1:]
        shape = form["inputs"][0]["shape"]
        assert shape[number] == 4096 > 8 * shape[1 - number]


def test_large_inputs_are_shrunk_by_running_where_operators_depend_on_values():
    found = read_reference(reference("return torch.bincount(x)", inputs="torch.randint(0, 9, (20000000,))"))
    assert found["forms"][0]["inputs"][0]["shape"][0] < 20000 and found["measure"][0]["shape"] == [20000000]


def test_sizes_that_values_name_are_not_shrunk():
    text = reference(
        "return F.relu(x[box[:, 0].long(), :, (box[:, 1] * 64).long()])",
        arguments="x, box",
        inputs="torch.randn(128, 128, 65), torch.cat([torch.randint(0, 128, (9, 1)).float(), torch.rand(9, 2)], 1)",
    )
    found = read_reference(text)
    ((x, box),) = [form["inputs"] for form in found["forms"]]
    assert x["shape"] == [128, 128, 65] and box["kind"] == "own" and not found["measure"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ("torch.randperm(3000)[:600].int()", "own"),  # keys
        ("torch.randint(0, 3000, (600,)).int()", "integers"),
        ("torch.randperm(600)", "permutation"),
        ("torch.rand(10, 12).argsort(1)", "own"),
        ("torch.randint(0, 9, (64,)).sort().values", "segments"),
        ("torch.stack([x := torch.randint(1, 39, (10,)), 40 - x], 1)", "own"),  # parts of a whole
        ("torch.arange(12).repeat(10, 1)", "integers"),
        ("torch.tensor([0, 40])", "own"),  # where parts begin
        ("torch.randn(9, 9).abs().double() * 2 + 1", "uniform"),
        ("torch.randn(9, 9).relu()", "own"),  # half of it zeros
        ("torch.empty(9, 9).uniform_(2, 4)", "uniform"),
        ("torch.randn(9, 9).softmax(1)", "own"),
        ("torch.where(torch.arange(12) < torch.randint(1, 13, (4, 1)), 0.0, -1e8)", "own"),
        ("torch.rand(40, 30) < 0.5", "bool"),
        ("torch.tril(torch.ones(9, 9)).bool()", "bool"),  # the same in each draw
        ("torch.log(torch.randn(9, 9))", "own"),  # holds NaN
    ],
)
def test_what_only_get_inputs_can_draw_is_drawn_by_it(values, kind):
    ((spec,),) = [one["inputs"] for one in read_reference(reference("return x + 1", inputs=values))["forms"]]
    assert spec["kind"] == kind


def test_inputs_made_of_one_another_are_drawn_together():
    text = reference("return x + y", arguments="x, y", inputs="*[x := torch.randn(9), -x]")
    ((x, y),) = [one["inputs"] for one in read_reference(text)["forms"]]
    assert (x["kind"], y["kind"]) == ("own", "own")
    assert torch.equal(
        *(sign * one for sign, one in zip((1, -1), draw([restore(InputSpec, s) for s in (x, y)], 5), strict=True))
    )


def test_powers_of_integers_are_sizes():
    source = "N = 1 << 24\n\ndef get_inputs():\n    return [torch.randn(N, 2**10), torch.randint(0, 1 << 15, (N,))]\n"
    found = find_constants(source)
    assert [(one.value, one.bounds) for one in found] == [(1 << 24, False), (1 << 10, False), (1 << 15, True)]
    changed = replace_constants(source, dict.fromkeys(found[:2], 96))
    assert "N = 96\n" in changed and "torch.randn(N, 96)" in changed and "1 << 15" in changed
