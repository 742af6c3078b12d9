"""What a candidate's text looks like, for every reference and every plan."""

import ast
import re
from types import SimpleNamespace

import pytest

from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.host import _conditions
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.code import Declare, Template, declared_in, names_of, of_kind
from musadata.compiler.ir.conditions import Condition
from musadata.compiler.ir.index_formulas import ZERO, Size, of
from musadata.compiler.ir.printing import text_of
from musadata.compiler.ir.schedule import Carry, Stage, TensorCore
from musadata.teacher.reasoning.decomposition import launch_of
from tests.compiler.references import FIXTURES

LONGEST_LINE = 160


@pytest.mark.parametrize("name", FIXTURES)
def test_every_plan_gives_a_readable_module(name, candidate_of):
    for plan in PLANS:
        source = candidate_of(name, plan).source
        assert max(map(len, source.splitlines())) <= LONGEST_LINE
        classes = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
        assert classes == ["ModelNew"]
        assert "C10_CUDA_KERNEL_LAUNCH_CHECK" in source
        assert re.search(r"\* 1\b(?!\.)|value_value|\b\d+_\w", source) is None


@pytest.mark.parametrize("name", FIXTURES)
def test_kernels_declare_every_name_that_they_use(name, candidate_of):
    for plan in PLANS:
        for emitted in candidate_of(name, plan).kernels:
            function = emitted.function
            templates = [*function.template, *(str(part) for one in of_kind(function, Template) for part in one.parts)]
            known = declared_in(function) | set(re.findall(r"\w+", " ".join(templates)))
            known |= {buffer.name for buffer in emitted.kernel.constants}
            assert {one for one in names_of(function) if one.isidentifier()} <= known


def test_building_again_gives_the_same_text(graph_of, candidate_of):
    for name in ("residual block", "encoder layer", "group norm"):
        assert build_candidate(graph_of(name), PLANS[0]).source == candidate_of(name, PLANS[0]).source


@pytest.mark.parametrize("name", FIXTURES)
def test_which_kernels_there_are_does_not_depend_on_the_schedule(name, candidate_of):
    """Those that are launched several times have their names by what they share, which may differ: a set of candidates
    leaves out what shares other kernels than its first."""
    kernels = [candidate_of(name, plan).names for plan in PLANS]
    assert len({len(names) for names in kernels}) == 1
    if len(set(kernels[0])) == len(kernels[0]):
        assert all(names == kernels[0] for names in kernels)


@pytest.mark.parametrize("name", FIXTURES)
def test_no_pointwise_kernel_writes_what_another_reads_at_the_same_place(name, candidate_of):
    kernels = [emitted.kernel for emitted in candidate_of(name, PLANS[0]).kernels]
    pointwise = [kernel for kernel in kernels if not kernel.reductions and not any(s.axes for s in kernel.stores)]
    pointwise = [kernel for kernel in pointwise if not any(buffer.zeroed for buffer in kernel.outputs)]  # of atomics
    pointwise = [kernel for kernel in pointwise if kernel.steps is None]  # launched in a loop, after which others read
    for made in pointwise:
        later = {buffer for kernel in kernels[kernels.index(made) + 1 :] for buffer in kernel.outputs}
        for kernel in (kernel for kernel in pointwise if later.isdisjoint(kernel.inputs)):
            loads = [load for store in kernel.stores for load in store.value.loads]
            places = [load.index for load in loads if load.buffer in made.outputs]
            assert tuple(map(of, kernel.axes)) not in places


def test_a_long_reduction_to_one_number_is_shared_by_many_blocks(graph_of):
    def kernels(size: int) -> list[str]:
        sizes = dict.fromkeys(("rows", "cols"), size)
        candidate = build_candidate(graph_of("mean squared error"), PLANS[0], sizes)
        assert "x + part * 8192, " in candidate.source or size == 64  # the flat position is not taken apart
        return [emitted.kernel.name for emitted in candidate.kernels]

    assert kernels(64) == ["mse_loss_kernel"]
    assert kernels(4096) == ["mse_loss_sum_partial_kernel", "mse_loss_kernel"]


def test_what_follows_from_sizes_alone_is_computed_once_ahead_of_the_loops(candidate_of):
    source = candidate_of("attention of any width", PLANS[1]).source
    scores = source[source.index("__global__") :].partition("\n}\n")[0]
    assert scores.partition("for (")[0].count("sqrtf(") == scores.count("sqrtf(") == 1


@pytest.mark.parametrize("name", FIXTURES)
def test_a_block_works_together_only_where_it_has_something_to_combine(name, candidate_of):
    for emitted in (emitted for plan in PLANS for emitted in candidate_of(name, plan).kernels):
        assert (emitted.schedule.team == "block") <= ("__shared__" in emitted.source)


@pytest.mark.parametrize("plan", PLANS)
def test_many_rows_go_along_the_axis_of_a_grid_that_has_enough_blocks(plan, graph_of):
    graph = graph_of("linear")
    many = {size.name: 1 << 22 for size in graph.sizes}
    source = build_candidate(graph, plan, many).source
    for along_y in re.findall(r"dim3 blocks\([^;]*?\) / [\w.]+, ([^;]*)\);", source):
        assert not any(name in along_y for name in (*many, "outer_size"))


@pytest.mark.parametrize(
    "name", [name for name in FIXTURES if "attention" in name and name != "attention with its weights"]
)
def test_attention_has_no_scores_in_memory(name, candidate_of):
    attending = [emitted for emitted in candidate_of(name, PLANS[0]).kernels if emitted.kernel.attends]
    on_tensor_cores = {emitted.schedule.find(TensorCore) is not None for emitted in attending}
    assert on_tensor_cores == {"half type" in name}
    stored = [buffer for emitted in candidate_of(name, PLANS[0]).kernels for buffer in emitted.kernel.outputs]
    assert not any(re.search("softmax|scores|weights", buffer.name) for buffer in stored)


def test_scores_that_are_returned_are_computed_once(candidate_of):
    kernels = candidate_of("attention with its weights", PLANS[0]).kernels
    assert len(kernels) == 3 and not any(emitted.kernel.attends for emitted in kernels)


def test_wide_values_are_not_worth_computing_the_scores_again(graph_of):
    graph = graph_of("attention of any width")
    counts = [len(build_candidate(graph, PLANS[0], {"width": width}).kernels) for width in (256, 257)]
    assert counts == [1, 3]


def test_a_causal_mask_leaves_out_the_keys_behind_the_last_query(candidate_of):
    assert "const int key_end = min(" in candidate_of("causal attention", PLANS[0]).source
    assert "key_end" not in candidate_of("attention", PLANS[0]).source


def test_a_softmax_is_one_kernel(candidate_of):
    assert len(candidate_of("softmax", PLANS[0]).kernels) == 1


def test_a_value_that_several_outputs_need_is_computed_once(candidate_of):
    source = candidate_of("shared value", PLANS[0]).source
    assert source.count("__global__") == 1
    assert source.count("tanhf(") == 1


def test_no_thread_goes_along_a_long_row_alone(graph_of):
    graph = graph_of("softmax")
    for measured in ({"x": (4096, 128)}, {"x": (65536, 1024)}, {"x": (512, 16384)}):
        built = [build_candidate(graph, plan, graph.sizes_for(measured)) for plan in PLANS]
        assert not any(kernel.schedule.team == "thread" for one in built for kernel in one.kernels)
        assert len({one.shape for one in built}) >= 2


def test_large_products_go_through_tiles_whose_loads_are_coalesced(graph_of):
    graph = graph_of("linear")
    built = [build_candidate(graph, plan, graph.sizes_for({"x": (4096, 37)})) for plan in PLANS]
    small = [one for one in built if "right_tile[threadIdx.x][threadIdx.y" in one.source]
    assert small and all("+ start + threadIdx.x]" in one.source for one in small)
    for one in small:
        [(tile, width)] = [
            tuple(map(int, sizes)) for sizes in re.findall(r" right_tile\[(\d+)\]\[(\d+)\];", one.source)
        ]
        warp = [(x, y) for y in range(32 // tile) for x in range(tile)]
        assert len({(x * width + y) % 32 for x, y in warp}) == 32  # its stores reach all banks


def test_classes_are_compared_as_integers_and_loaded_once_for_each_score(candidate_of):
    source = candidate_of("classes", PLANS[0]).source
    assert "!= -100" in source and "static_cast<float>(t" not in source
    assert "? t" not in source  # no second choice by the same condition


def test_bounds_that_never_act_are_left_out(candidate_of):
    source = candidate_of("padding taken away", PLANS[0]).source
    assert not re.search(r"\b(min|max)\(", source)


def test_a_condition_is_checked_once():
    rows, cols = of(Size("rows")), of(Size("cols"))
    conditions = (Condition(">=", rows, cols + 1), Condition(">=", rows - cols - 1, ZERO), Condition("==", rows, cols))
    assert len(list(_conditions(SimpleNamespace(conditions=conditions)))) == 2


def test_schedules_differ_in_structure(candidate_of):
    for name in ("softmax", "linear", "convolution", "chain", "max pool"):
        assert len({candidate_of(name, plan).shape for plan in PLANS}) >= 3


def test_fused_matmul_in_tiles_adds_the_bias_where_it_stores(graph_of):
    source = build_candidate(graph_of("linear"), PLANS[0]).source
    assert "__shared__ float left_tile[16][16];" in source or "__shared__ float left_tile[8][8];" in source
    assert "accumulator + l_bias[col]" in source


def test_large_products_keep_their_sums_in_registers_and_small_ones_do_not(graph_of):
    def tiles(size: int) -> list[str]:
        sizes = dict.fromkeys(("rows", "cols", "cols2"), size)
        return re.findall(r"float left_tile(\S+);", build_candidate(graph_of("matrix product"), PLANS[0], sizes).source)

    assert [tiles(size) for size in (32, 256, 4096)] == [["[16][16]"], ["[2][16][68]"], ["[2][16][132]"]]


def test_rows_move_as_float4_only_where_every_row_can_be_aligned(graph_of):
    sizes = dict.fromkeys(("batch", "height", "width"), 64)
    assert "load_four(c_weight" in build_candidate(graph_of("wide convolution"), PLANS[0], sizes).source  # 36 a row
    assert "load_four(c_weight" not in build_candidate(graph_of("pointwise convolution"), PLANS[0], sizes).source  # 6


def test_the_last_part_of_a_long_sum_is_a_shorter_row_in_registers(graph_of):
    graph = graph_of("mean squared error")
    source = build_candidate(graph, PLANS[0], {origin.name: 8192 for origin in graph.sizes}).source
    assert "const int length = min(8192, " in source
    assert re.search(r"load_row<\d+, 4>\(x_row, x \+ part \* 8192, threadIdx.x, 0, length, aligned\);", source)


def test_what_is_added_to_a_product_moves_in_vectors_as_its_result_does(graph_of):
    sizes = dict.fromkeys(("rows", "cols", "cols2"), 4096)
    source = build_candidate(graph_of("product and more"), PLANS[0], sizes).source
    assert "load_vector<4>(z_part, z + row * cols2 + first, cols2 - first, whole);" in source
    assert source.count("z[") == 0


def test_a_pointwise_convolution_is_a_product_for_each_image(graph_of):
    sizes = dict.fromkeys(("batch", "height", "width"), 64)
    source = build_candidate(graph_of("pointwise convolution"), PLANS[0], sizes).source
    assert "const int n = blockIdx.z;" in source
    assert "load_four(x" in source
    assert " / (height * width)" not in source


def test_a_convolution_of_many_channels_goes_by_taps(graph_of):
    """A place in the window is worked out once for each slice; four channels are too few for slices of their own."""
    deep, wide = graph_of("deep convolution"), graph_of("wide convolution")
    sizes = {origin.name: 64 for graph in (deep, wide) for origin in graph.sizes}
    source = build_candidate(deep, PLANS[0], sizes).source
    depth = re.search(r"const int slice = next / (\d+);", source)
    assert depth and 24 % int(depth[1]) == 0 and "const int kw = slice % 3;" in source
    assert "% 3" not in source.split("slice % 3;")[1].split("start >= 0")[0]
    assert "int slice" not in build_candidate(wide, PLANS[0], sizes).source


def test_a_convolution_finds_the_place_of_a_column_once_and_not_for_each_slice(graph_of):
    sizes = dict.fromkeys(("batch", "height", "width"), 64)
    source = build_candidate(graph_of("wide convolution"), PLANS[0], sizes).source
    before, slices = source.split("for (int start", 1)
    assert "const int loaded_n = " in before
    assert " % height" not in slices.split("#pragma unroll\n    for (int j")[0]


def test_a_phase_of_a_transposed_convolution_goes_through_its_own_taps_alone(graph_of):
    sizes = dict.fromkeys(("batch", "height", "width"), 64)
    source = build_candidate(graph_of("transposed convolution in phases"), PLANS[0], sizes).source
    assert "const int first_tap_h = (phase_h + 1) % 2;" in source
    assert "const int tap_h_count = (4 - first_tap_h) / 2;" in source
    assert re.search(r"const int count = .*tap_h_count.*;", source)
    assert "dim3 blocks(4 * (" in source


def test_a_fused_product_stores_its_result_with_bias_and_activation(graph_of):
    for name in ("two layers", "linear over batches", "encoder layer"):
        candidate = build_candidate(graph_of(name), PLANS[0])
        assert not [emitted for emitted in candidate.kernels if emitted.kernel.name.endswith("_product_kernel")]


def test_rows_of_a_tile_are_taken_apart_only_where_that_is_needed(graph_of):
    source = build_candidate(graph_of("linear over batches"), PLANS[0]).source
    assert "load_four(x + tile_row * 8 + k," in source
    assert "tile_row /" not in source


def test_what_nobody_reads_is_not_computed(graph_of):
    assert "max_index" not in build_candidate(graph_of("row maxima"), PLANS[1]).source


def test_sizes_that_are_known_to_be_equal_take_no_number_of_their_own(graph_of):
    assert "cols2" not in build_candidate(graph_of("mean squared error"), PLANS[1]).source


def test_state_keeps_the_names_of_the_reference(graph_of):
    source = build_candidate(graph_of("two layers"), PLANS[0]).source
    assert "self.a.weight" in source
    assert "self.b.bias" in source


def test_forward_does_not_call_the_reference_nor_pytorch(candidate_of):
    for name in FIXTURES:
        forward = candidate_of(name, PLANS[0]).source.rpartition("def forward")[2]
        assert "torch." not in forward
        assert "F." not in forward


def test_rows_come_in_pieces_where_registers_hold_a_part_of_them(candidate_of):
    names = ("rows of a slice", "wide layer norm", "root mean square", "softmax")
    built = [candidate_of(name, plan) for name in names for plan in PLANS]
    in_registers = [one for one in built if any(kernel.schedule.find(Stage, "inner") for kernel in one.kernels)]
    assert {"for (int start = 0;" in one.source for one in in_registers} == {True, False}
    assert all(
        ("for (int start = 0;" in o.source) == any("start +=" in e.source for e in o.kernels) for o in in_registers
    )


def test_launches_are_told_apart_and_those_in_a_loop_of_steps_are_counted(candidate_of):
    several = candidate_of("gated both ways", PLANS[0]).kernels  # two layers, each both ways
    told = [launch_of(one.kernel, 1, 4) for one in several if one.kernel.name == "gru_product_kernel"]
    assert set(told) == {"`gru_product_kernel`, launch 1 of 4, `batch` times"}
    assert "`linear_kernel`" in [launch_of(one.kernel, 1, 1) for one in candidate_of("linear", PLANS[0]).kernels]
    assert any("3 times" in launch_of(one.kernel, 1, 1) for one in candidate_of("recurrent", PLANS[0]).kernels)


def test_a_scan_reads_each_element_once(graph_of):
    for plan in PLANS:
        kernels = build_candidate(graph_of("running sum"), plan).kernels
        assert len(kernels) == 1
        assert kernels[0].source.count("x[") == 1
        assert kernels[0].schedule.find(Carry)


def test_pointwise_work_on_a_scan_and_the_place_of_a_maximum_join_its_kernel(graph_of):
    kernels = build_candidate(graph_of("running results"), PLANS[0]).kernels
    assert [len(one.kernel.scans) for one in kernels] == [2, 1, 1]
    assert "sqrtf(" in "".join(one.source for one in kernels if one.kernel.stores)


def test_values_are_added_to_places_by_atomics_and_zeros_are_not_added(graph_of):
    source = build_candidate(graph_of("added to rows"), PLANS[0]).source
    assert source.count("atomicAdd(") == 2
    assert "torch::zeros" in source
    assert "0.0f +" not in source


def test_the_maximum_and_the_sum_of_a_long_softmax_are_found_in_one_pass(graph_of):
    for plan in PLANS:
        for emitted in build_candidate(graph_of("long rows"), plan, {"cols": 40_000}).kernels:
            assert emitted.source.count(" load_row<") == 2 * len(emitted.kernel.outputs), emitted.source


def test_a_row_that_fits_in_registers_is_read_once(graph_of):
    graph = graph_of("wide layer norm")
    for plan in PLANS[:1] + PLANS[2:4]:
        source = build_candidate(graph, plan).kernels[0].source
        assert source.count(" load_row<") == 2 and source.count("store_vector<4>(layer_norm") == 1  # of x and y
    softmax = build_candidate(graph_of("softmax"), PLANS[2]).kernels[0].source
    assert softmax.count(" load_row<") == 3 and softmax.count("if (cols > 128) load_row<") == 2


def test_blocks_that_hold_rows_in_registers_tell_the_compiler_how_large_they_are(graph_of):
    kernel = build_candidate(graph_of("long layer norm"), PLANS[3]).kernels[0]
    assert "__launch_bounds__(1024)" in kernel.source and "const int threads = 1024;" in text_of(kernel.host)


def test_mean_and_squares_of_a_long_row_are_found_in_one_pass(graph_of):
    source = build_candidate(graph_of("long layer norm"), PLANS[3]).kernels[0].source
    assert source.count(" load_row<") == 2 and source.count("own_squares += ") == 1


@pytest.mark.parametrize("plan", [PLANS[0], PLANS[2], PLANS[3]])
def test_columns_are_read_side_by_side(plan, graph_of):
    for emitted in build_candidate(graph_of("softmax of columns"), plan, {"rows": 4096, "cols": 96}).kernels:
        assert emitted.schedule.by_columns
        assert "x[row * cols + col]" in emitted.source and "= member; row < rows; row += 32" in emitted.source
    for emitted in build_candidate(graph_of("softmax of columns"), plan, {"rows": 4096, "cols": 8}).kernels:
        assert emitted.schedule.team == "block"  # too few to fill a warp


def test_a_function_of_a_whole_row_is_computed_once_and_not_for_each_element(graph_of):
    for name in ("log softmax", "long rows"):
        for emitted in build_candidate(graph_of(name), PLANS[0]).kernels:
            inner = emitted.source[emitted.source.rindex("for (int ") :]
            assert "logf(" not in inner


def test_what_is_never_negative_is_not_cut_off_at_zero(graph_of):
    source = build_candidate(graph_of("sizes of values"), PLANS[0]).source
    assert "< 0.0f" not in source
    assert source.count("fabsf(") == 1


def test_the_largest_few_are_found_without_ranking(graph_of):
    for name in ("largest one", "largest three"):
        built = build_candidate(graph_of(name), PLANS[0], {"rows": 4096, "cols": 1000})
        assert len(built.kernels) <= 2 and "_rank" not in built.source


def test_the_place_of_a_maximum_is_found_by_all_threads_that_share_a_row(graph_of):
    for plan in PLANS:
        for emitted in build_candidate(graph_of("places of extremes"), plan, {"rows": 4096, "cols": 1000}).kernels:
            assert emitted.schedule.team != "thread"


def test_results_of_the_same_elements_come_from_one_loop(graph_of):
    for plan in PLANS:
        first = build_candidate(graph_of("two statistics"), plan, {"batch": 64, "height": 64, "width": 64}).kernels[0]
        assert first.source.count("x[") == 1 and len(first.kernel.reductions) == 2


def test_a_row_that_is_put_together_is_stored_piece_by_piece(candidate_of):
    (emitted,) = candidate_of("norm with more", PLANS[2]).kernels
    assert len(emitted.kernel.stores) == 3 and len(emitted.kernel.outputs) == 1
    assert "else" not in emitted.source.partition("cat_kernel(")[2]


def test_millions_are_counted_by_many_blocks(graph_of):
    for plan in PLANS:
        built = build_candidate(graph_of("counts"), plan, {"rows": 4096, "cols": 4096})
        assert [emitted.kernel.name for emitted in built.kernels].count("sum_kernel") <= 1
        assert any("partial" in emitted.kernel.name for emitted in built.kernels)


def test_neighbouring_threads_read_neighbouring_elements_of_rows_and_columns(graph_of):
    for plan in PLANS:
        kernels = build_candidate(graph_of("weighted rows"), plan, {"rows": 4096, "cols": 200}).kernels
        assert kernels[0].schedule.find(Stage, "inner") or kernels[0].schedule.team == "warp"
        assert kernels[-1].schedule.team != "warp"


def test_a_turned_running_sum_is_stored_where_it_ends_up(candidate_of):
    assert len(candidate_of("turned running sum", PLANS[0]).kernels) == 1


def test_what_is_asked_twice_is_computed_once(candidate_of):
    assert candidate_of("classes of rows", PLANS[0]).source.count("!= -100") <= 2


def test_a_product_takes_what_is_added_to_it_although_that_is_made_later(candidate_of):
    kernels = [emitted.kernel for emitted in candidate_of("distances of rows", PLANS[0]).kernels]
    (product,) = [kernel for kernel in kernels if any(stage.contraction for stage in kernel.reductions)]
    assert product is kernels[-1] and len(kernels) == 3 and product.reductions[0].buffer is None


def test_a_sum_that_several_results_need_is_made_once(candidate_of):
    first = candidate_of("mean and deviation", PLANS[0]).kernels[0].kernel
    assert [stage.kind for stage in first.reductions] == ["sum", "sum", "sum"]  # the returned sum, and the squares


def test_all_kernels_have_wide_positions_if_one_reaches_a_tensor_that_an_int_cannot_count(graph_of):
    sizes = dict.fromkeys((origin.name for origin in graph_of("softmax").sizes), 1 << 17)
    for known, kind in (({}, "int"), (sizes, "int64_t")):
        (emitted,) = build_candidate(graph_of("softmax"), PLANS[0], known).kernels
        assert {one.kind for one in of_kind((emitted.function, emitted.helpers), Declare) if one.name == "n"} <= {kind}
        assert emitted.wide == (kind == "int64_t")
