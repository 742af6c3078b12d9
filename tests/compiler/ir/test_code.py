"""Trees of C++: how they are written, changed and evaluated."""

import pytest

from musadata.compiler.ir.code import (
    Assign,
    Barrier,
    Binary,
    Choice,
    Declare,
    Function,
    Guard,
    Jump,
    Loop,
    Name,
    Number,
    Parameter,
    apply,
    code,
    covering,
    declared_in,
    evaluate,
    every,
    names_of,
    rebuild,
    replace_at,
    settle,
    walk,
)
from musadata.compiler.ir.printing import text_of, widened

A, B, C = map(Name, "abc")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (A + B - C, "a + b - c"),
        (A - (B - C), "a - (b - c)"),
        ((A + B) * C, "(a + b) * c"),
        (A / (B * 4), "a / (b * 4)"),
        (A / B % 4, "a / b % 4"),
        (every(A < B, C >= 0), "a < b && c >= 0"),
        (Binary(A, "||", every(B, C)), "a || b && c"),
        (Choice(A < B, A, code(-1)) + 1, "(a < b ? a : -1) + 1"),
        (apply("min", A, B + 1)[0], "min(a, b + 1)[0]"),
        (A["i"][B * 2].member("x"), "a[i][b * 2].x"),
    ],
)
def test_brackets_follow_from_precedence(value, text):
    assert str(value) == text


def test_statements_are_written_in_their_blocks():
    step = Loop("int", ((Name("k"), code(0)),), Name("k") < 16, None, (Assign(A, "+=", B["k"]),), "#pragma unroll")
    guard = Guard(A >= "total", (Jump("return"),), short=True, note="the whole warp leaves")
    body = (Declare("int", ((A, B / 4),)), guard, step, Barrier(), Guard(A < B, (Jump("continue"),), (step,)))
    kernel = Function("__global__ void ", Name("f"), (Parameter("const float* __restrict__", B),), body)
    assert text_of(kernel).splitlines() == [
        "__global__ void f(const float* __restrict__ b) {",
        "    const int a = b / 4;",
        "    if (a >= total) return;  // the whole warp leaves",
        "    #pragma unroll",
        "    for (int k = 0; k < 16; ++k) {",
        "        a += b[k];",
        "    }",
        "    __syncthreads();",
        "    if (a < b) {",
        "        continue;",
        "    } else {",
        "        #pragma unroll",
        "        for (int k = 0; k < 16; ++k) {",
        "            a += b[k];",
        "        }",
        "    }",
        "}",
    ]
    assert declared_in(kernel) == {"f", "a", "b", "k"} and names_of(kernel) >= {"total"}


def test_wide_positions_have_64_bits_and_arguments_of_one_type():
    line = Declare("int", ((A, apply("min", B, C)),))
    assert text_of(widened(line)) == "const int64_t a = min(int64_t(b), int64_t(c));\n"


def test_one_of_several_equal_nodes_is_replaced():
    body = (Assign(A, "=", B + B), Barrier(), Assign(C, "=", B))
    places = [number for number, node in enumerate(walk(body)) if node == B]
    changed = [text_of(replace_at(body, place, lambda _: Number("7"))) for place in places]
    assert [text.replace("\n", "") for text in changed] == [
        "a = 7 + b;__syncthreads();c = b;",
        "a = b + 7;__syncthreads();c = b;",
        "a = b + b;__syncthreads();c = 7;",
    ]


def test_a_statement_can_go():
    body = (Assign(A, "=", B), Barrier(), Assign(B, "=", A))
    assert rebuild(body, lambda node: () if isinstance(node, Barrier) else None) == (body[0], body[2])


def test_a_grid_follows_from_what_the_host_computes():
    setup = (
        Declare("int", ((Name("total"), A * B),)),
        Declare("int", ((Name("blocks"), covering(Name("total"), 256)),)),
    )
    assert settle(setup, {"a": 100, "b": 7})["blocks"] == (3,)
    assert "blocks" not in settle(setup, {"a": 100})
    assert evaluate(covering(code(33), 16), {}) == 3


def test_integers_are_computed_as_in_cpp():
    known = {"a": -7, "b": 2}
    assert (evaluate(A / B, known), evaluate(A % B, known)) == (-3, -1)
    assert evaluate(every(A >= 0, Name("unknown") < B), known) == 0  # what follows a false condition is not asked
    assert evaluate(every(B >= 0, Name("unknown") < B), known) is None
    assert evaluate(Choice(A < B, B, Name("unknown")), known) == 2
