"""Composed modules and the operator inventory: reproducible, valid, varied, and written as a person would."""

import ast
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_leaves

from musadata.config import SourceConfig, SourceType, TasksConfig, load_config
from musadata.errors import MusadataError
from musadata.records import Draft, OperatorFamily, SourceKind, Task
from musadata.sandbox import Sandbox
from musadata.sources import open_source
from musadata.sources.composed import programs
from musadata.sources.composed.builder import Builder
from musadata.sources.composed.recipe import MAX_WORK, Structures, _build
from musadata.sources.composed.recurrence import recurrence, recurrent_cell
from musadata.sources.operators.inventory import inventory
from musadata.sources.operators.writing import write_operator
from musadata.tasks.probe import PRELOAD, probe
from musadata.tasks.selection import KEPT, Signatures, select

pytestmark = pytest.mark.timeout(900)
COUNT = 150


@pytest.fixture(scope="module")
def composed():
    structures = Structures(7)
    return [structures.compose(index) for index in range(COUNT)]


def execute(text):
    """The reference's output, called as every trainer will call it."""
    space: dict = {}
    exec(text, space)  # our own code
    torch.manual_seed(0)
    with torch.no_grad():
        return space["Model"](*space["get_init_inputs"]()).eval()(*space["get_inputs"]())


def test_composition_does_not_depend_on_the_order_in_which_numbers_are_asked_for(composed):
    structures = Structures(7)
    for index in (70, 3, COUNT - 1, 3):
        assert structures.compose(index) == composed[index]


def test_composition_does_not_depend_on_the_process_or_its_hash_seed(composed):
    code = "from musadata.sources.composed.recipe import Structures; print([Structures(7).compose(40).text])"
    for hash_seed in ("1", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        )
        assert ast.literal_eval(done.stdout) == [composed[40].text]


def test_other_seeds_compose_other_modules(composed):
    other = Structures(8)
    assert sum(other.compose(index).structure == composed[index].structure for index in range(20)) < 5


def test_no_structure_comes_twice(composed):
    assert max(Counter(item.structure for item in composed).values()) == 1


def test_every_composed_module_runs_and_is_finite(composed):
    for item in composed:
        assert all(bool(torch.isfinite(output).all()) for output in tree_leaves(execute(item.text))), item.text


@pytest.mark.parametrize("name", list(programs.PROGRAMS))
def test_every_program_runs_with_each_of_its_options_and_says_what_it_returns(name, monkeypatch):
    monkeypatch.setattr(programs, "PROGRAMS", {name: programs.PROGRAMS[name]})
    seen: set[str] = set()
    for seed in range(8):
        builder = Builder(random.Random(seed), random.Random(seed))
        programs.program(builder)
        text, seen = builder.text(), seen | set(builder.steps)
        outputs = execute(text)
        assert isinstance(outputs, tuple) == ("-> tuple[torch.Tensor, ...]:" in text)
        assert all(bool(torch.isfinite(output).all()) for output in tree_leaves(outputs)), text
        assert f"dtype=torch.{builder.dtype}" in text or not builder.dtype
        assert max(map(len, text.splitlines())) <= 120
    listed = programs.PROGRAMS[name].get("options", {}).values()
    assert all(len(seen & set(choices)) >= 2 for choices in listed)


def test_the_shape_and_the_bounds_that_are_kept_track_of_are_those_of_what_comes_out():
    bounded = 0
    for index in range(60):
        builder = _build(7, index, 0, 0)
        if builder.steps[0] in ("image", "sequence", "volume", "rows", "tokens") and builder.work <= MAX_WORK:
            output = execute(builder.text())
            assert output.numel() == builder.elements, builder.text()
            assert builder.bounds[0] <= float(output.min()) <= float(output.max()) <= builder.bounds[1], builder.text()
            bounded += builder.bounds[0] > -float("inf")
    assert bounded >= 5


def test_recurrence_in_every_spelling_runs_and_ends_in_the_shape_that_was_said():
    seen = set()
    for seed in range(200):
        for recipe in (recurrence, recurrent_cell):
            builder = Builder(random.Random(seed), random.Random(seed))
            recipe(builder)
            if tuple(builder.steps) not in seen:
                seen.add(tuple(builder.steps))
                assert execute(builder.text()).shape == builder.shape, builder.text()
    assert len(seen) > 40


def test_composed_source_reads_well(composed):
    for item in composed:
        tree = ast.parse(item.text)
        assert max(map(len, item.text.splitlines())) <= 120
        model = next(node for node in tree.body if isinstance(node, ast.ClassDef))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        constants = [node.targets[0].id for node in tree.body if isinstance(node, ast.Assign)]
        assert set(constants) <= names | {node.arg for node in ast.walk(model) if isinstance(node, ast.arg)}
        stored = {node.attr for node in ast.walk(model) if isinstance(node, ast.Attribute)}
        made = [
            node.attr for node in ast.walk(model) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        ]
        assert set(made) <= stored
        assert item.text.count("\n\n\n") >= 2


def test_every_operator_of_the_inventory_runs():
    for operator in inventory():
        text = write_operator(operator, 3)
        outputs = execute(text)
        assert isinstance(outputs, tuple) == ("-> tuple[torch.Tensor, ...]:" in text), operator
        assert all(bool(torch.isfinite(output).all()) for output in tree_leaves(outputs)), operator


def test_the_inventory_is_wide_and_every_beginning_of_it_is_spread_over_the_families():
    assert len(inventory()) >= 200
    assert len(set(inventory())) == len(inventory())
    first = Counter(operator.family for operator in inventory()[:60])
    assert set(first) == set(OperatorFamily) - {OperatorFamily.OTHER}
    assert max(first.values()) <= 6


def test_an_inventory_that_is_too_short_is_an_error_that_names_the_key():
    with pytest.raises(MusadataError, match="count"):
        open_source(SourceConfig(SourceType.OPERATORS, count=10_000), seed=1)


@pytest.mark.parametrize(("kind", "least"), [(SourceType.COMPOSITION, 30), (SourceType.OPERATORS, 32)])
def test_most_drafts_become_tasks_that_differ(kind, least):
    source = open_source(SourceConfig(kind, count=40), seed=5)
    with Sandbox(preload=PRELOAD) as sandbox:
        drafts = [item for unit in source.units() for item in source.read(unit, sandbox)]
        assert all(isinstance(item, Draft) for item in drafts)
        found = [probe(item, TasksConfig(decontaminate=()), sandbox, 5) for item in drafts]
    tasks = [item for item in found if isinstance(item, Task)]
    decisions = select(Signatures.of(tasks), TasksConfig())
    assert (decisions == KEPT).sum() >= least, [item for item in found if not isinstance(item, Task)]
    assert {task.source_kind for task in tasks} <= {SourceKind.COMPOSED, SourceKind.OPERATOR}
    assert all(task.provenance.license == "Apache-2.0" and task.provenance.revision for task in tasks)


def test_operators_that_read_chosen_rows_or_join_or_reduce_much_become_tasks():
    names = {"index_select", "embedding", "x.masked_scatter", "cat", "stack", "zeros", "linalg.matrix_norm"}
    source = open_source(SourceConfig(SourceType.OPERATORS, count=len(inventory())), seed=5)
    with Sandbox(preload=PRELOAD) as sandbox:
        drafts = [item for unit in source.units() for item in source.read(unit, sandbox)]
        drafts = [item for item in drafts if isinstance(item, Draft) and item.name in names]
        found = [probe(item, TasksConfig(decontaminate=()), sandbox, 5) for item in drafts]
    assert {item.name for item in drafts} == names
    assert all(isinstance(item, Task) for item in found), found


def test_the_example_config_is_one():
    config = load_config(Path(__file__).parents[2] / "configs" / "generated.yaml")
    assert {source.kind for source in config.sources} == {
        SourceType.NNSMITH,
        SourceType.COMPOSITION,
        SourceType.OPERATORS,
    }
