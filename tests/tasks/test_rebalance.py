"""Shards end up even, every kept row goes to one of them, and none is read more often than it has parts."""

from hypothesis import given
from hypothesis import strategies as st

from musadata.tasks.rebalance import Selection
from musadata.tasks.selection import DUPLICATE_GRAPH, KEPT

ROWS = st.lists(st.binary(max_size=40).map(lambda some: bytes(DUPLICATE_GRAPH * (one % 3 == 0) for one in some)))


@given(ROWS)
def test_every_kept_row_goes_to_one_shard_in_order_and_sizes_differ_by_one_at_most(decisions):
    dealt = [Selection(tuple(decisions)).parts(target) for target in range(len(decisions))]
    rows = [(part.source, row) for parts in dealt for part in parts for row in part.rows.tolist()]
    assert rows == [(at, row) for at, some in enumerate(decisions) for row, one in enumerate(some) if one == KEPT]
    sizes = [sum(len(part.rows) for part in parts) for parts in dealt]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


@given(ROWS)
def test_shards_are_read_about_once(decisions):
    reads = sum(len(Selection(tuple(decisions)).parts(target)) for target in range(len(decisions)))
    assert reads <= 2 * len(decisions)
