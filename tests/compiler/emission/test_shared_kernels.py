"""Kernels with the same code are one kernel, and launches that repeat are functions."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from musadata.compiler.emission import candidate as emission
from musadata.compiler.emission.block import Block
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.launch_blocks import fold_blocks
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.emission.short_names import options_of
from musadata.compiler.ir.code import Assign, Invoke, Jump, Name, Statement
from musadata.compiler.ir.printing import text_of
from musadata.compiler.ir.scalar import Buffer
from musadata.config import BackendType, VerifierConfig
from tests.compiler.references import FIXTURES, task_of


@pytest.fixture(scope="module")
def verifier():
    from musadata.verifier import Verifier

    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as opened:
        yield opened


@pytest.mark.parametrize("plan", [0, 2])
def test_layers_with_the_same_code_share_a_kernel(plan, graph_of, verifier):
    candidate = build_candidate(graph_of("many layers"), PLANS[plan])
    assert len(candidate.kernels) == 15
    assert candidate.source.count("__global__") == 2
    verdict = verifier.verify(task_of("many layers"), candidate.source, FIXTURES["many layers"].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("plan", [1])
def test_windows_of_other_sizes_are_arguments_of_a_template(plan, graph_of, verifier):
    candidate = build_candidate(graph_of("convolution layers"), PLANS[plan])
    assert "template <int " in candidate.source
    names = [emitted.kernel.name for emitted in candidate.kernels]
    assert set(names) == set(re.findall(r"(\w+_kernel)(?:<[\w, ]+>)?<<<", candidate.source)), "each kernel is launched"
    assert len(set(names)) < len(names)
    verdict = verifier.verify(task_of("convolution layers"), candidate.source, FIXTURES["convolution layers"].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("convolution layers", 0),
        ("group norm", 2),
        ("masked attention", 0),
        ("running results", 0),
        ("masked attention of half type", 2),  # a template of how its rows lie, which no host function launches
    ],
)
def test_kernels_under_short_names_do_the_same(name, plan, graph_of, verifier, monkeypatch):
    monkeypatch.setattr(emission, "MOST_CHARACTERS", 0)
    candidate = build_candidate(graph_of(name), PLANS[plan])
    assert "launch_" in candidate.source
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("plan", [0, 1])
def test_a_network_that_is_too_long_shares_statistics_and_convolutions(plan, graph_of, verifier, monkeypatch):
    monkeypatch.setattr(emission, "MOST_CHARACTERS", 0)
    candidate = build_candidate(graph_of("normed layers"), PLANS[plan])
    names = Counter(emitted.kernel.name for emitted in candidate.kernels)
    assert names["batch_norm_inverse_std_kernel"] == 5, "one for all layers"
    statistics = candidate.source.split("batch_norm_inverse_std_kernel(")[1].split("__global__")[0]
    assert statistics.count("rsqrtf") == 1 == candidate.source.count("rsqrtf"), "finished where it is found"
    assert max(names[name] for name in names if name.startswith("conv")) == 4, "of both strides"
    assert "int stride" in candidate.source
    assert " * 1 " not in candidate.source
    assert "const Tensor* weights" in candidate.source, "launches that repeat have a function"
    verdict = verifier.verify(task_of("normed layers"), candidate.source, FIXTURES["normed layers"].sets)
    assert verdict.accepted, verdict.feedback


def test_a_long_network_of_inverted_residuals_has_a_kernel_for_each_kind_of_layer(graph_of, verifier, monkeypatch):
    monkeypatch.setattr(emission, "MOST_CHARACTERS", 0)
    candidate = build_candidate(graph_of("inverted residuals"), PLANS[4])
    names = Counter(emitted.kernel.name for emitted in candidate.kernels)
    products = [names[name] for name in names if name.startswith("conv")]
    assert sorted(products) == [1, 3, 6], "the last one, depthwise ones of both windows, and pointwise ones"
    assert not re.search(r"\w+_to_\w+_to_", candidate.source), "functions are named by what they begin and end with"
    verdict = verifier.verify(task_of("inverted residuals"), candidate.source, FIXTURES["inverted residuals"].sets)
    assert verdict.accepted, verdict.feedback


def test_extents_are_products_of_what_they_count(graph_of, verifier, monkeypatch):
    monkeypatch.setattr(emission, "MOST_CHARACTERS", 0)
    candidate = build_candidate(graph_of("halved images"), PLANS[1])
    source = candidate.source[candidate.source.index("__global__") :]
    assert "height * width" in source
    assert "height * height" not in source, "though each image is twice as wide as high"
    softmax = source[source.index("softmax_kernel(") :].split("__global__")[0]
    assert "/ (channels * height)" in softmax, "though that is 256 in all layers"
    verdict = verifier.verify(task_of("halved images"), candidate.source, FIXTURES["halved images"].sets)
    assert verdict.accepted, verdict.feedback


def test_shared_kernels_keep_the_names_that_the_analysis_has(graph_of):
    for plan in PLANS:
        candidate = build_candidate(graph_of("convolution layers"), plan)
        for emitted in candidate.kernels:
            assert emitted.source[emitted.source.index("__global__") :].rstrip() in candidate.source
            assert f"{emitted.kernel.name}(" in emitted.source


def test_how_a_text_is_broken_up_does_not_depend_on_the_digits_of_sizes():
    places = [((Name("n") * c + "oc") * h + "in_h") * h + "in_w" for c, h in ((8, 7), (96, 14), (1280, 112))]
    assert len({Block(()).length(Name("input")[place]) for place in places}) == 1


def block(number: int, read: str) -> list[Invoke]:
    """A layer with three launches, whose last result alone is read outside of it."""
    linear, sums, norm = (Name(f"{what}{number}") for what in ("linear", "sum", "norm"))
    squares, weights, source = Name(f"squares{number}"), Name("weights"), Name(read)
    return [
        Invoke("launch_linear", (source, weights[2 * number], Name(f"size{number}")), (linear,)),
        Invoke("launch_sums", (linear,), (sums, squares)),
        Invoke("launch_norm", (linear, sums, squares, weights[2 * number + 1], source), (norm,)),
    ]


def fold(statements: list[Statement], *read: str) -> tuple[list[str], list[str]]:
    result = Jump("return", sum(map(Name, read[1:]), Name(read[0])))
    folded, functions = fold_blocks(statements, result, lambda name: "int" if name.startswith("size") else "tensor", [])
    return text_of(tuple(folded)).splitlines(), [one.text for one in functions]


def test_launches_that_repeat_become_a_function():
    other = Assign(Name("x"), "=", Name("x") + 1)
    lines, (function,) = fold([*block(0, "x"), *block(1, "norm0"), other, *block(3, "norm1")], "norm3")
    assert lines == [
        "auto norm0 = linear_to_norm(x, size0, &weights[0]);",
        "auto norm1 = linear_to_norm(norm0, size1, &weights[2]);",
        "x = x + 1;",
        "auto norm3 = linear_to_norm(norm1, size3, &weights[6]);",
    ]
    assert function.splitlines() == [
        "Tensor linear_to_norm(const Tensor& input, int size, const Tensor* weights) {",
        "    auto linear0 = launch_linear(input, weights[0], size);",
        "    auto [sum0, squares0] = launch_sums(linear0);",
        "    return launch_norm(linear0, sum0, squares0, weights[1], input);",
        "}",
    ]


def test_a_function_returns_all_that_is_read_later():
    layers = [launch for number in range(5) for launch in block(number, f"norm{number - 1}" if number else "x")]
    lines, functions = fold(layers, "linear0", "norm4")
    assert "return std::make_tuple(linear0, norm0);" in functions[0]
    assert lines[0].startswith("auto [linear0, norm0] = linear_to_norm(x, size0, ")


def test_launches_that_are_connected_otherwise_are_not_repeated():
    other = [replace(one, arguments=(*one.arguments[:-1], Name("x"))) for one in block(1, "norm0")]
    assert fold([*block(0, "x"), other[2]], "norm1")[1] == []


def test_no_allocation_counts_the_elements_of_what_it_makes(graph_of, verifier):
    name = "lengths of two tensors"
    candidate = build_candidate(graph_of(name), PLANS[0])
    assert len({emitted.kernel.name for emitted in candidate.kernels}) < len(candidate.kernels), "two share one"
    for made, line in re.findall(r"(\w+) = (torch::empty\(.*)", candidate.source):
        assert f"{made}.numel()" not in line
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


def test_no_tensor_has_the_short_name_of_a_device_function():
    """A second sigmoid loses its number, and its kernel calls `sigmoid`."""
    assert options_of(Buffer("sigmoid2", (), "float32", "temporary"), True) == ["sigmoid_data"]
