"""What a kernel costs: what is read again from near is not fetched again, and what nobody reads does not count."""

import pytest

from musadata.compiler.emission.candidate import build_candidate
from musadata.compiler.emission.schedule_costs import bytes_read, cost_of
from musadata.compiler.emission.schedule_plan import PLANS
from musadata.tracing.roofline import H100

WEIGHED = next(plan for plan in PLANS if plan.weighed)


def costs_of(graph, plan, **sizes):
    known = {origin.name: 512 if origin.name.startswith("out_") else 1024 for origin in graph.sizes} | sizes
    return [cost_of(one, known, H100) for one in build_candidate(graph, plan, known).kernels], known


def test_windows_that_overlap_come_from_the_nearest_cache(graph_of):
    graph = graph_of("max pool")
    (cost,), known = costs_of(graph, PLANS[1], batch=64)
    read = bytes_read([load for stage in cost.emitted.kernel.stages for load in stage.value.loads], known)
    assert read <= cost.fetched < 2.5 * read


def test_rows_of_a_table_are_read_side_by_side_and_only_those_that_are_named(graph_of):
    (cost,), _ = costs_of(graph_of("embedding"), PLANS[0])
    assert cost.lines[0] == 1 and cost.fetched < 2 * cost.moved


@pytest.mark.parametrize("name", ["chain", "softmax", "layer norm", "half product"])
def test_the_schedule_that_is_weighed_is_never_expected_to_be_slower(name, graph_of):
    graph = graph_of(name)
    seconds = [sum(cost.rank for cost in costs_of(graph, plan)[0] if cost) for plan in PLANS]
    assert seconds[PLANS.index(WEIGHED)] <= min(seconds) * 1.001
