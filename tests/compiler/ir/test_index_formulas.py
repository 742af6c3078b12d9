"""Index formulas mean what Python's integers mean, however they were simplified."""

from hypothesis import given
from hypothesis import strategies as st

from musadata.compiler.ir.index_formulas import (
    Index,
    Size,
    Variable,
    as_index,
    divide,
    join_halves,
    not_negative,
    number,
    of,
)
from musadata.compiler.lowering.layout import flatten, reshape_index

HEIGHT, WIDTH = of(Size("height")), of(Size("width"))
ROW, COL = of(Variable("row", HEIGHT)), of(Variable("col", WIDTH))


def value(index: Index, row: int, col: int, height: int, width: int) -> int:
    sizes = {"height": height, "width": width}
    swapped = {Variable("row", HEIGHT): row, Variable("col", WIDTH): col}
    total = 0
    for monomial, coefficient in index.terms:
        for atom in monomial:
            if isinstance(atom, Variable):
                coefficient *= swapped[atom]
            elif isinstance(atom, Size):
                coefficient *= sizes[atom.name]
            else:
                left, right = (value(part, row, col, height, width) for part in (atom.left, atom.right))
                coefficient *= {"//": left // max(right, 1), "%": left % max(right, 1)}.get(
                    atom.kind, min(left, right) if atom.kind == "min" else max(left, right)
                )
        total += coefficient
    return total


small = st.integers(0, 5)
extent = st.integers(1, 7)


@given(a=small, b=small, c=small, d=st.integers(1, 6), height=extent, width=extent, data=st.data())
def test_quotient_and_remainder_are_those_of_integers(a, b, c, d, height, width, data):
    row, col = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    formula = ROW * WIDTH * a + COL * b + c
    for divisor in (number(d), WIDTH, WIDTH * d):
        quotient, rest = divide(formula, divisor)
        plain, by = value(formula, row, col, height, width), value(divisor, row, col, height, width)
        assert value(quotient, row, col, height, width) == plain // by
        assert value(rest, row, col, height, width) == plain % by


@given(a=st.integers(-3, 3), b=st.integers(-3, 3), c=st.integers(-6, 6), height=extent, padding=small)
def test_what_is_proven_of_sizes_and_attributes_holds(a, b, c, height, padding):
    formula = HEIGHT * a + of(Size("padding", least=0)) * b + c
    if not_negative(formula):
        assert formula.evaluate({"height": height, "padding": padding}) >= 0


def test_a_size_is_1_or_more_and_an_attribute_may_be_0():
    assert not_negative(of(Size("size")) - 1)
    assert not not_negative(of(Size("padding", least=0)) - 1)
    assert not_negative(of(Size("padding", least=0)))


def test_row_and_column_come_back_out_of_a_flat_position():
    flat = flatten([ROW, COL], [HEIGHT, WIDTH])
    assert divide(flat, WIDTH) == (ROW, COL)


def test_a_split_that_is_undone_cancels_out():
    channel = of(Variable("channel", as_index(12)))
    assert (channel // 4) * 4 + channel % 4 == channel


@given(st.permutations([2, 3, 4, 5]), st.data())
def test_reshaping_there_and_back_is_the_identity(shape, data):
    cut = data.draw(st.integers(1, 3))
    merged = [*shape[: cut - 1], shape[cut - 1] * shape[cut], *shape[cut + 1 :]]
    index = tuple(of(Variable(f"v{i}", as_index(size))) for i, size in enumerate(shape))
    there = reshape_index(index, tuple(map(as_index, shape)), tuple(map(as_index, merged)))
    assert reshape_index(there, tuple(map(as_index, merged)), tuple(map(as_index, shape))) == index


def test_only_what_is_proven_counts_as_not_negative():
    assert not_negative(ROW * 2 + 1)
    assert not_negative(WIDTH - COL - 1)
    assert not not_negative(ROW - 1)
    assert not not_negative(WIDTH - 2)


def test_padding_on_both_sides_of_a_window_keeps_the_length():
    size = of(Size("size"))
    padded = WIDTH + size // 2 + (size - 1) // 2
    assert join_halves(padded - size + 1) == WIDTH
    assert join_halves(WIDTH + size // 2 + (size - 2) // 2) != WIDTH + size - 1


@given(st.integers(1, 50))
def test_halves_add_up(value):
    assert join_halves(of(Size("n")) // 2 + (of(Size("n")) + 1) // 2).evaluate({"n": value}) == value
