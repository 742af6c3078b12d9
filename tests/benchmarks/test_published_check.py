"""The independent check of published kernels."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.published_check import find_difference
from benchmarks.published_kernels import Published, _check, _check_all, _check_lines

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.randn(5)]
"""
CANDIDATE = "import time\nimport torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        "
BODIES = {
    "right": "return x + 1",
    "wrong": "return x + 1.01",
    "failing": "raise RuntimeError('launch')",
}


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        (torch.ones(3), torch.ones(3) + 1e-6, ""),
        (torch.ones(3), torch.tensor([1.0, 2.0, 1.0]), "output 0: 1 of 3 differ, 2.0 not 1.0 at (1,)"),
        (torch.ones(3), torch.ones(3).half(), "output 0: torch.float16 [3], not torch.float32 [3]"),
        ((torch.ones(3), torch.ones(2)), [torch.ones(3)], "1 outputs, not 2"),
        (torch.tensor(4), torch.tensor(5), "output 0: 1 of 1 differ, 5 not 4 at ()"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), ""),
    ],
)
def test_difference_is_named(expected, found, said):
    assert find_difference(expected, found) == said


def test_each_kernel_is_checked_in_a_process_of_its_own(tmp_path: Path):
    kernels = [Published(name, 8, REFERENCE, CANDIDATE + body) for name, body in BODIES.items()]
    path = tmp_path / "checks.jsonl"
    _check_all(kernels, 4, 40, path, float("inf"))
    said = {entry["name"]: entry for entry in map(json.loads, path.read_text().splitlines())}
    assert {name: entry["right"] for name, entry in said.items()} == {
        "right": True,
        "wrong": False,
        "failing": False,
    }
    assert said["right"]["draws"] == 200
    assert "launch" in said["failing"]["error"]
    _check_all(kernels, 4, 40, path, float("inf"))
    assert len(path.read_text().splitlines()) == len(kernels)  # none is checked again


def test_check_that_takes_too_long_is_ended(tmp_path: Path):
    hanging = Published("hanging", 8, REFERENCE, CANDIDATE + "time.sleep(600)")
    assert _check(hanging, tmp_path, 1) == {"right": None, "error": "not done after 1 s"}


def test_verdicts_are_compared_with_the_check():
    verdicts = {name: {"right": right} for name, right in [("a", True), ("b", True), ("c", False), ("d", None)]}
    checks = {name: {"right": True} for name in "abcd"}
    (_, _, right, _), (_, goal, agree, kept) = _check_lines(verdicts, checks)
    assert (right, goal, agree, kept) == ("4 of 4", ">= 97%", "66.7% of 3", False)
