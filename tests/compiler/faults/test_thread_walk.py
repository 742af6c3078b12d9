"""Threads are followed through guards, loops and conditions to a node."""

import pytest

from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.faults.thread_walk import visits
from musadata.compiler.ir.code import Element, Name, walk

NAIVE = PLANS[1]


@pytest.fixture
def reads(candidate_of):
    """The arrivals at the first read of `x` in the first kernel of a reference."""

    def get(name, sizes, **options):
        emitted = candidate_of(name, NAIVE).kernels[0]
        elements = (one for one in walk(emitted.function.body) if isinstance(one, Element) and one.array == Name("x"))
        return list(visits(emitted, emitted.function, next(elements), sizes, **options))

    return get


def test_every_thread_with_work_comes_to_its_elements_in_order(reads):
    found = reads("softmax", {"rows": 3, "cols": 4})
    assert [(one.thread[0], one.known["row"], one.known["col"]) for one in found] == [
        (row, row, col) for row in range(3) for col in range(4)
    ]
    assert found[-1].told == "thread 2 of block 0"


def test_only_the_last_block_is_followed_if_asked(reads):
    found = reads("linear", {"rows": 9}, last=True)
    assert {one.block for one in found} == {(1,)} and {one.known["output"] for one in found} == set(range(128, 180))


def test_a_condition_inside_of_the_window_is_asked(reads):
    places = reads("max pool", {"batch": 1, "height": 5, "width": 5, "out_height": 3, "out_width": 3})
    assert places and all(0 <= one.known["in_h"] < 5 and 0 <= one.known["in_w"] < 5 for one in places)
