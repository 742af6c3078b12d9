"""One task of each group of duplicates is kept, whatever the order."""

import random
import resource
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musadata.config import TasksConfig
from musadata.errors import Outage
from musadata.records import OperatorFamily, Provenance, SourceKind, Task
from musadata.tasks import selection
from musadata.tasks.selection import DECISIONS, Signatures
from musadata.tasks.text import similarity, text_signature, tokens

CONFIG = TasksConfig(duplicate_similarity=0.85)
LONG = "\n".join(
    f"x = torch.relu(x * {number} + self.bias) - x.mean(dim={number % 2}, keepdim=True)" for number in range(9)
)


def lines(count, prefix=""):
    """A text of so many lines, no two of them alike."""
    return "\n".join(f"x = torch.op{prefix}{number}(x, dim=1)" for number in range(count))


def signature(name, graph="g", text="", operators="o", kind="mined"):
    return Task(
        task_id=name,
        source_kind=SourceKind(kind),
        name=name,
        reference="",
        operators=(operators,),
        operator_family=OperatorFamily.OTHER,
        level=1,
        inputs=(),
        provenance=Provenance("", "", "", "", "", ""),
        split="train",
        text_signature=text_signature(text or lines(20, name)),
        graph_fingerprint=graph,
    )


def select(tasks, config):
    """What is dropped, by id, and why."""
    decisions = selection.select(Signatures.of(tasks), config)
    return {task.task_id: DECISIONS[one] for task, one in zip(tasks, decisions, strict=True) if one != selection.KEPT}


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
@settings(deadline=None)
def test_selection_does_not_depend_on_the_order(source: random.Random):
    some = [
        signature(f"t{index}", f"g{index % 7}", lines(20, "abcde"[index % 5]), f"o{index % 2}") for index in range(20)
    ]
    expected = select(some, CONFIG)
    source.shuffle(some)
    assert select(some, CONFIG) == expected
    kept = {one.task_id for one in some} - set(expected)
    assert len({one.graph_fingerprint for one in some if one.task_id in kept}) == len(kept)


def test_of_rows_with_the_same_id_the_first_one_is_kept():
    some = [signature("b"), signature("a"), signature("a"), signature("c", "other"), signature("c", "other")]
    decisions = selection.select(Signatures.of(some), CONFIG).tolist()
    assert [DECISIONS[one] for one in decisions] == ["duplicate_graph", "kept", "repeated", "kept", "repeated"]


def test_every_row_of_a_dropped_id_has_the_reason_of_its_id():
    some = [signature("a"), signature("b"), signature("b")]
    assert selection.select(Signatures.of(some), CONFIG).tolist().count(selection.DUPLICATE_GRAPH) == 2


def test_no_tasks_give_no_decisions():
    assert selection.select(Signatures.of([]), CONFIG).tolist() == []


def grouped_one_by_one(tasks):
    """What is kept, found as plainly as can be: by the closure of likeness over all pairs that share a band."""
    ordered = sorted(tasks, key=lambda task: task.task_id)
    group = list(range(len(ordered)))
    changed = True
    while changed:
        changed = False
        for left in range(len(ordered)):
            for right in range(left):
                a, b = ordered[left], ordered[right]
                like = a.graph_fingerprint == b.graph_fingerprint or (
                    a.operators == b.operators
                    and similarity(a.text_signature, b.text_signature) >= CONFIG.duplicate_similarity
                )
                if like and group[left] != group[right]:
                    group[left] = group[right] = min(group[left], group[right])
                    changed = True
    return {ordered[index].task_id for index in set(group)}


@given(st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=30)
def test_arrays_find_the_same_groups_as_pairs_one_by_one(source: random.Random):
    some = [
        signature(
            f"t{number:02d}",
            f"g{source.randrange(15)}",
            lines(source.choice((20, 20, 22, 24)), source.choice("abc")),
            f"o{source.randrange(2)}",
        )
        for number in range(18)
    ]
    assert {task.task_id for task in some} - set(select(some, CONFIG)) == grouped_one_by_one(some)


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


@contextmanager
def largest_file(bytes_: int):
    """Files of this process may not grow beyond so many bytes, which is refused as a full disk is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_texts_in_a_scratch_file_give_the_same_decisions(monkeypatch):
    tasks = [signature(f"t{number}", f"g{number // 2}", lines(30, number % 3)) for number in range(40)]
    before = selection.select(Signatures.of(tasks), CONFIG).tolist()
    monkeypatch.setattr(selection, "_ROWS_IN_MEMORY", 0)
    assert selection.select(Signatures.of(tasks), CONFIG).tolist() == before


def test_scratch_file_without_room_is_an_outage_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(selection, "_ROWS_IN_MEMORY", 0)
    tasks = [signature(f"t{number}") for number in range(40)]
    with largest_file(4096), pytest.raises(Outage, match="TMPDIR"):
        Signatures.of(tasks)
