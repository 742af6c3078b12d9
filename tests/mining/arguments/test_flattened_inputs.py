"""Inputs of which the code folds dimensions. The searched code is ours, so it runs in this process."""

import pytest
from test_argument_search import run, search
from test_evidence_of_errors import module

from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.arguments.repairs.flattening import repair_flattened

RECURRENT = """        steps, rows = x.shape[:2]
        joined = [self.a(x).view(steps, rows, -1), action.view(steps, rows, -1), reward.view(steps, rows, 1)]
        return self.c(torch.cat(joined, 2), (state[0], state[1]))[0]"""


def test_what_a_recurrent_layer_is_joined_from_has_as_many_features_as_it_takes():
    body = module(
        "        self.a, self.c = nn.Linear(24, 32), nn.LSTM(32 + 6 + 1, 10)", RECURRENT, "", "x, action, reward, state"
    )
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_a_style_that_is_added_to_images_is_a_vector():
    body = module(
        "        self.c, self.fc = nn.Conv2d(3, 8, 1), nn.Linear(20, 8)",
        "        h = self.fc(s)\n        return self.c(x) * h.view(h.size(0), h.size(1), 1, 1)",
        inputs="x, s",
    )
    found = search(body)
    assert "reason" not in found, found
    assert found["inputs"][1].endswith(", 20)")


@pytest.mark.parametrize(
    ("shapes", "error", "wanted"),
    [
        ([(2, 24, 24)], "shape '[1, 2, 1]' is invalid for input of size 1152", (2,)),
        ([(3, 16, 16, 24)], "shape '[3, 16, 1, 1]' is invalid for input of size 786432", (3, 24)),
        ([(2, 24, 24), (2, 24, 24)], "input.size(-1) must be equal to input_size. Expected 281, got 833", (2, 24)),
        ([(2, 1, 24, 24)], "Expected hidden[0] size (1, 2, 10), got [1, 24, 24]", (2, 1, 2, 10)),
        ([(3, 24, 16, 64)], "expected 2D or 3D input (got 4D input)", (3, 64)),
        (
            [(3, 64), (3, 24, 16, 20)],
            "The size of tensor a (8) must match the size of tensor b (20) at non-singleton dimension 3",
            (3, 8),
        ),
    ],
)
def test_the_shape_that_a_message_leaves_no_doubt_of_comes_first(shapes, error, wanted):
    attempt = Attempt((), tuple(Draw("randn", shape) for shape in shapes))
    assert next(repair_flattened(attempt, f"RuntimeError: {error}")).draws[-1].shape == wanted


def test_a_width_that_is_named_like_a_share_is_a_whole_number():
    layer = "        self.c = nn.Conv2d(spread_rate, mix_ratio, 1)"
    body = module(layer, "        return self.c(x)", ", spread_rate, mix_ratio")
    assert "reason" not in search(body)


def test_scales_of_a_configuration_that_channels_follow_are_whole_numbers():
    layer = "        self.c = nn.Conv2d(3, args.scale[0] ** 2 * 3, 3)\n        self.by = args.res_scale"
    body = module(layer, "        return F.pixel_shuffle(self.c(x) * self.by, 2)", ", args")
    found = search(f"import torch.nn.functional as F\n{body}")
    assert "scale=(2, 2)" in found["init"][0] and "res_scale=0.5" in found["init"][0]


DERIVED = {
    "groups of a quarter": (
        "self.a, self.n = nn.Conv2d(3, context // 4, 1), nn.GroupNorm(8, context // 4)",
        "return self.n(self.a(x))",
        ", context",
    ),
    "groups of a sum": (
        "self.a, self.n = nn.Conv2d(3, args.dim + args.heads, 1), nn.GroupNorm(8, args.dim + args.heads)",
        "return self.n(self.a(x))",
        ", args",
    ),
    "a head that divisions leave nothing of": (
        "self.a = nn.Conv2d(3, 4, 8, 8)\n        self.fc = nn.Linear(4 * (args.patch_size // 8) ** 2, 5)",
        "return self.fc(self.a(x).flatten(1))",
        ", args",
    ),
    "states by another name": (
        "self.n, self.r = args.n_cells, nn.GRU(args.emb, 8, args.n_layers, bidirectional=True)",
        "return self.r(x, x.new_zeros(self.n, x.size(1), 8))[0]",
        ", args",
    ),
}


@pytest.mark.parametrize("case", DERIVED)
def test_a_number_changes_from_which_what_fails_is_derived(case):
    constructor, forward, parameters = DERIVED[case]
    body = module(f"        {constructor}", f"        {forward}", parameters)
    found = search(body)
    assert "reason" not in found, found
    run(body, found)
