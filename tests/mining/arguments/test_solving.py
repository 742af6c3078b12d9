"""Shapes that no single correction brings together. The searched code is ours, so it runs in this process."""

import random

import numpy as np
import pytest
from test_argument_search import run, search
from test_evidence_of_errors import module

from musadata.mining.arguments.attempt_execution import MAX_ELEMENTS
from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.arguments.solving import _next_value, _of_allowed_size

MODULES = {  # constructor, forward, the constructor's parameters, inputs
    "a head that no square image fits": (
        "self.c = nn.Conv2d(1, 6, 3, stride=2)\n        self.head = nn.Linear(6 * 11 * 7, 3)",
        "return self.head(torch.flatten(self.c(x), 1))",
        "",
        "x",
    ),
    "a window that keeps the length if it is odd": (
        "self.c = nn.Conv1d(1, 1, width, padding=(width - 1) // 2)",
        "return x * self.c(x)",
        ", width",
        "x",
    ),
    "rows that are folded into features": (
        "self.to_maps = nn.Linear(5, 6 * 2 * 2)\n        self.norm = nn.BatchNorm2d(6)",
        "return self.norm(self.to_maps(x).view(x.size(0), -1, 2, 2))",
        "",
        "x",
    ),
    "a code that is joined to the features of an image": (
        "self.c = nn.Conv2d(3, 4, 4, 4)\n        self.fc = nn.Linear(4 * 4 * 4, 10)\n"
        "        self.out = nn.Linear(17, 2)",
        "return self.out(torch.cat([self.fc(self.c(x).flatten(1)), code], -1))",
        "",
        "x, code",
    ),
    "people that are compared with each other": (
        "self.margin = 0.3",
        "who = person.int().unsqueeze(-1)\n        return (x @ x.t()) * who.eq(who.t()) - self.margin",
        "",
        "x, person",
    ),
    "rows that are valid up to a length": (
        "self.norm = nn.InstanceNorm1d(7)",
        "valid = torch.arange(x.size(1))[None] < length[:, None]\n"
        "        return self.norm((x * valid.unsqueeze(2)).transpose(1, 2))",
        "",
        "x, length",
    ),
    "more channels than a batch of images may have": (
        "self.c = nn.Conv2d(2000, 8, 1)\n        self.norm = nn.BatchNorm2d(8)",
        "return self.norm(self.c(x))",
        "",
        "x",
    ),
}


@pytest.mark.parametrize("case", MODULES)
def test_the_sizes_are_solved_for(case):
    constructor, forward, parameters, inputs = MODULES[case]
    body = module(f"        {constructor}", f"        {forward}", parameters, inputs)
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_a_large_network_is_solved_for_before_its_corrections_use_up_the_tries():
    layers = (
        "nn.Conv2d(1, width // 8, 5, 2, 2), nn.Conv2d(width // 8, width, 5, 2, 2), nn.Conv2d(width, width, 5, 2, 2)"
    )
    body = module(
        f"        self.c = nn.Sequential({layers})\n        self.fc = nn.Linear(9 * width, code_size)\n"
        "        self.out = nn.Sequential(nn.Linear(2 * code_size, width), nn.ReLU(), nn.Linear(width, 1))",
        "        return self.out(torch.cat([self.fc(self.c(x).flatten(1)), code], -1))",
        ", code_size=128, width=512",
        "x, code",
    )
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def test_widths_that_a_constructor_draws_at_random_are_the_same_in_each_attempt():
    body = module(
        "        self.c = nn.Conv1d(np.random.choice([2, 3, 5, 7, 11, 13]), random.randint(2, 99), 1)",
        "        return self.c(x)",
    )
    found = search("import random\nimport numpy as np\n\n\n" + body)
    assert "reason" not in found, found
    random.seed(0)
    np.random.seed(0)
    run("import random\nimport numpy as np\n\n\n" + body, found)


DEFAULTS = {
    "a class of layers in place of one": (
        ", width, act_layer",
        "self.c = nn.Conv2d(width, 8, 3)\n        self.act = act_layer",
        "self.c(self.act(x))",
    ),
}


@pytest.mark.parametrize("case", DEFAULTS)
def test_arguments_that_the_code_cannot_use_are_replaced(case):
    parameters, constructor, returned = DEFAULTS[case]
    body = module(f"        {constructor}", f"        return {returned}", parameters)
    found = search(body)
    assert "reason" not in found, found
    run(body, found)


def zero_of(difference, start):
    """Where the steps end, and the values that they took."""
    known = {value: difference(value) for value in start}
    for step in range(12):
        value = _next_value(known, by_half=step % 3 == 2)
        if value is None or value in known:
            break
        known[value] = difference(value)
    return next((value for value, found in known.items() if found == 0), None), known


@pytest.mark.parametrize("wanted", [3, 8, 40, 255])
def test_the_zero_of_a_stepwise_difference_is_found(wanted):
    def difference(value):  # of the features behind a stride of two, squared as those of an image
        return (value // 2) ** 2 - wanted**2

    zero, known = zero_of(difference, (16, 32))
    assert zero is not None and zero // 2 == wanted
    assert len(known) < 15


def test_a_difference_that_jumps_over_zero_ends_the_steps():
    zero, known = zero_of(lambda value: 10 if value > 20 else -10, (16, 32))
    assert zero is None
    assert {20, 21} <= set(known)


def test_an_input_that_is_too_large_gets_a_batch_of_one_or_is_left_out():
    def attempt(*shapes):
        return Attempt((), tuple(Draw("randn", shape) for shape in shapes))

    side = int(MAX_ELEMENTS**0.5)
    assert _of_allowed_size(attempt((4, side, side), (4, 9))) == attempt((1, side, side), (1, 9))
    assert _of_allowed_size(attempt((4, 8), (3, 9))) == attempt((4, 8), (3, 9))
    assert _of_allowed_size(attempt((4, side, side + 1))) is None
