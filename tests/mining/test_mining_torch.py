"""The installed torch itself, which every user has, as a code base to mine."""

import ast

import pytest

from musadata.config import SourceConfig, SourceType
from musadata.mining.miner import Miner
from musadata.records import Draft, Reject
from musadata.sandbox import Sandbox
from musadata.sources import open_source
from musadata.tasks.reference_loading import load_reference

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=("torch",)) as opened:
        yield opened


def mine(sandbox, *include):
    source = open_source(SourceConfig(SourceType.PACKAGE, name="torch", include=include), seed=7)
    miner = Miner(source)
    return [item for unit in source.units() for item in miner.drafts(unit, sandbox)]


@pytest.fixture(scope="module")
def small_files(sandbox):
    return mine(sandbox, "nn/modules/linear.py", "nn/modules/pixelshuffle.py", "nn/modules/distance.py")


def drafts_of(found):
    return {item.name: item for item in found if isinstance(item, Draft)}


def test_drafts_have_kernelbenchs_form_and_run(small_files):
    for draft in drafts_of(small_files).values():
        space: dict = {}
        exec(draft.reference, space)  # torch's own code
        space["Model"](*space["get_init_inputs"]())(*space["get_inputs"]())
        assert load_reference(draft.reference).Model


def test_every_draft_says_where_it_comes_from(small_files):
    linear = drafts_of(small_files)["Linear"].provenance
    assert linear.origin == "package:torch"
    assert linear.repository == "https://github.com/pytorch/pytorch"
    assert linear.license == "BSD-3-Clause"
    assert linear.path == "torch/nn/modules/linear.py"
    first, last = map(int, linear.lines.split("-"))
    assert 0 < first < last


def test_torchs_own_public_names_are_imported_and_not_copied(small_files):
    reference = drafts_of(small_files)["Linear"].reference
    assert "class Model(nn.Module)" in reference
    assert reference.count("class ") == 1
    assert "F.linear(" in reference
    assert "nn.Parameter(" in reference


def test_sizes_are_modest_and_dimensions_distinct(small_files):
    [shape] = _shapes(drafts_of(small_files)["Linear"].reference)
    assert len(set(shape)) == len(shape)
    assert 1000 <= shape[0] * shape[1] <= 65536


def _shapes(reference):
    tree = ast.parse(reference)
    [function] = [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name == "get_inputs"]
    calls = [item for item in ast.walk(function) if isinstance(item, ast.Call)]
    return [tuple(argument.value for argument in call.args) for call in calls]


def test_modules_without_shapes_of_their_own_are_rejected_with_a_reason(small_files):
    [lazy] = [item for item in small_files if isinstance(item, Reject) and "first input" in item.detail]
    assert lazy.reason == "lazy_fails"
    assert lazy.step == "draft"


def test_mining_twice_gives_the_same_rows(sandbox):
    assert mine(sandbox, "nn/modules/fold.py") == mine(sandbox, "nn/modules/fold.py")


def test_another_worker_that_never_saw_the_other_files_gives_the_same_rows(sandbox):
    together = list(mine(sandbox, "nn/modules/flatten.py", "nn/modules/fold.py"))
    alone = mine(sandbox, "nn/modules/flatten.py") + mine(sandbox, "nn/modules/fold.py")
    assert together == alone


@pytest.mark.slow
def test_torch_alone_gives_more_than_a_hundred_drafts(sandbox):
    assert len(drafts_of(mine(sandbox, "nn/modules/*.py"))) >= 100
