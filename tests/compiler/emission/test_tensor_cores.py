"""What products and attention of half types look like on tensor cores."""

import re

import pytest

from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.schedule import TensorCore

WIDE = PLANS[3]


def source_of(graph, plan, size):
    return build_candidate(graph, plan, dict.fromkeys((origin.name for origin in graph.sizes), size)).source


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("half product", "load_fragments", "load_fragments"),
        ("bfloat16 batches", "load_fragments", "load_transposed"),
        ("turned halves", "load_transposed", "load_fragments"),
        ("half product with more", "load_transposed", "load_transposed"),
    ],
)
def test_fragments_are_transposed_where_neighbours_do_not_lie_along_the_depth(name, left, right, graph_of):
    source = source_of(graph_of(name), PLANS[0], 20_000)
    assert re.search(rf"{left}\(left\b", source) and re.search(rf"{right}\(right\b", source)
    assert len(re.findall(r"__forceinline__ void load_(?:fragments|transposed)", source)) == len({left, right})


def test_a_wide_tile_loads_fragments_before_it_multiplies_the_last_ones(graph_of):
    wide, plain = (source_of(graph_of("half product"), plan, 4096) for plan in (WIDE, PLANS[0]))
    assert "unsigned left[2]" in wide and "load(current, k + 16, 1 - now);" in wide
    assert "unsigned left[4][4]" in plain and "load(current, k);" in plain


def test_the_slices_of_a_tile_fit_into_the_shared_memory_of_small_devices(graph_of):
    sizes = re.search(r"shared_bytes = \(([\d *+]+)\) \* sizeof", source_of(graph_of("half product"), PLANS[0], 4096))
    assert sizes is not None
    assert 2 * sum(a * b * c for a, b, c in (map(int, p.split("*")) for p in sizes[1].split("+"))) <= 99 << 10


def test_results_of_a_half_type_are_stored_eight_at_once(graph_of):
    source = source_of(graph_of("half product with more"), PLANS[0], 20_000)
    assert source.count(" = *reinterpret_cast<uint4*>(") == 2 and "store_vector" not in source  # their width is known
    assert "load_vector<8>(z_part, " in source and "load_vector<8>(b_data_part, " in source


def test_results_whose_neighbours_are_apart_are_stored_one_by_one(graph_of):
    assert "store_vector" not in source_of(graph_of("half convolution"), PLANS[0], 24)


@pytest.mark.parametrize(("cols", "names"), [(8192, ["add_kernel"]), (1024, ["mm_partial_kernel", "add_kernel"])])
def test_blocks_share_the_depth_of_few_rows_only_where_columns_are_few(cols, names, graph_of):
    graph = graph_of("few rows of halves")
    few, depth, many = (next(size.atoms()) for size in (*graph.inputs[0].type.shape, graph.inputs[1].type.shape[1]))
    candidate = build_candidate(graph, PLANS[0], {few.name: 16, depth.name: 8192, many.name: cols})
    assert [emitted.kernel.name for emitted in candidate.kernels] == names
    assert candidate.kernels[0].schedule.find(TensorCore, "lines")


def test_loops_over_the_usual_width_of_attention_are_unrolled_and_other_widths_are_served(graph_of):
    graph = graph_of("causal attention of half type")
    sizes = {origin.name: 64 for origin in graph.sizes}
    source = build_candidate(graph, PLANS[0], sizes).source
    assert "const int padded_depth = aligned ? 64 : (width + 15) / 16 * 16;" in source
    assert "(width + 15) / 16 * 16 == 64)" in " ".join(source.split())
    assert "if (!aligned) load_queries(part, k);" in source


def test_queries_of_a_fixed_width_stay_in_registers(graph_of):
    source = source_of(graph_of("masked attention of half type"), PLANS[0], 64)
    assert "const int padded_depth = 32;" in source
    assert source.count("load_queries(") == 1 and "const int part = k / 16;" in source
