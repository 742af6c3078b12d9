"""Reviews and diagnoses say what verdict and change bear out; the programs of a pair differ in the fault alone."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from musadata.compiler import faults
from musadata.corpus.views.changes import list_changes, name_place
from musadata.corpus.views.diagnoses import diagnosis_rows
from musadata.corpus.views.optimisation import optimisation_rows
from musadata.corpus.views.reviews import review_rows
from musadata.records import ErrorClass, Finding, Timing

RIGHT = '''import torch
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__device__ float twice(float value) {
    return 2.0f * value;
}

__global__ void __launch_bounds__(256) twice_kernel(
    const float* x, float* y, int total) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    y[i] = twice(x[i]);
}

torch::Tensor twice_cuda(torch::Tensor x) {
    x = x.contiguous();
    const int blocks = (x.numel() + 255) / 256;
    return x;
}
"""

extension = load_inline("twice", cpp_sources="", cuda_sources=cuda_source, functions=["twice_cuda"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.twice_cuda(x)
'''
GUARD, GEOMETRY = "    if (i >= total) return;\n", "(x.numel() + 255) / 256"
NO_GUARD = RIGHT.replace(GUARD, "")


@pytest.fixture
def mended(make_row):
    """A program that failed, and its repair."""
    task = make_row.task(3)
    candidates, trajectory = make_row.conversation(task, 0, ["runtime", "accepted"])
    finding = Finding("device.illegal_access", "kernel twice_kernel block (3,0,0) thread (9,0,0): a read of 4 bytes")
    wrong, right = candidates
    wrong = dataclasses.replace(wrong, source=NO_GUARD, fault="", findings=(finding,))
    return task, make_row.annotation(task), [wrong, dataclasses.replace(right, source=RIGHT)], [trajectory]


DIFFERENCE = """In the kernel `twice_kernel`:

```diff
 const int i = blockIdx.x * blockDim.x + threadIdx.x;
+if (i >= total) return;
```"""


def test_a_wrong_program_is_reviewed_together_with_the_right_one(mended):
    wrong, right = review_rows(*mended)
    assert wrong.completion[0].content == f"Verdict: wrong (runtime)\n\n{DIFFERENCE}"
    assert right.completion[0].content == "Verdict: right"
    one, other = (row.prompt[-1].content for row in (wrong, right))
    assert 1 <= len(list_changes(one, other)) <= 2
    programs = {row.candidate_id: row.prompt[-1].content for row in (wrong, right)}
    assert all(candidate.source.strip() in programs[candidate.candidate_id] for candidate in mended[2])
    numbers = json.loads(wrong.evidence)["lines"]
    assert [NO_GUARD.splitlines()[number - 1].strip() for number in numbers] == [DIFFERENCE.splitlines()[3].strip()]
    assert json.loads(right.evidence)["accepted"] and not json.loads(right.evidence)["lines"]


def test_a_diagnosis_shows_the_place_and_how_it_is_mended(mended):
    (row,) = diagnosis_rows(*mended)
    assert row.completion[0].content == DIFFERENCE and mended[2][0].feedback in row.prompt[-1].content
    assert json.loads(row.evidence)["mended_by"] == mended[2][1].candidate_id


def test_a_seeded_fault_is_neither_reviewed_nor_diagnosed(mended):
    task, annotation, (wrong, right), trajectories = mended
    seeded = [dataclasses.replace(wrong, fault="missing_bounds_check"), right]
    assert review_rows(task, annotation, seeded, trajectories) == []
    assert diagnosis_rows(task, annotation, seeded, trajectories) == []


def test_a_rewritten_program_says_nothing_of_the_fault(mended):
    task, annotation, candidates, trajectories = mended
    other = dataclasses.replace(candidates[-1], source=RIGHT.replace("float", "double").replace("x", "input"))
    rewritten = [*candidates[:-1], other]
    assert review_rows(task, annotation, rewritten, trajectories) == []
    assert diagnosis_rows(task, annotation, rewritten, trajectories) == []


def test_a_rewritten_program_is_mended_by_the_accepted_one_of_another_sample(mended, make_row):
    task, annotation, candidates, trajectories = mended
    other = dataclasses.replace(candidates[-1], source=RIGHT.replace("float", "double").replace("x", "input"))
    (right,), trajectory = make_row.conversation(task, 1, ["accepted"])
    known = [*candidates[:-1], other, dataclasses.replace(right, source=RIGHT)]
    wrong, _ = review_rows(task, annotation, known, [*trajectories, trajectory])
    assert json.loads(wrong.evidence)["compared_with"] == right.candidate_id
    (asked,) = diagnosis_rows(task, annotation, known, [*trajectories, trajectory])
    assert json.loads(asked.evidence)["mended_by"] == right.candidate_id


def test_a_conversation_without_an_accepted_answer_teaches_no_review(mended):
    task, annotation, candidates, trajectories = mended
    failed = [dataclasses.replace(one, accepted=False) for one in candidates]
    assert review_rows(task, annotation, failed, trajectories) == []


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("return 2.0f", "the device function `twice`"),
        ("y[i] =", "the kernel `twice_kernel`"),
        ("x.contiguous", "the host function `twice_cuda`"),
        ("return extension", "`ModelNew.forward`"),
        ("extension =", "`extension`"),
        ("import torch", "the Python around the kernels"),
    ],
)
def test_places_are_named_by_their_function(line, place):
    number = next(number for number, text in enumerate(RIGHT.splitlines(), 1) if line in text)
    assert name_place(RIGHT, number) == place


def test_a_declaration_of_several_lines_is_in_no_function():
    declared = 'cpp_source = """\ntorch::Tensor twice_cuda(\n    torch::Tensor x,\n    int64_t total);\n"""\n'
    assert name_place(declared, 4) == "`cpp_source`"


def test_comments_and_layout_are_no_change():
    assert list_changes(RIGHT, RIGHT.replace(GUARD, f"    // past the end\n\n    {GUARD}")) == ()


def test_a_call_that_a_try_encloses_is_one_change():
    call = "        return extension.twice_cuda(x)\n"
    guarded = f"        try:\n    {call}        except RuntimeError:\n            return 2 * x\n"
    (change,) = list_changes(RIGHT.replace(call, guarded), RIGHT)
    assert [line.text for line in change.old] == [line.strip() for line in guarded.splitlines()]
    assert [line.text for line in change.new] == [call.strip()]


def test_what_is_only_not_allowed_is_neither_reviewed_nor_diagnosed(mended):
    task, annotation, candidates, trajectories = mended
    cheat = RIGHT.replace("extension.twice_cuda(x)", "F.relu(x)").replace("import torch\n", "import torch\nimport F\n")
    wrong = dataclasses.replace(candidates[0], source=cheat, fault="", error_class=ErrorClass.CHEATING)
    rows = (task, annotation, [wrong, candidates[1]], trajectories)
    assert diagnosis_rows(*rows) == [] and review_rows(*rows) == []


def test_no_kind_of_fault_says_a_thing_twice():
    """YAML keeps the last of two equal keys without a word."""
    text = Path(faults.__file__).with_name("kinds.yaml").read_text(encoding="utf-8")
    for entry in re.split(r"\n(?=\w)", text):
        keys = re.findall(r"^  (\w+):", entry, re.M)
        assert len(keys) == len(set(keys)), entry


def test_optimisation_needs_times_that_differ_beyond_the_noise(mended, make_row):
    task, annotation = mended[:2]
    played = [make_row.conversation(task, sample, ["accepted"]) for sample in (0, 3)]
    trajectories = [trajectory for _, trajectory in played]
    for fast, slow, found in [((1.0, 2.0), (3.0, 4.0), 1), ((1.0, 3.5), (3.0, 4.0), 0), ((2.9, 2.95), (3.0, 3.1), 0)]:
        candidates = [
            dataclasses.replace(
                some[0], timings=(Timing("candidate", sum(times) / 2, *times, 40),), device="NVIDIA H200"
            )
            for (some, _), times in zip(played, (fast, slow), strict=True)
        ]
        rows = optimisation_rows(task, annotation, candidates, trajectories)
        assert len(rows) == found
        for row in rows:
            assert row.candidate_id == candidates[0].candidate_id
            prompt = row.prompt[-1].content
            assert "3.5 ms (95 % interval 3 to 4" in prompt
            assert "On NVIDIA H200: 132 multiprocessors" in prompt
            rate = annotation.told[0].bytes / 3.5e-3
            assert f"{rate / 1e12:.3g} TB/s ({rate / 4.8e12:.0%} of the device's)" in prompt
    assert optimisation_rows(task, annotation, [some[0] for some, _ in played], trajectories) == []


@pytest.mark.parametrize(
    ("memory", "expected", "told"),
    [
        ("6 MB", 2.0, True),
        ("3 MB", 2.0, False),  # what is counted is equal
        ("6 MB", 0.5, False),  # it speaks for the slower one
    ],
)
def test_an_optimisation_tells_what_was_counted_and_measured_for_its_one_edit(mended, make_row, memory, expected, told):
    task, annotation = mended[:2]
    played = [make_row.conversation(task, sample, ["accepted"]) for sample in (0, 3, 4)]
    costs = [("tiles", "3 MB", "loop"), ("row", memory, "loop"), ("row", memory, "stride")]
    candidates = [
        dataclasses.replace(
            some[0],
            timings=(Timing("candidate", time, time - 0.1, time + 0.1, 40),),
            expected_ms=1.0 if first == "tiles" else expected,
            costs=json.dumps(
                [
                    {"kernel": "mm_kernel", "schedule": first, "limit": "L2", "memory": moved},
                    {"kernel": "add_kernel", "schedule": second, "limit": "memory"},
                ]
            ),
        )
        for (some, _), time, (first, moved, second) in zip(played, (1.0, 2.0, 3.0), costs, strict=True)
    ]
    rows = optimisation_rows(task, annotation, candidates, [trajectory for _, trajectory in played])
    assert len(rows) == told
    for row in rows:
        assert json.loads(row.evidence)["slow_id"] == candidates[1].candidate_id  # the slowest one has two edits
        words, _, program = row.completion[-1].content.partition("```python\n")
        assert "- Before: `mm_kernel`, row (memory 6 MB). Now: `mm_kernel`, tiles (memory 3 MB)." in words
        assert "Measured: 2 ms before, 1 ms now, 2 times as fast." in words and "add_kernel" not in words
        assert program == f"{candidates[0].source}```\n"


def test_changes_in_two_functions_are_two():
    module = "class ModelNew:\n    def __init__(self):\n        self.{0} = 1\n\n    def forward(self, x):\n"
    module += "        return x + self.{0}\n"
    first, second = list_changes(module.format("norm"), module.format("norm_layer"))
    assert [one.text for one in first.old] == ["self.norm = 1"]
    assert [one.text for one in second.old] == ["return x + self.norm"]
