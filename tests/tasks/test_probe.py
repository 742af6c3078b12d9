"""Every filter drops a tiny reference for its very reason, and lets an honest twin pass."""

import ast
import dataclasses

import pytest
import torch

from musadata.records import Draft, OperatorFamily, Reject, SourceKind, Task
from musadata.sandbox import Sandbox
from musadata.tasks.input_specs import infer_specs
from musadata.tasks.probe import PRELOAD, probe
from tests.tasks.conftest import CONFIG, PROVENANCE, reference

# name: (reason, reference that must be dropped, honest twin that must pass)
GIVEN = reference("return self.f(x)", "self.f = f").replace("__init__(self)", "__init__(self, f)")

FILTERS = {
    "module argument": (
        "module_argument",
        GIVEN.replace("return []", "return [nn.Linear(33, 2)]"),
        GIVEN.replace("return []", "return [torch.tanh]"),
    ),
    "syntax": ("does_not_load", "def Model(:", reference("return F.relu(x)")),
    "import": (
        "does_not_load",
        reference("return F.relu(x)", top="import no_such_package"),
        reference("return F.relu(x) * math.pi", top="import math"),
    ),
    "form": ("bad_form", "import torch\nx = 1\n", reference("return F.relu(x)")),
    "construction": (
        "construction_fails",
        reference("return self.f(x)", "self.f = nn.Linear(33, -1)"),
        reference("return self.f(x)", "self.f = nn.Linear(33, 1)"),
    ),
    "inputs": (
        "inputs_fail",
        reference("return F.relu(x)", inputs="torch.randn(4, 33) @ torch.randn(4, 33)"),
        reference("return F.relu(x)", inputs="torch.randn(4, 33) @ torch.randn(33, 4)"),
    ),
    "run": ("does_not_run", reference("return x @ x"), reference("return x @ x.T")),
    "parts joined": (
        "only_joins",
        reference("return torch.cat([x[i] for i in (3, 1, 2, 0)])"),
        reference("return torch.cat([2 * x[i] for i in (3, 1, 2, 0)])"),
    ),
    "device": (
        "other_device",
        reference("return x + torch.arange(33)"),
        reference("return x + torch.arange(33, device=x.device)"),
    ),
    "tensor that is no buffer": (
        "other_device",
        reference("return x * self.table", "self.table = torch.linspace(1, 2, 33)"),
        reference("return x * self.table", "self.register_buffer('table', torch.linspace(1, 2, 33))"),
    ),
    "rows chosen on the CPU": (
        "other_device",
        reference("return F.relu(torch.index_select(x, 1, torch.linspace(0, 30, 7).long()))"),
        reference("return F.relu(torch.index_select(x, 1, torch.linspace(0, 30, 7, device=x.device).long()))"),
    ),
    "rows of a table on the CPU": (
        "other_device",
        reference("return F.relu(x) + torch.ones(9, 33).index_select(0, torch.arange(4, device=x.device))"),
        reference("return F.relu(x) + torch.ones(9, 33, device=x.device)[torch.arange(4)]"),
    ),
    "product with a matrix on the CPU": (
        "other_device",
        reference("return x @ torch.ones(33, 5)"),
        reference("return x @ self.w", "self.w = nn.Parameter(torch.Tensor(33, 5).fill_(0.1))"),
    ),
    "device of what depends on values": (
        "other_device",
        reference("return x + torch.zeros(4, 33).scatter_(1, x.argmax(1, keepdim=True).cpu(), 1.0)"),
        reference("return x + torch.zeros_like(x).scatter_(1, x.argmax(1, keepdim=True), 1.0)"),
    ),
    "random": (
        "nondeterministic",
        reference("return x + torch.rand_like(x)"),
        reference("return x + torch.ones_like(x)"),
    ),
    "random numbers that a scale hides": (
        "nondeterministic",
        reference("return F.relu(x + self.s * torch.randn_like(x))", "self.s = nn.Parameter(torch.zeros(1))"),
        reference("return F.relu(x + self.s * torch.ones_like(x))", "self.s = nn.Parameter(torch.zeros(1))"),
    ),
    "branch on a random number": (
        "nondeterministic",
        reference("return torch.tanh(x) if random.random() < 0.99 else x", top="import random"),
        reference("return torch.tanh(x) if random.seed is not None else x", top="import random"),
    ),
    "random numbers of numpy": (
        "nondeterministic",
        reference("return torch.tanh(x) if np.random.rand() < 0.99 else x", top="import numpy as np"),
        reference("return torch.tanh(x) if np.pi < 4 else x", top="import numpy as np"),
    ),
    "random construction": (
        "nondeterministic",
        reference(
            "return x * self.s", "self.s = nn.Parameter(torch.tensor(float(os.urandom(4)[0] + 1)))", top="import os"
        ),
        reference("return x * self.s", "self.s = nn.Parameter(torch.rand(1) + 1)", top="import os"),
    ),
    "hidden counter": (
        "nondeterministic",
        reference("self.calls += 1\nreturn x * self.calls", "self.calls = 0"),
        reference("return x * self.calls", "self.calls = 3"),
    ),
    "buffer": (
        "keeps_state",
        reference("self.seen += 1\nreturn F.relu(x)", "self.register_buffer('seen', torch.zeros(1))"),
        reference("return F.relu(x) + self.seen", "self.register_buffer('seen', torch.ones(1))"),
    ),
    "nan": ("not_finite", reference("return torch.log(x)"), reference("return torch.log(x.abs() + 1)")),
    "infinity": ("not_finite", reference("return 1 / (x - x)"), reference("return 1 / (x.abs() + 1)")),
    "zero": ("all_zero", reference("return x - x"), reference("return x - x.mean()")),
    "constant": (
        "constant",
        reference("return torch.ones(4) * torch.sign(x.abs().sum())"),
        reference("return torch.ones(4, 33, device=x.device) * x.sum(0)"),
    ),
    "mostly constant": (
        "mostly_one_value",
        reference("return F.relu(x - 2)"),
        reference("return F.relu(x - 0.5)"),
    ),
    "input independent": (
        "constant_output",
        reference("return torch.arange(9.0) + 0 * x.sum()"),
        reference("return torch.arange(9.0, device=x.device) + x.sum()"),
    ),
    "softmax then sum": (
        "constant",
        reference("return torch.round(torch.softmax(x, 1).sum(1))"),
        reference("return torch.softmax(x, 1).amax(1)"),
    ),
    "second input": (
        "ignores_input",
        reference("return F.relu(x)", inputs="torch.randn(4, 33), torch.randn(4, 33)", arguments="x, y"),
        reference("return F.relu(x) * y", inputs="torch.randn(4, 33), torch.randn(4, 33)", arguments="x, y"),
    ),
    "constant mask": (
        "ignores_input",
        reference("return F.relu(x)", inputs="torch.randn(4, 33), torch.ones(4, 33)", arguments="x, mask"),
        reference("return F.relu(x) * mask", inputs="torch.randn(4, 33), torch.ones(4, 33)", arguments="x, mask"),
    ),
    "rows for a list": (
        "reads_few_rows",
        reference("return F.relu(x[0]) + x[1]", inputs="torch.randn(4, 33)"),
        reference("return F.relu(x[0]) + x[-1]", inputs="torch.randn(4, 33)"),
    ),
    "joined": (
        "only_joins",
        reference("return torch.cat([x, y], 1)", inputs="torch.randn(4, 33), torch.randn(4, 33)", arguments="x, y"),
        reference("return torch.cat([x, -y], 1)", inputs="torch.randn(4, 33), torch.randn(4, 33)", arguments="x, y"),
    ),
    "constant output": (
        "constant_output",
        reference("return self.table * 2 + 0 * x.sum()", "self.register_buffer('table', torch.randn(7))"),
        reference("return F.relu(x), self.table * x.sum()", "self.register_buffer('table', torch.randn(7))"),
    ),
    "nearly constant output": (
        "constant_output",
        reference("return 0.001 * F.relu(x) + self.table", "self.register_buffer('table', torch.randn(33))"),
        reference("return F.relu(x) + self.table", "self.register_buffer('table', torch.randn(33))"),
    ),
    "parameter": (
        "ignores_parameter",
        reference("return F.relu(x)", "self.f = nn.Linear(33, 4)"),
        reference("return F.relu(self.f(x))", "self.f = nn.Linear(33, 4)"),
    ),
    "parameter of no gradient": (
        "ignores_parameter",
        reference("return (x > 0.5).float()", "self.w = nn.Parameter(torch.ones(1))"),
        reference("return (x > self.w).float()", "self.w = nn.Parameter(torch.full((1,), 0.5))"),
    ),
    "identity": (
        "unchanged_input",
        reference("return self.d(x)", "self.d = nn.Dropout(0.5)"),
        reference("return x * 2"),
    ),
    "copy": ("unchanged_input", reference("return x.clone()"), reference("return x.clone() + 1")),
    "view": ("unchanged_input", reference("return x.flatten()"), reference("return x.flatten().exp()")),
    "in place": ("changes_input", reference("return x.mul_(2) + 1"), reference("return x.mul(2) + 1")),
    "string": ("not_a_tensor", reference("return 'relu', None"), reference("return F.relu(x), x.exp()")),
    "none": ("not_a_tensor", reference("return None"), reference("return {'y': [F.relu(x)]}")),
    "empty": ("empty_output", reference("return x[:0]"), reference("return x[1:] + 1")),
    "large parameter": (
        "too_large",
        reference("return F.embedding(x, self.w)", "self.w = nn.Parameter(torch.zeros(3000, 2000))"),
        reference("return x * self.w", "self.w = nn.Parameter(torch.full((33,), 2.0))"),
    ),
    "large intermediate": (
        "too_large",
        reference("return torch.outer(x.flatten(), x.flatten()).sum(0)", inputs="torch.randn(50, 50)"),
        reference("return torch.outer(x.flatten(), x.flatten()).sum(0)", inputs="torch.randn(20, 50)"),
    ),
    "changing shape": (
        "inputs_vary",
        reference("return F.relu(x)", inputs="torch.randn(4, int(torch.randint(2, 900, ())))"),
        reference("return F.relu(x)", inputs="torch.randn(4, 900)"),
    ),
    "other input": (
        "unsupported_input",
        reference("return F.relu(x.y)", inputs="type('Box', (), {'y': torch.randn(4)})()"),
        reference("return F.relu(x) * n", inputs="torch.randn(4), 3", arguments="x, n"),
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filter_drops_the_reference_for_its_reason(examine, name):
    reason, bad, _ = FILTERS[name]
    result = examine(bad)
    assert isinstance(result, Reject)
    assert (result.reason, result.step) == (reason, "probe")


@pytest.mark.parametrize("name", FILTERS)
def test_honest_twin_passes(examine, name):
    result = examine(FILTERS[name][2])
    assert isinstance(result, Task), result


@pytest.mark.parametrize(
    ("forward", "returned"),
    [
        ("return F.relu(x), None, 'relu', x.exp()", "result[0], result[3]"),
        ("return {'y': F.relu(x), 'zeros': [x.new_zeros(3)]}", "super().forward(x)['y']"),
        ("return x, F.relu(x)", "super().forward(x)[1]"),
        ("return torch.distributions.Normal(x.mean(1), x.exp().sum(1))", "result.loc, result.scale"),
    ],
)
def test_outputs_that_cannot_be_checked_are_left_out_if_others_can(examine, forward, returned):
    task = examine(reference(forward))
    assert isinstance(task, Task), task
    assert f"return {returned}\n" in task.reference


def test_outputs_of_a_subclass_are_left_out_in_place(examine):
    whole = reference("return F.relu(x), None").replace("class Model", "class Own")
    task = examine(whole.replace("def get_inputs", "class Model(Own):\n    pass\n\n\ndef get_inputs", 1))
    assert task.reference.count("(Own)") == 1 and "super().forward(x)[0]" in task.reference


# What untrusted code may try: each must end as a reject, and the next task must find everything as before.
HOSTILE = {
    "endless loop": ("timeout", reference("while True: pass")),
    "100 GB": ("memory", reference("return x + torch.ones(25_000_000_000).sum()")),
    "endless list": ("memory", reference("held = []\nwhile True: held.append(b'x' * (1 << 26))")),
    "leaves": ("crash", reference("os._exit(0)", top="import os")),
    "aborts": ("crash", reference("os.abort()", top="import os")),
    "raises SystemExit": ("does_not_run", reference("raise SystemExit(0)")),
    "changes torch": ("tampers_with_torch", reference("torch.equal = lambda a, b: True\nreturn x.exp()")),
    "changes modules": ("tampers_with_torch", reference("nn.Module.eval = None\nreturn x.exp()")),
    "many operators": ("too_large", reference("for _ in range(9999): x = x + 1\nreturn x")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_reference_is_contained(examine, name):
    reason, text = HOSTILE[name]
    # Whoever eats memory must meet that limit on a slow machine too; only what never returns needs a short clock.
    config = dataclasses.replace(CONFIG, seconds=2.0 if reason == "timeout" else 60.0)
    result = examine(text, config)
    assert isinstance(result, Reject)
    assert result.reason == reason
    assert isinstance(examine(reference("return torch.tanh(x)")), Task)


def test_prints_do_not_disturb_the_result(examine):
    noisy = reference(
        "print('{\"result\": 1}', flush=True)\nos.write(1, b'x' * 100)\nreturn F.relu(x)", top="import os"
    )
    assert isinstance(examine(noisy), Task)


def test_reject_names_no_address_or_path(examine):
    result = examine(reference("raise ValueError(f'{object()} in /home/somebody')"))
    assert result.detail == "ValueError"
    assert result.origin == "directory:tests:model.py:1-9"


def test_task_tells_what_was_seen(examine):
    text = reference(
        "return torch.softmax(self.f(x) * mask, dim=-1)[index] * n",
        "self.f = nn.Linear(33, 8)",
        inputs="torch.randn(4, 33), torch.rand(4, 8) > 0.5, torch.randint(0, 4, (50,)), 2.5",
        arguments="x, mask, index, n",
    )
    task = examine(text)
    assert task.operators == (
        "aten.t.default",
        "aten.addmm.default",
        "aten.mul.Tensor",
        "aten._softmax.default",
        "aten.index.Tensor",
        "aten.mul.Tensor",
    )
    assert task.operator_family is OperatorFamily.MATMUL
    assert task.level == 2
    x, mask, index, n = task.inputs
    assert (x.name, x.kind, x.dtype, x.shape) == ("x", "normal", "float32", (4, 33))
    assert (mask.name, mask.kind, mask.dtype, mask.shape) == ("mask", "bool", "bool", (4, 8))
    assert (index.kind, index.dtype, index.low, index.high) == ("integers", "int64", 0, 4)
    assert (n.kind, n.literal, n.dtype) == ("literal", "2.5", "")


@pytest.mark.parametrize(
    ("drawn", "kind", "low", "high"),
    [
        ("torch.rand(64, 64)", "uniform", 0.0, 1.0),
        ("torch.rand(64, 64) * 4 - 1", "uniform", -1.0, 3.0),
        ("torch.randn(64, 64)", "normal", 0.0, 0.0),
        ("torch.randint(0, 10, (400,)).float()", "integers", 0.0, 10.0),
        ("torch.randperm(12).float().view(3, 4)", "integers", 0.0, 12.0),  # whole in each draw, and another each time
    ],
)
def test_distribution_of_inputs_is_recognised(examine, drawn, kind, low, high):
    (spec,) = examine(reference("return x * 2 + 1", inputs=drawn)).inputs
    assert (spec.kind, spec.low) == (kind, low)
    assert spec.high == pytest.approx(high, abs=1e-9)


@pytest.mark.parametrize(
    ("drawn", "dtype", "values"),
    [
        ("torch.randint(0, 2, (400,)).float()", "float32", (0.0, 1.0)),
        ("torch.randint(0, 2, (8, 9)) * 2.0 - 1.0", "float32", (-1.0, 1.0)),
        ("torch.randn(50).sign().half()", "float16", (-1.0, 1.0)),
        ("torch.randint(0, 2, (400,)) * 2 - 1", "int64", (-1, 1)),
        ("torch.randint(0, 2, (12,)) * 2.0 - 1.0", "float32", (-1.0, 1.0)),
    ],
)
def test_values_that_are_all_there_are_stay_all_there_are(examine, drawn, dtype, values):
    (spec,) = examine(reference("return x * 2 + 1", inputs=drawn)).inputs
    assert (spec.kind, spec.dtype) == ("choice", dtype)
    assert repr(ast.literal_eval(spec.literal)) == repr(values)


@pytest.mark.parametrize(
    ("drawn", "kind"),
    [
        (lambda: torch.randperm(20), "permutation"),
        (lambda: torch.arange(20), "integers"),  # a kernel that takes positions for granted must not pass
        (lambda: torch.tensor([0, 3, 4, 9, 20]), "offsets"),
        (lambda: torch.tensor([0, 3, 3, 9, 20]), "segments"),
        (lambda: torch.randint(0, 5, (40,)).sort().values, "segments"),
        (lambda: torch.randint(0, 5, (40,)), "integers"),
        (lambda: torch.randint(0, 250, (40,)).byte(), "integers"),  # no difference of bytes is below 0
        (lambda: torch.tensor([-1.0, 1.0]).repeat_interleave(8), "choice"),
        (lambda: torch.cat([torch.randint(0, 10, (200,)), torch.full((8,), -100)]), "choice"),
    ],
)
def test_order_among_integers_is_kept(drawn, kind):
    torch.manual_seed(0)
    (spec,) = infer_specs(torch.nn.Identity(), [[drawn()] for _ in range(3)])
    assert spec["kind"] == kind


@pytest.mark.parametrize(
    ("drawn", "kind", "structure"),
    [
        (lambda: torch.randn(9, 9).triu(), "normal", "upper"),
        (lambda: torch.rand(3, 9, 9).tril(), "uniform", "lower"),
        (lambda: torch.randn(9, 9).triu().tril(), "uniform", "diagonal"),
        (lambda: (a := torch.randn(9, 9)) + a.T, "normal", "symmetric"),
        (lambda: torch.randn(9, 9), "normal", ""),
        (lambda: torch.randn(7, 9).triu(), "normal", ""),
        (lambda: torch.ones(9, 9), "uniform", ""),
    ],
)
def test_structure_of_matrices_is_kept(drawn, kind, structure):
    torch.manual_seed(0)
    (spec,) = infer_specs(torch.nn.Identity(), [[drawn()] for _ in range(3)])
    assert (spec["kind"], spec.get("literal", "")) == (kind, structure)


@pytest.mark.parametrize("kind", SourceKind)
def test_generated_task_without_measure_size_is_dropped(sandbox, kind):
    fixed = reference("return x * self.scale", "self.scale = nn.Parameter(torch.randn(4, 33))")
    found = probe(Draft(kind, "Model", fixed, PROVENANCE), CONFIG, sandbox, 0)
    if kind in (SourceKind.MINED, SourceKind.PAIRED):
        assert found.measure_note.startswith("sizes_are_fixed")
    else:
        assert found.reason == "no_measure_size"


def test_unknown_licence_is_dropped(sandbox):
    for license in ("", "GPL-3.0-only", "LicenseRef-scancode-unknown"):
        provenance = dataclasses.replace(PROVENANCE, license=license)
        draft = Draft(SourceKind.MINED, "model", reference("return F.relu(x)"), provenance)
        assert probe(draft, CONFIG, sandbox, 0).reason == "license"


def test_a_reference_that_drags_a_registry_along_is_dropped(sandbox):
    registry = "".join(f"def unused{number}(x):\n    return x\n\n\n" for number in range(300))
    draft = Draft(SourceKind.MINED, "model", registry + reference("return F.relu(x)"), PROVENANCE)
    rejected = probe(draft, CONFIG, sandbox, 0)
    assert (rejected.reason, rejected.detail.endswith(" lines")) == ("too_long", True)


def test_same_task_from_any_process_in_any_order(sandbox, examine):
    texts = [FILTERS[name][2] for name in ("run", "parameter", "constant mask")]
    first = [examine(text) for text in texts]
    with Sandbox(preload=PRELOAD) as another:
        drafts = [Draft(SourceKind.MINED, "model", text, PROVENANCE) for text in reversed(texts)]
        second = [probe(draft, CONFIG, another, 0) for draft in drafts]
    assert first == second[::-1]
