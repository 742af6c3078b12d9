"""Sizes of images that a network's own numbers fix."""

from test_evidence_of_errors import module

from musadata.mining.arguments.attempts import Attempt, Draw
from musadata.mining.arguments.repairs.ranks import change_rank
from musadata.mining.search import search_arguments


def images(*sides: tuple[int, int]) -> Attempt:
    return Attempt((), tuple(Draw("randn", (2, 3, *pair)) for pair in sides))


def test_a_sequence_of_volumes_has_as_many_dimensions_as_a_cell_asks_for():
    error = "ValueError: expected 6D input (got 3D input)"
    made = [found.draws[0].shape for found in change_rank(Attempt((), (Draw("randn", (5, 2, 3)),)), error, "")]
    assert len(made[0]) == 6 and made[0][:3] == (5, 2, 3)


def test_images_are_cut_into_the_blocks_that_the_code_unflattens():
    constructor = "        self.layer = nn.Conv2d(1, 4, 3, padding=1)"
    forward = "        return self.layer(x).unflatten(3, (-1, 16)).unflatten(2, (-1, 16)).mean((3, 5))"
    source = f"import torch\nfrom torch import nn\nimport torch.nn.functional as F\n\n\n{module(constructor, forward)}"
    found = search_arguments(source, "M", [], "")
    assert "reason" not in found, found
