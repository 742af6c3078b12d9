"""Rows that are put together are cut where their formula changes, and nowhere else."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from musadata.compiler.ir.index_formulas import Size, Variable, number, of
from musadata.compiler.ir.scalar import Choose, Compare, Formula, Scalar, choose, literal
from musadata.compiler.lowering.rewriting import assuming, cuts, decided, substitute


def put_together(lengths: list[int], axis: Variable, order: list[int]) -> Scalar:
    """The number of the piece that a place lies in, by choices in any order of the ends that still decides it."""
    ends = list(accumulate(lengths))
    value: Scalar = literal(len(lengths) - 1, "int64")
    for piece in sorted(range(len(lengths) - 1), reverse=True):
        value = choose(Compare("bool", "<", of(axis), number(ends[piece])), literal(piece, "int64"), value)
    return value


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_pieces_cover_a_row_in_order_and_need_no_choice(lengths):
    axis = Variable("col", number(sum(lengths)))
    value = put_together(lengths, axis, [])
    ends = [end.constant for end in cuts(value, axis)]
    assert ends == list(accumulate(lengths))[:-1]
    for piece, (start, end) in enumerate(pairwise([0, *ends, sum(lengths)])):
        inner = Variable("col", number(end - start))

        def moved(node: Scalar, start: int = start, inner: Variable = inner) -> Scalar:
            if isinstance(node, Choose):
                test = node.condition
                left = substitute(test.left, {axis: of(inner) + start})
                return Choose(node.dtype, Compare("bool", "<", left, test.right), moved(node.yes), moved(node.no))
            return node

        assert decided(moved(value)).value == piece


def test_pieces_whose_order_is_unknown_stay_together():
    axis, one, other = Variable("col", of(Size("cols"))), of(Size("one")), of(Size("other"))
    inner = choose(Compare("bool", "<", of(axis), other), literal(1, "int64"), literal(2, "int64"))
    value = choose(Compare("bool", "<", of(axis), one), literal(0, "int64"), inner)
    assert cuts(value, axis) == []


def test_a_condition_that_holds_is_not_asked_again():
    axis = Variable("col", of(Size("cols")))
    test = Compare("bool", "<", of(axis), number(3))
    again = choose(test, Formula("int64", of(axis)), literal(0, "int64"))
    assert isinstance(assuming(test, again), Formula)
