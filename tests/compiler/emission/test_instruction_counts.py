"""What a kernel issues is counted on its tree: more for more steps, and once for what no turn of a loop changes."""

import pytest

from musadata.compiler.emission.instruction_counts import instructions
from musadata.compiler.ir.code import Assign, Binary, Declare, Element, Function, Loop, Name, Number, code

ROW, COL, COLS = Name("row"), Name("col"), Name("cols")


def kernel(*inner, start=None):
    loop = Loop("int", ((COL, start or code(0)),), Binary(COL, "<", COLS), None, tuple(inner))
    return Function("__global__ void", Name("f_kernel"), (), (loop,))


def count(*inner, start=None, trips=1, **sizes):
    return instructions(kernel(*inner, start=start), sizes, 1, trips, 7)


READ = Assign(Name("sum"), "+=", Name("cell"))
SUM = Assign(Name("sum"), "+=", Element(Name("x"), Binary(ROW, "*", COLS) + COL))


def test_a_loop_counts_by_its_trips():
    assert count(SUM, cols=200) == pytest.approx(2 * count(SUM, cols=100))


def test_what_no_turn_changes_is_counted_once():
    fixed = Declare("int", ((Name("cell"), Binary(ROW, "/", COLS)),))
    moving = Declare("int", ((Name("cell"), Binary(COL, "/", COLS)),))
    alone, once, each = (count(*some, READ, cols=100) for some in ((SUM,), (fixed, SUM), (moving, SUM)))
    assert once - alone < 20 < 500 < each - alone


def test_steps_that_do_not_follow_from_the_sizes_are_given():
    assert count(SUM) == pytest.approx(count(SUM, cols=7))


def test_a_loop_over_points_takes_the_trips_of_a_thread():
    assert count(SUM, start=Name("blockIdx.x"), trips=3, cols=100) == pytest.approx(count(SUM, cols=3))


def test_a_number_is_a_cheaper_divisor_than_a_size():
    by_size, by_number = (
        count(Declare("int", ((Name("cell"), Binary(COL, "%", divisor)),)), READ, cols=100)
        for divisor in (COLS, Number("7"))
    )
    assert by_number < by_size


def test_what_an_unrolled_loop_knows_when_it_is_compiled_costs_nothing():
    place = Binary(Binary(COL, "/", Number("8")), "*", Number("32")) + ROW
    row = Declare("float", ((Name("row_part"), None),), "", (16,))
    add = Assign(Name("sum"), "+=", Element(Name("row_part"), COL))
    unread = Declare("int", ((Name("place"), place),))

    def counted(unroll, *inner):
        loop = Loop("int", ((COL, code(0)),), Binary(COL, "<", Number("16")), None, inner, unroll)
        return instructions(Function("__global__ void", Name("f_kernel"), (), (row, loop)), {}, 1, 1, 7)

    assert counted("#pragma unroll", add, unread) == 16  # additions
    assert counted("", add) > 2 * 16


def test_an_unrolled_loop_takes_its_share_of_steps_that_do_not_follow_from_the_sizes():
    part = Loop("int", ((ROW, code(0)),), Binary(ROW, "<", Number("7")), None, (SUM,), "#pragma unroll")
    assert count(part) < 2 * count(SUM)
