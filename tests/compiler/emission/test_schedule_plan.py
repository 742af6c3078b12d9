"""Which schedules a task gets at the sizes that it is measured at."""

import pytest

from musadata.compiler import candidate_set
from musadata.compiler.candidate_set import CandidateSet
from musadata.compiler.emission import tensor_core_tiled
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.emit import emit
from musadata.compiler.emission.host import factored
from musadata.compiler.emission.pointwise import threads_along
from musadata.compiler.emission.register_tiled import CORE_SHAPES, FEW_SHAPES, SHAPES
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.emission.tile_operands import choose_tile
from musadata.compiler.emission.tiled import tile_of
from musadata.compiler.ir.index_formulas import Size, of
from musadata.compiler.ir.schedule import LABELS, Schedule, Tile

LARGE = 65536


def printed(formula):
    return Printer().index(formula).text


def schedules_of(graph, size, **sizes):
    """The schedule in each plan where all sizes are `size` but those that are named."""
    known = dict.fromkeys((origin.name for origin in graph.sizes), size) | sizes
    return [build_candidate(graph, plan, known).schedule for plan in PLANS]


@pytest.mark.parametrize(
    ("name", "size"),
    [("matrix product", 4096), ("product of turned matrices", 1024), ("wide convolution", 128), ("half product", 4096)],
)
def test_products_that_fill_a_gpu_have_two_fast_schedules_and_no_other(name, size, graph_of):
    schedules = {
        one.rpartition("; ")[2] for one in schedules_of(graph_of(name), size)
    }  # a convolution sorts weights first
    assert len(schedules) == 2
    assert all(one.endswith(("register tiles", "tensor core tiles")) for one in schedules)


def test_products_that_do_not_fill_a_gpu_keep_small_tiles(graph_of):
    assert "1 kernel: shared-memory tiles" in schedules_of(graph_of("matrix product"), 96)


def test_shorter_schedules_are_for_tasks_whose_fast_ones_are_too_long_to_be_read(graph_of, monkeypatch):
    graph, measured = graph_of("matrix product"), {"x": (4096, 4096), "y": (4096, 4096)}
    known = graph.sizes_for(measured)
    fast = min(len(build_candidate(graph, plan, known).source) for plan in PLANS)
    monkeypatch.setattr(candidate_set, "MOST_CHARACTERS", fast - 1)
    assert "register" not in CandidateSet(graph, "a key", measured).candidate(0).schedule


@pytest.mark.parametrize("name", ["chain", "gelu"])
def test_large_elementwise_operators_move_fours_in_every_plan(name, graph_of):
    assert set(schedules_of(graph_of(name), LARGE)) == {
        "1 kernel: vectors of 4 elements",
        "1 kernel: vectors of 4 elements, grid-stride loop",
    }


def test_a_grid_that_strides_has_as_many_blocks_as_the_device_runs_at_once(candidate_of):
    source = candidate_of("slices", PLANS[4]).source
    assert "multiProcessorCount;" in source
    assert "std::min((total + threads - 1) / threads, resident)" in source


def test_no_thread_divides_for_its_row_where_rows_are_long(graph_of):
    sizes = dict.fromkeys((origin.name for origin in graph_of("slices").sizes), 4096) | {"out_cols": 4094}
    source = build_candidate(graph_of("slices"), PLANS[0], sizes).source
    assert "const int row = blockIdx.x;" in source and " / " not in source.split("__global__")[1].split("\n}\n")[0]


@pytest.mark.parametrize(
    ("width", "threads"), [(132, 160), (8192, 256), (300, 160), (257, 96), (1000, 256), (128, 128)]
)
def test_blocks_along_a_row_have_as_few_idle_threads_as_whole_warps_allow(width, threads):
    assert threads_along(width) == threads
    blocks = [-(-width // each) * each for each in range(96, 257, 32)]
    assert -(-width // threads) * threads == min(blocks)


def test_a_sum_of_elements_that_indices_select_is_dealt_to_blocks_earlier_than_one_of_neighbours(graph_of):
    """Each of its loads waits for memory. What is counted beside it is dealt out with it."""
    for name, size, kernels in (("classes", LARGE, 2), ("classes", 1024, 1), ("mean squared error", 256, 1)):
        graph = graph_of(name)
        sizes = dict.fromkeys((origin.name for origin in graph.sizes), size)
        sources = [build_candidate(graph, plan, sizes).source for plan in PLANS]
        assert {source.count("__global__") for source in sources} == {kernels}, name
        assert all(("_partial_kernel" in source) == (kernels == 2) for source in sources)


def test_what_is_only_part_of_a_flat_position_has_no_variable(candidate_of):
    kernel = candidate_of("gather", PLANS[0]).kernels[0].source
    assert "col" not in kernel.replace("cols", "")


def test_the_number_of_windows_is_written_as_a_product():
    window = of(Size("height")) // 2 + 1, of(Size("width")) // 3 + 1
    assert factored(window[0] * window[1]).text == "(height / 2 + 1) * (width / 3 + 1)"
    assert factored(window[0] * window[1] + 1).text == printed(window[0] * window[1] + 1)


@pytest.mark.parametrize("size", [64, 4096])
def test_no_remainder_by_one_is_written(size, graph_of):
    sizes = dict.fromkeys((origin.name for origin in graph_of("matrix product").sizes), size)
    assert not any("% 1 " in build_candidate(graph_of("matrix product"), plan, sizes).source for plan in PLANS)


@pytest.mark.parametrize(
    ("name", "large"),
    [("chain", 4096), ("matrix product", 4096), ("reflect", 128), ("softmax", 4096), ("half product", 4096)],
)
def test_a_schedule_that_was_written_down_is_carried_out_again(name, large, graph_of):
    graph = graph_of(name)
    for size in (24, large):
        sizes = dict.fromkeys((origin.name for origin in graph.sizes), size)
        for emitted in (one for plan in PLANS for one in build_candidate(graph, plan, sizes).kernels):
            again = Schedule.read(emitted.schedule.log())
            assert again == emitted.schedule and again.log() == emitted.schedule.log()
            assert emit(emitted.kernel, again).host == emitted.host
            assert emit(emitted.kernel, again).source == emitted.source


def test_amounts_that_follow_from_sizes_make_no_other_schedule(graph_of):
    short, long = (build_candidate(graph_of("softmax"), PLANS[0], {"rows": 64, "cols": c}).shape for c in (2048, 4096))
    assert short == long and short[0].log() != long[0].log()


def test_no_two_schedules_are_called_the_same():
    assert len(set(LABELS.values())) == len(LABELS)


@pytest.mark.parametrize(
    ("shapes", "cols", "fitting"),
    [
        *((shapes, cols, {fit}) for shapes in (SHAPES, CORE_SHAPES) for cols, fit in ((96, 96), (128, 128), (288, 96))),
        (SHAPES, 320, {64}),
        (SHAPES, 1024, {128}),
        (CORE_SHAPES, 1024, {128}),
    ],
)
def test_tiles_are_as_wide_as_a_side_that_they_go_into(shapes, cols, fitting):
    assert {choose_tile(shapes, (1, 1 << 17, cols), 512).cols} == fitting


@pytest.mark.parametrize(
    ("tile", "group"),
    [*((one, 4) for one in (*SHAPES, *CORE_SHAPES, *FEW_SHAPES)), *((one, 8) for one in tensor_core_tiled.WIDE_SHAPES)],
)
def test_threads_bring_whole_shares_of_slices_that_a_usual_depth_is_a_multiple_of(tile, group):
    assert 512 % tile.depth == 0
    for extent in (tile.rows, tile.cols):
        for line in (extent // group, tile.depth // group):
            assert tile.threads % line == 0 and extent * tile.depth % (group * tile.threads) == 0


@pytest.mark.parametrize(
    ("rows", "cols", "rows_first"),
    [(65536, 512, False), (512, 65536, True), (65536, 100, True), (100, 65536, False), (1 << 24, 512, True)],
)
def test_neighbouring_blocks_share_the_longer_operand_where_a_grid_has_room(rows, cols, rows_first, graph_of):
    assert tile_of(128, 128, 16, rows, cols).rows_first == rows_first
    sizes = {"rows": rows, "cols": 64, "cols2": cols}
    emitted = build_candidate(graph_of("matrix product"), PLANS[0], sizes).kernels[0]
    tile, grid = emitted.schedule.get(Tile), emitted.host.grid(sizes)
    down, across = -(-rows // tile.rows), -(-cols // tile.cols)
    assert grid == ((down, across) if tile.rows_first else (across, down)) and grid[1] <= 65_535
