"""Reading how a class is used."""

from musadata.mining.slicing.evidence import Example, docstring_examples

DOC = """
    Examples::

        >>> # With square kernels
        >>> m = nn.Conv(16, 33, 3, stride=2)
        >>> m = nn.Conv(16, 33, (3, 5), stride=(2, 1))
        >>> N, C = 20, 16
        >>> input = torch.randn(N, C, 50,
        ...                     100)
        >>> output = m(input)
"""


def test_examples_stand_alone_and_the_plainest_construction_comes_first():
    first, second = docstring_examples(DOC, "Conv")
    assert first == Example(("16", "33", "3"), (("stride", "2"),), ("torch.randn(20, 16, 50, 100)",), ())
    assert second.init == ("16", "33", "(3, 5)")


def test_a_construction_that_is_called_at_once_counts():
    [example] = docstring_examples(">>> y = nn.ReLU(True)(torch.randn(2))", "ReLU")
    assert example == Example(("True",), (), ("torch.randn(2)",), ())


def test_unpacked_results_are_traced_to_the_call_that_made_them():
    text = ">>> p = nn.Pool(2)\n>>> a, b = f(torch.ones(3))\n>>> p(a, size=b)"
    [example] = docstring_examples(text, "Pool")
    assert example.inputs == ("f(torch.ones(3))[0]",)
    assert example.input_keywords == (("size", "f(torch.ones(3))[1]"),)


def test_text_that_is_not_python_is_passed_over():
    assert docstring_examples(">>> m = nn.Conv(16,\n>>> !! what\n>>> m = nn.Conv(1)\n>>> m(x)", "Conv")[-1].init == (
        "1",
    )


def test_the_first_round_of_a_loop_counts():
    [example] = docstring_examples(
        ">>> rnn = nn.Cell(10, 20)\n>>> x = f(6)\n>>> for i in range(6):\n...     h = rnn(x[i], h)", "Cell"
    )
    assert example.inputs == ("f(6)[0]", "h")


def test_what_a_comprehension_binds_is_no_variable_of_the_example():
    [example] = docstring_examples(">>> n = 3\n>>> m = Net([n for n in (4, 5)])", "Net")
    assert example.init == ("[n for n in (4, 5)]",)
