"""One task of each group of duplicates is kept, whatever the order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from musadata.config import TasksConfig
from musadata.tasks.selection import TaskSignature, select, signature_of
from musadata.tasks.text import PERMUTATIONS, similarity, text_signature, tokens
from tests.tasks.conftest import reference

CONFIG = TasksConfig(duplicate_similarity=0.85)
LONG = "\n".join(
    f"x = torch.relu(x * {number} + self.bias) - x.mean(dim={number % 2}, keepdim=True)" for number in range(9)
)


def lines(count, prefix=""):
    """A text of so many lines, no two of them alike."""
    return "\n".join(f"x = torch.op{prefix}{number}(x, dim=1)" for number in range(count))


def signature(name, graph="g", text="", operators="o", kind="mined"):
    return TaskSignature(name, kind, graph, operators, text_signature(text or lines(20, name)))


def test_equal_graphs_are_duplicates_whatever_their_texts():
    some = [signature("b"), signature("a"), signature("c", graph="other")]
    assert select(some, CONFIG) == {"b": "duplicate_graph"}


def test_mined_code_represents_its_group():
    some = [signature("a", kind="nnsmith"), signature("z", kind="mined")]
    assert select(some, CONFIG) == {"a": "duplicate_graph"}


def test_similar_texts_of_the_same_operators_are_near_duplicates():
    edited = LONG.replace("* 3", "* 33").replace("self.bias", "self.shift")
    some = [signature("a", "1", LONG), signature("b", "2", edited)]
    assert select(some, CONFIG) == {"b": "near_duplicate"}


def test_similar_texts_of_other_operators_are_not():
    some = [signature("a", "1", LONG, "relu"), signature("b", "2", LONG, "gelu")]
    assert select(some, CONFIG) == {}


def test_likeness_is_transitive():
    texts = [lines(count) for count in (24, 22, 20, 18)]
    assert similarity(text_signature(texts[0]), text_signature(texts[-1])) < CONFIG.duplicate_similarity
    some = [signature(f"t{index}", f"g{index}", text) for index, text in enumerate(texts)]
    assert set(select(some, CONFIG)) == {"t1", "t2", "t3"}
    assert select([some[0], some[-1]], CONFIG) == {}


@given(st.randoms(use_true_random=False))
def test_selection_does_not_depend_on_the_order(source: random.Random):
    some = [
        signature(f"t{index}", f"g{index % 7}", lines(20, "abcde"[index % 5]), f"o{index % 2}") for index in range(20)
    ]
    expected = select(some, CONFIG)
    source.shuffle(some)
    assert select(some, CONFIG) == expected
    kept = {one.task_id for one in some} - set(expected)
    assert len({one.graph_fingerprint for one in some if one.task_id in kept}) == len(kept)


def test_signature_is_small(examine):
    task = examine(reference("return torch.tanh(x)"))
    small = signature_of(task)
    assert (small.task_id, small.graph_fingerprint) == (task.task_id, task.graph_fingerprint)
    assert len(small.text_signature) == PERMUTATIONS


@pytest.mark.parametrize(
    "disguised",
    [
        "class Net(nn.Module):\n    def forward(self, a):\n        return F.relu(a + 2)",
        'class Net(nn.Module):\n    """Words."""\n\n    def forward(self, x):\n        return F.relu(x + 1)',
        "class Net(nn.Module):\n    def forward(self, x):  # why\n        return F.relu(\n            x + 1\n        )",
    ],
)
def test_tokens_survive_names_numbers_comments_and_layout(disguised):
    assert tokens(disguised) == tokens("class Net(nn.Module):\n    def forward(self, x):\n        return F.relu(x + 1)")


def test_tokens_tell_operators_apart():
    assert tokens("return F.relu(x)") != tokens("return F.gelu(x)")
