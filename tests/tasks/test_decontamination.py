"""Benchmarks stay out, however they are dressed."""

import dataclasses
import json
import random
import subprocess
import sys

import pytest

from benchmarks.disguise import disguise
from musadata.errors import MusadataError
from musadata.records import Reject, Task
from musadata.tasks.decontaminate import FOLDER, NGRAM, BenchmarkText, FingerprintSet, load_fingerprints, match_text
from musadata.tasks.fingerprints.__main__ import main
from musadata.tasks.fingerprints.results import hash_results
from musadata.tasks.text import shingle_hashes
from tests.tasks.conftest import CONFIG, reference
from tests.tasks.test_fingerprint import BLOCK

STRICT = dataclasses.replace(CONFIG, decontaminate=("kernelbench",))


@pytest.mark.parametrize(
    ("forward", "init", "task"),
    [
        ("return F.relu(x)", "pass", "kernelbench/level1/19_ReLU"),
        ("return self.act(x)", "self.act = nn.Tanh()", "kernelbench/level1/22_Tanh"),
        ("return torch.softmax(x, dim=-1)", "pass", "kernelbench/level1/23_Softmax"),
        ("return self.body(x)", "self.body = nn.Sequential(nn.GELU())", "kernelbench/level1/26_GELU_"),
    ],
)
def test_module_with_the_graph_of_a_benchmark_task_is_dropped(examine, forward, init, task):
    result = examine(reference(forward, init), STRICT)
    assert isinstance(result, Reject)
    assert (result.reason, result.detail) == ("benchmark", task)


@pytest.mark.parametrize("forward", ["return F.relu(x) + x", "return F.celu(x) * 2", "return torch.softmax(x * x, 0)"])
def test_other_module_is_kept(examine, forward):
    assert isinstance(examine(reference(forward), STRICT), Task)


@pytest.mark.parametrize(
    "product",
    [
        "x @ w.T",
        "F.linear(x, w)",
        "nn.functional.linear(x, w)",
        "x @ w.t()",
        "torch.mm(x, w.transpose(0, 1))",
        "x @ w.mT",
        "torch.matmul(x, w.permute(1, 0))",
        "x.T.T @ w.swapaxes(-1, 0)",
    ],
)
def test_every_way_to_transpose_is_one(examine, product):
    text = reference(f"return {product}", arguments="x, w", inputs="torch.randn(6, 4), torch.randn(5, 4)")
    found = examine(text, STRICT)
    assert isinstance(found, Reject) and found.detail.startswith("kernelbench/level1/17_"), found


LAYER_NORM = """centred = x - x.mean((1, 2, 3), True)
return centred / (centred.pow(2).mean((1, 2, 3), True) + 1e-5).sqrt() * self.g + self.b"""
STATE = "self.g, self.b = (nn.Parameter(torch.ones(16, 16, 16)) for _ in range(2))"
OTHER_STATE = STATE.replace("16, 16, 16", "12, 10, 14")


@pytest.mark.parametrize(
    ("forward", "arguments", "inputs", "init", "task"),
    [
        ("return x.exp() / x.exp().sum(1, keepdim=True)", "x", "torch.randn(8, 40)", "pass", "level1/23_Softmax"),
        ("return 0.5 * x * (1 + torch.erf(x / 2**0.5))", "x", "torch.randn(9, 30)", "pass", "level1/26_GELU_"),
        ("return (w.mT @ x.mT).mT", "x, w", "torch.randn(6, 4), torch.randn(4, 5)", "pass", "level1/1"),
        (
            "return (t - p).square().sum() / p.numel()",
            "t, p",
            "torch.randn(6, 4), torch.randn(6, 4)",
            "pass",
            "level1/94_",
        ),
        ("return 0.5 * a * s + a * (s / 2)", "s, a", "3.14, torch.randn(6, 40)", "pass", "level1/5_"),
        (LAYER_NORM, "x", "torch.randn(2, 16, 16, 16)", STATE, "level1/40_LayerNorm"),
        (LAYER_NORM, "x", "torch.randn(2, 12, 10, 14)", OTHER_STATE, ""),
        ("return x.exp().sum(1, keepdim=True).log() + 0.1 * x", "x", "torch.randn(8, 40)", "pass", ""),
        ("return x.clamp(0, 6)", "x", "torch.randn(8, 40)", "pass", ""),
    ],
    ids=["softmax", "gelu", "product", "mse", "scalar", "layer norm", "fixed sizes", "another", "clamped"],
)
def test_a_benchmark_task_is_known_by_its_results(examine, forward, arguments, inputs, init, task):
    """Sizes that stand in the code are not changed: such a copy is found only where they happen to fit."""
    found = examine(reference(forward, init, inputs, arguments), STRICT)
    if task:
        assert isinstance(found, Reject) and found.detail.startswith(f"kernelbench/{task}"), found
    else:
        assert isinstance(found, Task), found


def test_results_have_no_hash_where_they_say_nothing():
    for forward in ("return x", "return x * 0 + 3", "return x.log() - x.log()", "return x[:, 20:]", "raise ValueError"):
        assert hash_results(reference(forward, inputs="torch.randn(8, 40)")) == []


def test_a_convolution_among_other_things_is_not_the_benchmarks_convolution():
    text = reference(
        "return F.huber_loss(self.conv(torch.erf(torch.sigmoid(x))), x[:, :1], delta=0.8)",
        "self.conv = nn.Conv2d(12, 48, kernel_size=(2, 3), stride=2, padding=1)",
    )
    assert match_text(text, load_fingerprints("kernelbench")) == ""


LONGER = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x = torch.gather(x, 1, index[:, :, None].expand(-1, -1, x.shape[-1]))
        return F.hardtanh(x, min_val=-1.0, max_val=1.0)


batch_size = 8
length = 24
features = 64
"""


def test_a_longer_module_that_ends_in_a_benchmarks_line_is_another_module_unless_nobody_can_trace_it():
    shipped = load_fingerprints("kernelbench")
    assert match_text(LONGER, shipped) == ""
    assert match_text(LONGER, shipped, traced=False) == "level1/32_HardTanh"


def test_shipped_set_holds_hashes_only():
    data = json.loads((FOLDER / "kernelbench.json").read_text())
    assert len(data["tasks"]) == 270
    for task in data["tasks"]:
        assert all(set(one) <= set("0123456789abcdef") for one in (*task["graphs"], *task["results"], *task["ngrams"]))
        assert task["graphs"] or task["ngrams"]


@pytest.mark.slow
def test_set_made_from_a_checkout_finds_its_tasks(tmp_path, examine):
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "block.py").write_text(BLOCK)
    (tmp_path / "bench" / "broken.py").write_text(BLOCK.replace("import torch\n", "import no_such_package\n", 1))
    output = tmp_path / "own.json"
    arguments = ["--benchmark", "own", "--checkout", str(tmp_path), "--pattern", "bench/*.py", "--output", str(output)]
    assert main(arguments) == 0
    tasks = json.loads(output.read_text())["tasks"]
    assert [bool(task["graphs"]) for task in tasks] == [True, False]
    assert "ModuleNotFoundError" in tasks[1]["problem"]
    config = dataclasses.replace(CONFIG, decontaminate=(str(output),))
    for seed in range(3):
        result = examine(disguise(BLOCK, random.Random(seed)), config)
        assert (result.reason, result.detail) == ("benchmark", "own/bench/block")


def test_copied_text_is_found_where_the_graph_is_not():
    source = BLOCK.replace("width = 24", "width = 25")
    ngrams = shingle_hashes(BLOCK, NGRAM)
    own = FingerprintSet("own", {}, {}, (BenchmarkText("block", ngrams, ngrams, traced=True),))
    assert match_text(source, own) == "block"
    assert match_text(source.replace("torch.sigmoid", "torch.tanh"), own) == "block"
    assert match_text(reference("return F.relu(x)"), own) == ""


@pytest.mark.parametrize("content", ["{", "[]", '{"benchmark": "x"}', '{"benchmark": "x", "tasks": [{}]}'])
def test_file_that_is_no_set_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(MusadataError, match=r"bad\.json"):
        load_fingerprints(str(path))


def test_unknown_set_is_an_error_that_lists_the_shipped_ones():
    with pytest.raises(MusadataError, match="kernelbench"):
        load_fingerprints("kernelbunch")


def test_checkout_without_tasks_is_an_error(tmp_path, capsys):
    assert main(["--benchmark", "x", "--checkout", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_no_hash_loads_the_compiler_of_pytorch():
    """It would cost seconds in every execution of stage 1."""
    text = reference("return torch.softmax(x, -1)")
    program = f"import sys\nfrom musadata.tasks.fingerprints.results import hash_results\nprint(hash_results({text!r}))"
    program += '\nprint("torch._dynamo" in sys.modules)'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len(done.stdout) > 20 and done.stdout.endswith("False\n")
