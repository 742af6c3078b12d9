"""Arguments that must be another kind of thing: a layer that is taken apart, a dictionary, a list."""

import re

import pytest
from test_argument_search import HEAD, run, search
from test_evidence_of_errors import module

from musadata.mining.arguments.attempts import with_integers
from musadata.mining.arguments.input_shapes import draw_input
from musadata.mining.search import search_and_prune

INFLATED = """
def deeper(plane):
    made = nn.Conv3d(plane.in_channels, plane.out_channels, (1, *plane.kernel_size), padding=(0, *plane.padding))
    made.weight = nn.Parameter(plane.weight.unsqueeze(2))
    return made

"""


@pytest.mark.parametrize(
    ("helpers", "constructor", "forward", "kind"),
    [
        ("", "self.table = nn.Parameter(given.weight[: given.num_embeddings // 2])", "x @ self.table.t()", "nn.Emb"),
        ("", "self.state = nn.Parameter(given.weight_hh_l0.clone())", "x @ self.state.t()", "nn.LSTM"),
        ("", "self.shift = nn.Parameter(given.running_mean + given.bias)", "x - self.shift", "nn.BatchNorm2d"),
    ],
)
def test_a_layer_that_is_taken_apart_has_the_attributes_that_are_read(helpers, constructor, forward, kind):
    found = search(helpers + module(f"        {constructor}", f"        return {forward}", ", given"))
    assert "reason" not in found, found
    assert found["init"][0].startswith(kind)


def test_a_loss_that_is_wrapped_is_a_loss():
    constructor = "        self.loss = given\n        self.how = given.reduction\n        self.loss.reduction = 'none'"
    forward = "        return self.loss(x, torch.sigmoid(x)).mean() if self.how == 'mean' else self.loss(x, x)"
    body = module(constructor, forward, ", given")
    found = search(body)
    assert "reason" not in found, found
    assert found["init"] == ["nn.BCEWithLogitsLoss()"]
    run(body, found)


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


def test_a_list_holds_the_keys_of_the_table_that_its_items_are_looked_up_in():
    table = "KINDS = {'relu': nn.ReLU, 'tanh': nn.Tanh}\n\n\n"
    constructor = "        self.acts = nn.ModuleList([KINDS[kind]() for kind in kinds])"
    found = search(table + module(constructor, "        return sum(act(x) for act in self.acts)", ", kinds"))
    assert found.get("init") == ["('relu',)"], found


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


BUILT = """
class Inner(nn.Module):
    def __init__(self, count, width, hidden_size, rate=0.5):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(width, hidden_size) for _ in range(count)])

    def forward(self, x):
        return self.layers(x) * self.layers[0].weight.mean()


"""


SCALED = """
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, gate, shift=None):
        return self.layer(x) * torch.sigmoid(gate)


"""


def test_a_flag_is_one_and_a_count_of_bits_is_small():
    forward = "        target = torch.ones(()) if target_is_real else torch.zeros(())\n        return (x - target) ** 2"
    found = search(module("        self.a = 1", forward, inputs="x, target_is_real"))
    assert found.get("inputs", ["", ""])[1] == "True", found
    steps = "        return torch.round(torch.sigmoid(x) * (2**self.n - 1)) / (2**self.n - 1)"
    assert search(module("        self.n = w_bits", steps, ", w_bits")).get("init") == ["4"]


VOCABULARY = """
class Tokens:
    PAD = "<pad>"
    START = "<sos>"


"""


def test_an_index_of_words_numbers_those_that_the_code_looks_up_and_a_list_of_words_has_many():
    constructor = """
        self.first = data.word2idx[Tokens.START]
        self.embedding = nn.Embedding(len(data.idx2word), config["dim"], padding_idx=data.word2idx[Tokens.PAD])
"""
    forward = """
        return self.embedding(x) + self.embedding(torch.full_like(x, self.first))
"""
    found = search(VOCABULARY + module(constructor, forward, ", config, data"))
    assert "reason" not in found, found
    _, data = found["init"]
    assert "word2idx={'<sos>': 0, '<pad>': 1}" in data
    assert int(re.search(r"idx2word=range\((\d+)\)", data)[1]) >= 16


def test_a_configuration_takes_the_flags_of_the_tree_without_its_large_sizes():
    constructor = """
        self.directed = config["directed"]
        assert self.directed is True
        self.inner = nn.LSTM(config["dim"], config["hidden"], bidirectional=self.directed)
        self.outer = nn.Linear(2 * config["hidden"], config["dim"])
"""
    forward = """
        return self.outer(self.inner(x)[0])
"""
    settings = {"directed": "True", "dim": "4096", "hidden": "4096"}  # 240 million parameters
    found = search_and_prune(
        HEAD + module(constructor, forward, ", config"), "Model", [], "", {"": {"settings": settings}}
    )
    assert "reason" not in found, found
    assert "4096" not in found["init"][0]


def test_sizes_behind_a_word_of_another_script_are_replaced():
    assert with_integers("{'．': 1, 'width': 24}", [2, 36]) == "{'．': 2, 'width': 36}"
