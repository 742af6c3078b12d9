"""What a kernel costs: what is read again from near is not fetched again, and what nobody reads does not count."""

from dataclasses import replace

import pytest

from musadata.compiler.emission.attention_work import AttentionWork
from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.emit import emit
from musadata.compiler.emission.register_tiled import LARGE
from musadata.compiler.emission.schedule_costs import bytes_read, cost_of, shares_of_loads
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.compiler.ir.schedule import Schedule, Tile
from musadata.compiler.lowering import splitting
from musadata.tracing.roofline import H100, Unit

WEIGHED = next(plan for plan in PLANS if plan.weighed)


def costs_of(graph, plan, **sizes):
    known = {origin.name: 512 if origin.name.startswith("out_") else 1024 for origin in graph.sizes} | sizes
    return [cost_of(one, known, H100) for one in build_candidate(graph, plan, known).kernels], known


def test_windows_that_overlap_come_from_the_nearest_cache(graph_of):
    graph = graph_of("max pool")
    (cost,), known = costs_of(graph, PLANS[1], batch=64)
    read = bytes_read([load for stage in cost.emitted.kernel.stages for load in stage.value.loads], known)
    assert read <= cost.fetched < 2.5 * read


def test_a_small_tensor_that_all_blocks_read_stays_in_the_nearest_cache(graph_of):
    (cost,), _ = costs_of(graph_of("scale"), PLANS[3], rows=1 << 16)
    assert cost.fetched < 1.1 * cost.moved


@pytest.mark.parametrize("plan", PLANS)
def test_parts_of_what_is_joined_are_loaded_where_they_lie(plan, graph_of):
    (cost,), known = costs_of(graph_of("joined product"), plan, rows=1 << 12)
    (stage,) = cost.emitted.kernel.reductions
    assert sorted(shares_of_loads(stage.value, known).values()) == [24 / 64, 40 / 64, 1.0]
    assert cost.fetched >= cost.moved


def test_rows_of_a_table_are_read_side_by_side_and_only_those_that_are_named(graph_of):
    (cost,), _ = costs_of(graph_of("embedding"), PLANS[0])
    assert cost.lines[0] == 1 and cost.fetched < 2 * cost.moved


@pytest.mark.parametrize("name", ["chain", "softmax", "layer norm", "half product"])
def test_the_schedule_that_is_weighed_is_never_expected_to_be_slower(name, graph_of):
    graph = graph_of(name)
    seconds = [sum(cost.rank for cost in costs_of(graph, plan)[0] if cost) for plan in PLANS]
    assert seconds[PLANS.index(WEIGHED)] <= min(seconds) * 1.001


@pytest.mark.parametrize("name", ["attention", "causal attention", "attention of half type", "attention of doubles"])
@pytest.mark.parametrize(("rows", "keys"), [(1, 8192), (33, 70), (4096, 4096)])
def test_attention_is_never_expected_to_beat_its_bound(name, rows, keys, graph_of):
    costs, known = costs_of(graph_of(name), PLANS[0], batch=3, height=rows, height2=keys)
    batch, _, cols, _, depth = AttentionWork(costs[0].emitted.kernel, costs[0].emitted.schedule, known, False).counts
    parts = len(costs) > 1 and keys // 256
    flops = 2 * (batch // (parts or 1)) * rows * keys * (depth + cols) // (2 if name.startswith("causal") else 1)
    unit = {"attention of half type": Unit.TENSOR, "attention of doubles": Unit.FP64}.get(name, Unit.FP32)
    assert sum(cost.seconds for cost in costs) >= max(costs[0].moved / H100.bytes_per_second, flops / H100.rate(unit))


def test_few_queries_share_long_keys_between_blocks(graph_of, monkeypatch):
    graph = graph_of("attention")
    apart, joined = costs_of(graph, PLANS[0], batch=3, height=1, height2=65536)[0]
    monkeypatch.setattr(splitting, "MANY_KEYS", 1 << 30)
    (whole,), _ = costs_of(graph, PLANS[0], batch=3, height=1, height2=65536)
    assert apart.blocks > H100.multiprocessors > whole.blocks
    assert 5 * (apart.seconds + joined.seconds) < whole.seconds


def test_each_tile_of_queries_reads_the_keys_again(graph_of):
    few, many = (costs_of(graph_of("attention"), PLANS[0], height=rows)[0][0] for rows in (64, 8192))
    assert many.moved < 8 * few.moved < 40 * few.moved < many.fetched


def test_what_tiles_compute_beyond_a_product_counts(graph_of):
    sizes = {"rows": 8192, "cols": 500, "cols2": 96}
    kernel = build_candidate(graph_of("matrix product"), PLANS[0], sizes).kernels[0].kernel
    cost = cost_of(emit(kernel, Schedule(LARGE.steps((1, 8192, 96)))), sizes, H100)
    assert cost.flops == 2 * 8192 * 128 * 512
    assert cost.limits["arithmetic"] >= cost.flops / H100.fp32


def test_the_operand_that_blocks_go_through_again_comes_from_memory_again(graph_of):
    sizes = {"rows": 1 << 16, "cols": 1024, "cols2": 512}
    emitted = build_candidate(graph_of("matrix product"), PLANS[0], sizes).kernels[0]
    steps = [replace(step, rows_first=True) if isinstance(step, Tile) else step for step in emitted.schedule.steps]
    costs = [cost_of(one, sizes, H100) for one in (emitted, emit(emitted.kernel, Schedule(tuple(steps))))]
    least = 4 * ((1 << 16) * (1024 + 512) + 1024 * 512)
    assert [round(cost.moved / least, 1) for cost in costs] == [1.0, 3.0]


@pytest.mark.parametrize(("name", "plan"), [("scattered sum", 0), ("added to rows", 3)])
def test_sums_of_few_places_wait_for_each_other(name, plan, graph_of):
    graph = graph_of(name)
    for size in (1 << 12, 1 << 20):
        sizes = {origin.name: size for origin in graph.sizes}
        emitted = next(one for one in build_candidate(graph, PLANS[plan], sizes).kernels if "atomicAdd" in one.source)
        cost = cost_of(emitted, sizes, H100)
        points = emitted.kernel.axes[0].extent.evaluate(sizes)
        assert cost.seconds >= cost.limits["atomics"] >= points / 64 / H100.clock  # no output has more places
