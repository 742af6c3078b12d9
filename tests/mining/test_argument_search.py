"""Finding arguments by evidence and by what errors say. The searched code is ours, so it runs in this process."""

import hypothesis.strategies as st
import torch
from hypothesis import given

from musadata.mining.attempts import Attempt, Draw, integers, shrunk, with_integers
from musadata.mining.search import search_arguments

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def search(body, examples=(), salt="salt"):
    return search_arguments(HEAD + body, "Model", list(examples), salt)


def run(body, found):
    space: dict = {}
    exec(HEAD + body, space)
    model = space["Model"](*[eval(text, space) for text in found["init"]])
    return model(*[eval(text, space) for text in found["inputs"]])


def test_names_and_error_messages_lead_to_inputs_that_fit():
    body = (
        "class Model(nn.Module):\n    def __init__(self, in_channels, hidden):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(in_channels, hidden, 3)\n        self.norm = nn.GroupNorm(6, hidden)\n\n"
        "    def forward(self, x):\n        return self.norm(self.conv(x))\n"
    )
    found = search(body)
    assert "reason" not in found
    assert run(body, found).dim() == 4


def test_two_inputs_of_different_widths_are_told_apart():
    body = (
        "class Model(nn.Module):\n    def __init__(self, query_dim, context_dim):\n        super().__init__()\n"
        "        self.q = nn.Linear(query_dim, 16)\n        self.k = nn.Linear(context_dim, 16)\n\n"
        "    def forward(self, x, context):\n        return self.q(x) @ self.k(context).transpose(1, 2)\n"
    )
    found = search(body)
    assert "reason" not in found, found
    assert run(body, found).dim() == 3


def test_token_inputs_become_integers():
    body = (
        "class Model(nn.Module):\n    def __init__(self, vocab_size, dim):\n        super().__init__()\n"
        "        self.embed = nn.Embedding(vocab_size, dim)\n\n"
        "    def forward(self, x):\n        return self.embed(x).relu()\n"
    )
    found = search(body)
    assert "randint" in found["inputs"][0]
    run(body, found)


def test_a_configuration_object_is_made_from_the_attributes_that_are_read():
    body = (
        "class Model(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        self.fc = nn.Linear(config.hidden_size, config.intermediate_size)\n"
        "        self.p = config.dropout_prob\n\n"
        "    def forward(self, x):\n        return self.fc(x)\n"
    )
    found = search(body)
    assert "SimpleNamespace" in found["init"][0]


def test_dropout_is_turned_off_where_the_constructor_can():
    body = (
        "class Model(nn.Module):\n    def __init__(self, dim, dropout=0.1):\n        super().__init__()\n"
        "        self.drop = nn.Dropout(dropout)\n        self.fc = nn.Linear(dim, dim)\n\n"
        "    def forward(self, x):\n        return self.drop(self.fc(x))\n"
    )
    assert search(body)["init"][1] == "0.0"


def test_an_oversized_example_is_shrunk_before_it_is_tried():
    body = "class Model(nn.Module):\n    def forward(self, x):\n        return x.softmax(1)\n"
    example = {
        "init": [],
        "init_keywords": [],
        "inputs": ["torch.empty(20, 1600, 50, 100)"],
        "input_keywords": [],
        "evidence": "docstring",
    }
    found = search(body, [example])
    assert found["evidence"] == "docstring"
    assert run(body, found).numel() <= 1 << 16


def test_a_module_that_never_works_is_given_up_with_the_last_error():
    found = search("class Model(nn.Module):\n    def forward(self, x):\n        raise RuntimeError('no luck')\n")
    assert found == {"reason": "forward_fails", "detail": "RuntimeError: no luck"}


def test_code_that_does_not_import_is_given_up():
    assert search("1 / 0\n")["reason"] == "import_fails"


def test_different_modules_get_different_sizes():
    body = "class Model(nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
    assert len({search(body, salt=str(number))["inputs"][0] for number in range(8)}) > 2


def test_target_kinds_are_kept():
    body = "class Model(nn.Module):\n    def forward(self, x, target):\n        return F.cross_entropy(x, target)\n"
    example = {
        "init": [],
        "init_keywords": [],
        "inputs": ["torch.randn(3, 5)", "torch.empty(3, dtype=torch.long).random_(5)"],
        "input_keywords": [],
        "evidence": "docstring",
    }
    found = search(body, [example])
    assert "randint" in found["inputs"][1]
    rows, classes = eval(found["inputs"][0], {"torch": torch}).shape
    target = eval(found["inputs"][1], {"torch": torch})
    assert target.shape == (rows,)
    assert int(target.max()) < classes


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=5))
def test_integers_of_an_expression_can_be_replaced(numbers):
    text = f"nn.Linear({', '.join(map(str, numbers))}, bias=True, eps=1e-5)"
    assert integers(text) == numbers
    changed = [number + 1 for number in numbers]
    assert integers(with_integers(text, list(changed))) == changed


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=4), st.sampled_from(["randn", "rand", "sign", "bool"]))
def test_an_attempt_survives_taking_its_values_out_and_putting_them_back(shape, kind):
    attempt = Attempt(("(3, 4)", "'same'"), (Draw(kind, tuple(shape)), Draw("randint", (2,), 9, "int64")))
    assert attempt.with_values(attempt.values()) == attempt
    assert max(shrunk(attempt, 48).values()) <= 48
