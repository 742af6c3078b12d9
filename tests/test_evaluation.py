"""Figures of a scripted model on problems of both levels, recomputed by hand; a killed run asks nothing twice."""

import dataclasses
import json

import pyarrow.parquet as pq
import pytest

from musadata.config import BackendType, RequestsConfig, TeacherConfig, TeacherType, VerifierConfig
from musadata.errors import BudgetSpent, MusadataError
from musadata.evaluation.problems import read_problems
from musadata.evaluation.run import Evaluation, evaluate
from tests.teacher.chat_server import ChatServer, reply

REFERENCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * {scale}.0 + 1.0


def get_inputs():
    return [torch.rand(8, 33)]


def get_init_inputs():
    return []
"""
ANSWER = """```python
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r\"\"\"
#include <torch/extension.h>

__global__ void scale_kernel(const float* x, float* y, int total) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = x[i] * {scale}.0f + 1.0f;
}}

torch::Tensor scale(torch::Tensor x) {{
    x = x.contiguous();
    auto y = torch::empty_like(x);
    const int total = x.numel();
    scale_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), total);
    return y;
}}
\"\"\"
module = load_inline("s", cpp_sources="torch::Tensor scale(torch::Tensor x);", cuda_sources=source, functions=["scale"])


class ModelNew(nn.Module):
    def forward(self, x):
        return module.scale(x)
```
"""


@pytest.fixture
def checkout(tmp_path):
    """Three problems; the model knows the first two, and one of them at every second try."""
    for level, number, scale in ((1, 1, 2), (1, 2, 3), (2, 1, 4)):
        path = tmp_path / f"KernelBench/level{level}/{number}_scale.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(REFERENCE.format(scale=scale))
    (tmp_path / "KernelBench/level1/notes.py").write_text("x = 1\n")
    return tmp_path / "KernelBench"


def answer(body, attempt):
    question = body["messages"][-1]["content"]
    if "x * 2.0" in question:
        return reply(ANSWER.format(scale=2))
    if "x * 3.0" in question:
        return reply(ANSWER.format(scale=3 if attempt % 2 else 5))
    return reply("I do not know.")


def described(checkout, tmp_path, url, samples=2):
    teacher = TeacherConfig(kind=TeacherType.OPENAI, base_url=url, model="tiny", samples=samples, concurrency=1)
    verifier = VerifierConfig(backend=BackendType.EMULATED)
    problems = tuple(read_problems(checkout))
    return Evaluation(problems, samples, teacher, tmp_path / "out", verifier, RequestsConfig(), 2)


def test_figures_are_those_of_the_answers_and_nothing_is_asked_twice(checkout, tmp_path):
    said = []
    with ChatServer(answer) as server:
        first = described(checkout, tmp_path, server.url, samples=1)
        evaluate(first, said.append)
        assert len(server.bodies) == 3
        summary = evaluate(described(checkout, tmp_path, server.url), said.append)
        assert len(server.bodies) == 6
        assert evaluate(described(checkout, tmp_path, server.url), said.append) == summary
        assert len(server.bodies) == 6
    for policy in ("paper", "kernelbench"):
        whole, one, two = (summary["policies"][policy][name] for name in ("all", "level 1", "level 2"))
        assert (whole["tasks"], whole["samples"], whole["passed"], whole["problems_solved"]) == (3, 6, 3, 2)
        assert one["pass_at_k"] == {"1": 0.75, "2": 1.0} and one["avg_at_k"] == 0.75
        assert two["pass_at_k"] == {"1": 0.0, "2": 0.0} and sum(two["failures"].values()) == 2
        assert one["failures"] == {"correctness": 1}
        rows = pq.read_table(tmp_path / "out/rows.parquet").to_pylist()
        assert [row[policy]["accepted"] for row in rows] == [True, True, True, False, False, False]
    assert [row["level"] for row in rows] == [1, 1, 1, 1, 2, 2] and "scale_kernel" in rows[0]["answer"]
    assert json.loads((tmp_path / "out/summary.json").read_text()) == summary
    page = (tmp_path / "out/index.html").read_text()
    assert "level1/2_scale.py" in page and "http" not in page


def test_a_run_stops_at_its_budget_and_another_goes_on(checkout, tmp_path):
    def counted(body, attempt):
        status, given, headers = answer(body, attempt)
        return status, {**given, "usage": {"prompt_tokens": 600, "completion_tokens": 400}}, headers

    with ChatServer(counted) as server:
        described_once = described(checkout, tmp_path, server.url, samples=1)
        little = dataclasses.replace(described_once, requests=RequestsConfig(budget_tokens=500))
        with pytest.raises(BudgetSpent, match="raise --budget-tokens"):
            evaluate(little, lambda text: None)
        assert len(server.bodies) < 3  # what was under way came to its end
        evaluate(described_once, lambda text: None)
        assert len(server.bodies) == 3


def test_problems_are_found_by_their_form_and_counted_by_level(checkout):
    assert [(one.level, one.name) for one in read_problems(checkout)] == [
        (1, "level1/1_scale.py"),
        (1, "level1/2_scale.py"),
        (2, "level2/1_scale.py"),
    ]
    assert [one.name for one in read_problems(checkout, limit=1)] == ["level1/1_scale.py", "level2/1_scale.py"]
    assert [one.level for one in read_problems(checkout / "level2")] == [2]
    with pytest.raises(MusadataError, match="holds no problem"):
        read_problems(checkout, levels=(7,))
