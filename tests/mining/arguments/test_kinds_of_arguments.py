"""Arguments that must be another kind of thing: a layer that is taken apart, a dictionary, a list."""

import pytest
from test_argument_search import HEAD, run, search
from test_evidence_of_errors import module

from musadata.mining.arguments.attempts import with_integers
from musadata.mining.arguments.input_shapes import draw_input
from musadata.mining.search import search_and_prune


@pytest.mark.parametrize("signature", ["x", "\n        x, *,\n        scale=2.0,\n    "])
def test_a_static_forward_takes_its_inputs(signature):
    body = module("        pass", "        return x * torch.sigmoid(x)")
    static = body.replace("    def forward(self, x", f"    @staticmethod\n    def forward({signature}", 1)
    assert static != body
    found = search_and_prune(HEAD + static, "Model", [], "salt")
    assert "reason" not in found, found
    assert "def forward(self, x" in found["definitions"] and "@static" not in found["definitions"]


@pytest.mark.parametrize("rank", [2, 3, 5])
def test_what_is_unpacked_beside_a_shape_is_no_dimension(rank):
    names = ", ".join("abcde"[:rank])
    forward = f"        {names}, heads, device = *x.shape, self.heads, x.device\n        return self.layer(x) + heads"
    constructor = "        self.heads = 4\n        self.layer = nn.Linear(dim, dim)"
    body = module(constructor, forward, ", dim")
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).dim() == rank


@pytest.mark.parametrize("default", ["None", "[]"])
def test_what_is_moved_to_a_device_is_a_tensor(default):
    constructor = "        self.table = nn.Parameter(table.to('cpu'))"
    found = search(module(constructor, "        return x @ self.table", f", table={default}"))
    assert found.get("init", [""])[0].startswith("torch.rand("), found


def test_targets_that_some_are_left_out_of_are_classes():
    constructor = "        self.loss = nn.CrossEntropyLoss(ignore_index=255)"
    found = search(module(constructor, "        return self.loss(x, target)", inputs="x, target"))
    assert "randint" in found.get("inputs", ["", ""])[1], found


@pytest.mark.parametrize(("name", "whole"), [("src_tokens", True), ("token_embedding", False), ("id_feats", False)])
def test_what_is_made_of_tokens_is_no_token(name, whole):
    assert (draw_input(name, (2, 3, 8), "").kind == "randint") is whole


VOCABULARY = """
class Tokens:
    PAD = "<pad>"
    START = "<sos>"


"""


def test_sizes_behind_a_word_of_another_script_are_replaced():
    assert with_integers("{'．': 1, 'width': 24}", [2, 36]) == "{'．': 2, 'width': 36}"
