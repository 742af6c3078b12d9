"""Graphs from NNSmith: reproducible, varied, and written as a person would."""

import ast
import contextlib
import re
import subprocess
import sys
import warnings
from collections import Counter

import pytest
import torch

from musadata.config import SourceConfig, SourceType
from musadata.records import Draft, InputSpec, SourceKind
from musadata.sandbox import Sandbox
from musadata.sources import open_source
from musadata.sources.generated.graph_drawing import MAX_GRAPH_WORK, MAX_INPUT, MIN_INPUT, NoGraph, draw_graph
from musadata.sources.generated.opset import OPERATORS
from musadata.sources.generated.pointwise_operators import POINTWISE
from musadata.sources.generated.printer import print_graph
from musadata.sources.nnsmith import graph_seed, print_graphs
from musadata.tracing.shape_sets import vary_shapes

NODES = 6


@pytest.fixture(scope="module")
def drawn():
    """Index -> graph, of those that are worth writing down."""
    found = {}
    for index in range(150):
        with contextlib.suppress(NoGraph):
            found[index] = draw_graph(graph_seed(7, index), NODES)
    assert len(found) > 140
    return found


@pytest.fixture(scope="module")
def graphs(drawn):
    return list(drawn.values())


@pytest.fixture(scope="module")
def sources(graphs):
    return [print_graph(graph) for graph in graphs]


def test_graph_does_not_depend_on_the_order_or_on_earlier_graphs(drawn):
    some = sorted(drawn)
    for index in (some[40], some[3], some[-1], some[3]):
        assert print_graph(draw_graph(graph_seed(7, index), NODES)) == print_graph(drawn[index])


def test_graph_does_not_depend_on_the_process_or_its_hash_seed(drawn):
    expected = [print_graph(drawn[index]) if index in drawn else "" for index in range(20, 25)]
    code = "from musadata.sources.nnsmith import print_graphs; print([t for _, t in print_graphs(7, 20, 24, 6)])"
    for hash_seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        )
        assert ast.literal_eval(done.stdout) == expected


def test_other_seeds_give_other_graphs(sources):
    others = [text for _, text in print_graphs(8, 0, 9, NODES)]
    assert not set(others) & set(sources)
    assert len(set(sources)) > 0.97 * len(sources)


def test_printed_source_computes_the_drawn_shape(graphs, sources):
    for graph, source in zip(graphs, sources, strict=True):
        names: dict = {}
        exec(compile(source, "<graph>", "exec"), names)
        model = names["Model"](*names["get_init_inputs"]()).eval()
        inputs = names["get_inputs"]()
        assert tuple(model(*inputs).shape) == graph.nodes[-1].shape


def test_nearly_every_reference_accepts_other_sizes(sources):
    """A parameter with the batch's axis would fix every size, so that no kernel for other sizes can be asked for."""
    fixed = []
    for source in sources[:70]:
        names: dict = {}
        exec(compile(source, "<graph>", "exec"), names)
        with torch.device("meta"):
            model = names["Model"]().eval()
        own = tuple(InputSpec("x", "normal", str(x.dtype)[6:], tuple(x.shape)) for x in names["get_inputs"]())

        def runs(specs, model=model):
            tensors = [torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta") for spec in specs]
            with contextlib.suppress(RuntimeError, ValueError, IndexError, UserWarning), warnings.catch_warnings():
                warnings.simplefilter("error")  # a loss warns where one of its operands would be broadcast
                model(*tensors)
                return True
            return False

        assert runs(own)
        fixed += [source] if vary_shapes(own, runs) is None else []
    assert len(fixed) <= 2, "\n".join(fixed)


def test_sizes_suit_emulation(graphs):
    for graph in graphs:
        assert graph.work() <= MAX_GRAPH_WORK
        assert all(torch.Size(node.shape).numel() <= 4 * MAX_INPUT for node in graph.nodes)
    sizes = sorted(max(torch.Size(n.shape).numel() for n in graph.nodes if n.spec is None) for graph in graphs)
    assert sizes[len(sizes) // 10] >= MIN_INPUT / 2


def test_dimensions_are_often_no_powers_of_two(graphs):
    dimensions = [size for graph in graphs for node in graph.nodes if node.spec is None for size in node.shape]
    odd = [size for size in dimensions if size & (size - 1)]
    assert len(odd) > 0.4 * len(dimensions)


def test_no_kind_of_work_is_rare(graphs):
    found = Counter(type(node.spec).__module__.rsplit(".")[-1] for graph in graphs for node in graph.nodes if node.spec)
    total = sum(found.values())
    for kind in ("contraction", "pooling", "reduction", "pointwise", "layout", "indexing"):
        assert found[f"{kind}_operators"] > 0.03 * total, found
    names = Counter(type(node.spec).__name__ for graph in graphs for node in graph.nodes if node.spec)
    assert len(names) > 0.7 * len(OPERATORS), [spec.__name__ for spec in OPERATORS if spec.__name__ not in names]


def test_source_reads_well(sources):
    for source in sources:
        tree = ast.parse(source)
        assert [node.name for node in tree.body if hasattr(node, "name")] == ["Model", "get_inputs", "get_init_inputs"]
        assert max(map(len, source.splitlines())) <= 120
        assert ("functional as F" in source) == ("F." in source)
        stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert stored <= loaded, f"assigned but never read: {stored - loaded}\n{source}"


def test_bounds_of_operators_hold():
    x = torch.cat([torch.randn(500) * 4, torch.zeros(12)]).reshape(8, 64)
    for spec in POINTWISE:
        value = eval(spec.template.format("x"), {"x": x, "torch": torch, "F": torch.nn.functional})
        assert spec.bounds[0] <= float(value.min()) <= float(value.max()) <= spec.bounds[1], spec
        if spec.identity_within:
            inside = x.clamp(*spec.identity_within)
            again = eval(spec.template.format("x"), {"x": inside, "torch": torch, "F": torch.nn.functional})
            assert torch.equal(again, inside), spec


def test_no_operator_hands_on_what_it_is_given(graphs, sources):
    for graph, source in zip(graphs, sources, strict=True):
        for node in graph.nodes:
            before = graph.nodes[node.operands[0]].spec if node.spec else None
            assert before is None or not node.spec.is_identity_after(before), source
        assert "torch.abs(torch.square" not in source and "torch.abs(torch.softmax" not in source


def test_attention_reads_its_key_and_its_value(sources):
    attending = [source for source in sources if "scaled_dot_product_attention" in source]
    assert attending
    for source in attending:
        assert re.search(r"scaled_dot_product_attention\(.*, (self\.)?key\d*, (self\.)?value\d*[,)]", source), source


def test_units_partition_the_graphs():
    source = open_source(SourceConfig(SourceType.NNSMITH, count=23, nodes=4), seed=5)
    ranges = [tuple(map(int, unit.split("-"))) for unit in source.units()]
    assert [index for first, last in ranges for index in range(first, last + 1)] == list(range(23))
    assert source.units() == sorted(source.units())


def test_draft_names_its_origin():
    config = SourceConfig(SourceType.NNSMITH, count=12, nodes=4)
    with Sandbox(preload=()) as sandbox:
        source = open_source(config, seed=5)
        drafts = list(source.read(source.units()[1], sandbox))
    assert [draft.provenance.path for draft in drafts] == ["seed/5/graph/10", "seed/5/graph/11"]
    for draft in drafts:
        assert isinstance(draft, Draft)
        assert draft.source_kind is SourceKind.NNSMITH
        assert draft.provenance.license == "Apache-2.0"
        assert draft.provenance.repository == "https://github.com/ise-uiuc/nnsmith"
        assert draft.provenance.revision
