"""Candidates are really compiled, executed and judged by the verifier."""

import re
from itertools import product
from random import Random

import pytest

from musadata.compiler.candidate_set import insert
from musadata.compiler.emission import candidate as candidate_module
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_costs import cost_of
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.faults import KINDS
from musadata.compiler.ir.printing import text_of
from musadata.compiler.lowering import splitting
from musadata.config import BackendType, VerifierConfig
from musadata.tracing.roofline import H100
from tests.compiler.references import FIXTURES, task_of, tensor

QUICK = {
    "softmax": 0,
    "linear": 3,
    "convolution": 0,
    "group norm": 2,
    "norm of two products": 0,
    "chain": 3,
    "several outputs": 4,
    "circular": 1,
    "written views": 4,
    "two maxima": 0,
    "place and sum": 1,
    "reduced again": 0,
    "extended rows": 0,
    "gathered product": 0,
    "scattered sum": 3,
    "added to rows": 3,
    "largest few": 2,
    "long rows": 3,
    "sizes of values": 0,
    "logits": 0,
    "softmax of columns": 3,
    "softmax of three": 0,
    "columns of several types": 0,
    "wide layer norm": 0,
    "long layer norm": 3,
    "norms of two widths": 3,
    "root mean square": 2,
    "rows of a slice": 3,
    "masked attention": 2,
    "causal attention": 1,
    "attention of half type": 0,
    "attention of doubles": 3,
    "attention of small heads": 3,
    "grouped heads": 0,
    "attention with rows that see nothing": 0,
    "attention spelled out": 1,
    "projected attention": 4,
    "product of two results": 0,
    "running results": 0,
    "running logsumexp": 1,
    "folded patches": 4,
    "shrinking": 2,
    "smooth activations": 0,
    "losses": 0,
    "entropies": 3,
    "log of sums": 2,
    "rolled": 1,
    "numbered layer": 0,
    "shared value": 3,
    "shared by sums": 2,
    "shared in memory": 0,
    "long short-term memory": 0,
    "gated both ways": 2,
    "recurrent state": 3,
    "largest one": 0,
    "largest three": 2,
    "places of extremes": 3,
    "counts": 0,
    "logsumexp of infinities": 3,
    "turned running sum": 0,
    "norm with more": 2,
    "pixels to channels": 1,
    "windows": 4,
    "two statistics": 2,
    "classes of rows": 2,
    "weighted rows": 1,
    "patches": 1,
    "bilinear": 0,
    "aligned bilinear": 4,
    "bilinear to a size": 1,
    "bilinear to one row": 0,
    "linear lines": 2,
    "aligned trilinear": 0,
    "bicubic": 1,
    "aligned bicubic": 0,
}


def _widths(graph):
    """The sizes that the last axes of the inputs have."""
    return {atom for item in graph.inputs for atom in item.type.shape[-1].atoms()}


@pytest.fixture(scope="module")
def verifier():
    from musadata.verifier import Verifier

    with Verifier(VerifierConfig(backend=BackendType.EMULATED)) as opened:
        yield opened


@pytest.mark.parametrize("name", QUICK)
def test_honest_candidates_are_accepted(name, graph_of, verifier):
    candidate = build_candidate(graph_of(name), PLANS[QUICK[name]])
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


def test_a_candidate_refuses_sizes_on_the_other_side_of_a_branch(graph_of, verifier):
    other = tensor(101, 8)
    candidate = build_candidate(graph_of("branch on sizes"), PLANS[0])
    verdict = verifier.verify(
        task_of("branch on sizes"), candidate.source, (*FIXTURES["branch on sizes"].sets, (other,))
    )
    assert "the kernels are written for rows <= 100" in verdict.feedback


@pytest.mark.parametrize(
    "name",
    [
        *("rows of a slice", "group norm", "root mean square", "softmax over channels"),
        *("softmax of three", "classes", "mean squared error"),
    ],
)
def test_rows_in_pieces_are_accepted(name, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[3], dict.fromkeys((origin.name for origin in graph.sizes), 50_000))
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "size", "width", "queries"),
    [
        ("attention of half type", 4096, 16, 128),
        ("attention of half type", 64, 128, 64),
        ("causal attention of half type", 16, 24, 32),
        ("masked attention of half type", 64, 64, 32),
    ],
)
def test_attention_on_tensor_cores_is_accepted(name, size, width, queries, graph_of, verifier):
    """Of the width that loops are unrolled for, and of others."""
    graph = graph_of(name)
    sizes = dict.fromkeys((origin.name for origin in graph.sizes), size)
    candidate = build_candidate(graph, PLANS[0], sizes | {a.name: width for a in _widths(graph)})
    assert candidate.schedule == "1 kernel: attention on tensor cores"
    assert f"const int threads = {queries};" in candidate.source
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    "name",
    [
        "attention",
        "causal attention",
        "attention of half type",
        "masked attention of half type",
        "attention of doubles",
        "grouped heads",
        "attention with rows that see nothing",
        "attention spelled out",
    ],
)
def test_attention_to_parts_of_the_keys_is_accepted(name, graph_of, verifier, monkeypatch):
    monkeypatch.setattr(splitting, "LEAST_KEYS", 16)
    monkeypatch.setattr(splitting, "MANY_KEYS", 0)
    candidate = build_candidate(graph_of(name), PLANS[0])
    assert any("part_keys" in emitted.text for emitted in candidate.kernels)
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("plan", range(5))
@pytest.mark.parametrize("name", ["places of extremes", "largest three", "logsumexp of infinities", "counts"])
def test_rows_of_any_length_are_accepted_in_every_plan(name, plan, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[plan], dict.fromkeys((origin.name for origin in graph.sizes), 5000))
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


def test_a_candidate_refuses_sizes_that_a_view_cannot_split(graph_of):
    source = build_candidate(graph_of("pixels to channels"), PLANS[0]).source
    assert 'TORCH_CHECK(height % 3 == 0, "the kernels are written for height % 3 == 0");' in source
    assert "/ height" not in source and "% height" not in source.replace("% height_cells", "")


def test_long_rows_are_shared_by_a_warp(graph_of, verifier):
    graph = graph_of("softmax")
    candidate = build_candidate(graph, PLANS[1], graph.sizes_for({"x": (4096, 128)}))
    assert candidate.schedule == "1 kernel: one warp per output, shuffle reduction"
    verdict = verifier.verify(task_of("softmax"), candidate.source, FIXTURES["softmax"].sets)
    assert verdict.accepted, verdict.feedback


WIDENED = {"argmax": 0, "largest few": 3, "concatenation": 0, "extended rows": 1, "max pool": 0, "average pool": 3}
WIDENED |= {"group norm": 0, "long layer norm": 3, "places of extremes": 1}


@pytest.mark.parametrize("name", WIDENED)
def test_candidates_with_64_bit_indices_are_accepted(name, graph_of, verifier, monkeypatch):
    monkeypatch.setattr(candidate_module, "_MOST_INT", 0)
    source = build_candidate(graph_of(name), PLANS[WIDENED[name]]).source
    kernels = re.findall(r"__global__[^{]*\{.*?\n\}", source, re.DOTALL)
    assert kernels and all("int64_t" in kernel for kernel in kernels)
    verdict = verifier.verify(task_of(name), source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("name", ["causal attention", "attention spelled out"])
def test_attention_in_large_tiles_is_accepted(name, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[0], dict.fromkeys((origin.name for origin in graph.sizes), 256))
    assert "weight_tile[64][68]" in candidate.source
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *product(("matrix product", "product of turned matrices", "part of rows"), (96, 4096)),
        *product(("wide convolution", "pointwise convolution"), (12, 4096)),
        ("wide 3-D convolution", 12),
        ("transposed convolution in phases", 64),
        ("transposed 3-D convolution", 24),
        ("transposed convolution of groups", 64),
        ("wide groups", 64),
    ],
)
def test_products_in_registers_are_accepted(name, size, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[0], dict.fromkeys((origin.name for origin in graph.sizes), size))
    assert len(candidate.kernels) <= 2 and candidate.schedule.endswith("register tiles")  # weights may be sorted first
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "size", "plan", "schedule"),
    [
        ("half product", 96, 0, "tensor core tiles"),
        ("half product", 4096, 0, "tensor core tiles"),
        ("bfloat16 batches", 96, 0, "tensor core tiles"),
        ("half product", 4096, 3, "wide tensor core tiles"),
        ("bfloat16 batches", 4096, 3, "wide tensor core tiles"),
        ("turned halves", 96, 0, "tensor core tiles"),
        ("turned halves", 4096, 3, "wide tensor core tiles"),
        ("half product with more", 20_000, 0, "tensor core tiles"),
        ("half product with more", 20_000, 3, "wide tensor core tiles"),
        ("half convolution", 24, 0, "tensor core tiles"),
        ("matrix product", 96, 3, "float32 tensor core tiles"),
        ("matrix product", 4096, 3, "float32 tensor core tiles"),
        ("product of turned matrices", 96, 3, "float32 tensor core tiles"),
        ("product of turned matrices", 4096, 3, "float32 tensor core tiles"),
        ("part of rows", 4096, 3, "float32 tensor core tiles"),
        ("wide convolution", 12, 3, "float32 tensor core tiles"),
        ("pointwise convolution", 4096, 3, "float32 tensor core tiles"),
        ("wide 3-D convolution", 12, 3, "float32 tensor core tiles"),
        ("transposed convolution in phases", 64, 3, "float32 tensor core tiles"),
        ("transposed convolution of groups", 64, 3, "float32 tensor core tiles"),
        ("wide groups", 64, 3, "float32 tensor core tiles"),
        ("product of turned matrices", 4096, 4, "register tiles"),
        ("product of turned matrices", 96, 4, "shared-memory tiles"),
    ],
)
def test_products_of_half_types_and_wide_ones_are_accepted(name, size, plan, schedule, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[plan], dict.fromkeys((origin.name for origin in graph.sizes), size))
    assert re.split("; |: ", candidate.schedule)[-1] == schedule  # a convolution may sort its weights first
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(("name", "kernels"), [("sums of columns", 2), ("normalised columns", 9)])
@pytest.mark.parametrize("plan", [PLANS[0], PLANS[1], PLANS[5]])
def test_few_long_columns_are_shared_by_blocks(name, kernels, plan, graph_of, verifier):
    graph = graph_of(name)
    long = {"rows": 1 << 14, "height": 1 << 14, "batch": 4}
    sizes = {origin.name: long.get(origin.name, 256) for origin in graph.sizes}
    candidate = build_candidate(graph, plan, sizes)
    assert len(candidate.kernels) == kernels
    costs = [cost_of(one, sizes, H100) for one in candidate.kernels if "_partial" in one.kernel.name]
    assert all(cost.blocks >= H100.multiprocessors for cost in costs if cost.emitted.schedule.by_columns)
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("name", ["matrix product", "product of turned matrices"])
@pytest.mark.parametrize(("few", "size"), [(0, 24), (0, 40), (0, 72), (1, 24), (1, 40), (1, 72)])
def test_the_long_operand_of_a_narrow_product_is_read_once(name, few, size, graph_of, verifier):
    graph = graph_of(name)
    sizes = dict.fromkeys((origin.name for origin in graph.sizes), 65536)
    turned = name != "matrix product"
    (narrow,) = graph.inputs[few].type.shape[few if not turned else 1 - few].atoms()
    candidate = build_candidate(graph, PLANS[0], sizes | {narrow.name: size})
    assert candidate.schedule.endswith("register tiles")
    emitted = candidate.kernels[0]
    (tile,) = {int(one) for one in re.findall(rf"\({narrow.name} \+ (\d+)\)", text_of(emitted.host))}
    assert tile + 1 >= size
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("name", ["matrix product", "half product", "turned halves"])
@pytest.mark.parametrize(("few", "size"), [(0, 8), (0, 16), (0, 32), (1, 8), (1, 16), (1, 32), (1, 96)])
def test_tiles_are_as_narrow_as_products(name, few, size, graph_of, verifier):
    graph = graph_of(name)
    (narrow,) = graph.inputs[few].type.shape[{"half product": 0, "turned halves": 1 - few}.get(name, few)].atoms()
    sizes = dict.fromkeys((origin.name for origin in graph.sizes), 65536) | {narrow.name: size}
    candidate = build_candidate(graph, PLANS[2], sizes)
    tile = candidate.kernels[0].schedule.tile
    assert tile is not None and tile[few] in (size, 2 * size)
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(("few", "size"), [(0, 24), (0, 48), (0, 72), (1, 24), (1, 72), (1, 120)])
def test_narrow_products_have_two_good_tiles(few, size, graph_of, verifier):
    graph = graph_of("matrix product")
    (narrow,) = graph.inputs[few].type.shape[few].atoms()
    sizes = dict.fromkeys((origin.name for origin in graph.sizes), 65536) | {narrow.name: size}
    schedules = {build_candidate(graph, plan, sizes).schedule for plan in PLANS}
    assert len(schedules) == 2 and all(one.endswith(("register tiles", "core tiles")) for one in schedules)
    candidate = build_candidate(graph, PLANS[2], sizes)
    verdict = verifier.verify(task_of("matrix product"), candidate.source, FIXTURES["matrix product"].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "size", "plan", "schedule"),
    [
        ("chain", 65536, 0, "vectors of 4 elements"),
        ("chain", 65536, 4, "vectors of 4 elements, grid-stride loop"),
        ("half gates", 65536, 0, "vectors of 8 elements of rows"),
        ("half rows", 4096, 0, "one block per row in registers, shared-memory reduction"),
        ("softmax over few channels", 4096, 2, "one thread per output, its row in registers"),
        ("slices", 65536, 0, "vectors of 4 elements of rows"),
        ("reflect", 256, 1, "blocks along rows"),
        ("embedding", 65536, 0, "one thread per element"),
        ("gather", 65536, 1, "blocks along rows"),
    ],
)
def test_elements_of_large_tensors_are_accepted(name, size, plan, schedule, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[plan], dict.fromkeys((origin.name for origin in graph.sizes), size))
    assert candidate.schedule == f"1 kernel: {schedule}"
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("name", ["turned and joined", "turned beside another", "padding taken away"])
@pytest.mark.parametrize(("plan", "schedule"), [(0, ""), (2, ", grid-stride loop")])
def test_what_is_read_along_another_axis_passes_through_tiles(name, plan, schedule, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[plan], dict.fromkeys((origin.name for origin in graph.sizes), 64))
    assert candidate.schedule == f"1 kernel: transposing tiles{schedule}"
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize("name", ["upper triangle of a product", "lower triangle of halves"])
def test_triangles_of_products_skip_tiles_beyond_the_diagonal(name, graph_of, verifier):
    graph = graph_of(name)
    candidate = build_candidate(graph, PLANS[0], dict.fromkeys((origin.name for origin in graph.sizes), 96))
    assert re.search(r"const int steps = first_\w+( \+ \d+)? <= first_\w+ \+ \d+ \? \w+ : 0;", candidate.source)
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "rows", "schedule"),
    [
        ("few rows", 5, "larger operand read once, neighbouring lines per thread"),
        ("few rows of halves", 16, "larger operand read once, on tensor cores"),
        ("few rows of halves", 2, "larger operand read once, on tensor cores"),
        ("few rows in batches", 12, "larger operand read once, on tensor cores"),
        ("few columns of halves", 8, "larger operand read once, on tensor cores"),
        ("few rows of turned halves", 16, "larger operand read once, a warp per line"),
        ("few rows of turned halves", 2, "larger operand read once, a warp per line"),
    ],
)
def test_products_of_few_rows_are_accepted(name, rows, schedule, graph_of, verifier):
    graph = graph_of(name)
    sizes = {origin.name: 4096 for origin in graph.sizes}
    (few,) = graph.inputs[-1 if name == "few columns of halves" else 0].type.shape[-2].atoms()
    candidate = build_candidate(graph, PLANS[0], sizes | {few.name: rows})
    assert candidate.kernels[0].schedule.label == schedule
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.parametrize(
    ("name", "plan", "schedule"),
    [
        ("deep product", 0, "small register tiles"),
        ("deep product", 2, "shared-memory tiles"),
        ("deep half batches", 0, "tensor core tiles"),
        ("deep half batches", 3, "tensor core tiles"),
    ],
)
def test_deep_products_in_parts_are_accepted(name, plan, schedule, graph_of, verifier):
    graph = graph_of(name)
    *batch, _, depth = (next(size.atoms()).name for size in graph.inputs[0].type.shape)
    sizes = {**{origin.name: 64 for origin in graph.sizes}, **dict.fromkeys(batch, 4), depth: 4096}
    candidate = build_candidate(graph, PLANS[plan], sizes)
    assert [emitted.schedule.label for emitted in candidate.kernels][:-1] == [schedule]
    assert re.search(r"min\(\d+, ", candidate.source)
    verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
    assert verdict.accepted, verdict.feedback


def test_a_mean_over_rows_that_are_read_in_their_own_way_has_a_part_for_each(graph_of, verifier):
    graph = graph_of("margins of rows")
    candidate = build_candidate(graph, PLANS[0], dict.fromkeys((origin.name for origin in graph.sizes), 4096))
    first, _ = candidate.kernels
    assert (
        "const int64_t i_data_value = i_data[part];" in first.source
        and " / " not in text_of(first.host).partition("\n")[0]
    )
    verdict = verifier.verify(task_of("margins of rows"), candidate.source, FIXTURES["margins of rows"].sets)
    assert verdict.accepted, verdict.feedback


def test_a_reduction_in_parts_is_accepted(graph_of, verifier):
    graph = graph_of("log of sums")
    candidate = build_candidate(graph, PLANS[3], dict.fromkeys((origin.name for origin in graph.sizes), 4096))
    assert len(candidate.kernels) == 5
    verdict = verifier.verify(task_of("log of sums"), candidate.source, FIXTURES["log of sums"].sets)
    assert verdict.accepted, verdict.feedback


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plan", range(len(PLANS)))
def test_every_reference_is_accepted_in_every_plan(plan, graph_of, verifier):
    refused = {}
    for name in FIXTURES:
        candidate = build_candidate(graph_of(name), PLANS[plan])
        verdict = verifier.verify(task_of(name), candidate.source, FIXTURES[name].sets)
        if not verdict.accepted:
            refused[name] = verdict.feedback
    assert not refused


@pytest.mark.parametrize(
    ("kind", "name"),
    [("missing_bounds_check", "softmax"), ("missing_barrier", "matrix product"), ("wrong_identity", "softmax")],
)
def test_seeded_faults_are_caught(kind, name, graph_of, verifier):
    for plan in PLANS:
        faulty = insert(KINDS[kind], build_candidate(graph_of(name), plan), Random(1))
        if faulty is not None:
            assert not verifier.verify(task_of(name), faulty.source, FIXTURES[name].sets).accepted
            return
    pytest.fail("the fault found no place")
