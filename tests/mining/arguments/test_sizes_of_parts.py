"""Sizes that a failing split, view, pooling or mask tells. The searched code is ours, so it runs in this process."""

import pytest
from test_argument_search import run, search
from test_evidence_of_errors import module

LAYERS = {
    "split": ("self.c = nn.Conv2d(5, 8, 3)", "a, b = torch.split(x, [5, 9], dim=1)\n        return self.c(a), b * 2"),
    "open view": ("self.c = nn.Conv1d(3, 6, 1)", "return self.c(x).view(-1, 6, 4, 128)"),
}


@pytest.mark.parametrize("case", LAYERS)
def test_inputs_get_the_sizes_that_a_part_of_them_needs(case):
    constructor, forward = LAYERS[case]
    body = module(f"        {constructor}", f"        {forward}")
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


MASKED = {
    "channels of several widths": (
        "self.a, self.b = nn.Conv1d(16, 24, 1), nn.Conv1d(24, 8, 1)",
        "x = self.a(x) * mask\n        return self.b(x) * mask",
    ),
    "tokens for all heads": (
        "self.a = nn.Linear(16, 16)",
        "q = self.a(x).unflatten(2, (4, 4)).transpose(1, 2)\n        s = q @ q.transpose(2, 3)\n"
        "        s -= 1e4 * (1 - mask[:, None, None, :])\n        return s.softmax(-1) @ q",
    ),
}


@pytest.mark.parametrize("case", MASKED)
def test_a_mask_has_the_dimensions_in_which_it_is_met(case):
    constructor, forward = MASKED[case]
    body = module(f"        {constructor}", f"        {forward}", inputs="x, mask")
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_groups_of_any_name_divide_the_channels():
    body = module(
        "        self.c = nn.Conv2d(channels, 4 * growth, 1, groups=args.group_1x1)",
        "        return self.c(x)",
        ", channels, growth, args",
    )
    assert "reason" not in search(body)


@pytest.mark.parametrize(("given", "width"), [("width", "width"), ("args", "args.emb_dims")])
def test_a_width_of_joined_channels_follows_from_the_layer_that_meets_them(given, width):
    body = module(
        f"        self.a, self.b = nn.Conv1d(3, 64, 1), nn.Conv1d(64, {width}, 1)\n"
        "        self.c = nn.Conv1d(320, 16, 1)",
        "        a = self.a(x)\n        return self.c(torch.cat([a, self.b(a)], 1))",
        f", {given}",
    )
    found = search(body)
    assert "reason" not in found, found
    assert "256" in found["init"][0]
