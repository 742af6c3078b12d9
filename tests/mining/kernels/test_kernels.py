"""From a repository to rows of kernels, their tasks, and what the verifier makes of the kernels that people wrote."""

import pytest

from musadata.config import BackendType, SourceConfig, SourceType, TasksConfig, VerifierConfig
from musadata.mining.kernels.kernel_tasks import check_licenses, with_task
from musadata.mining.miner import Miner
from musadata.records import ErrorClass, KernelDraft, Reject, SourceKind, Task
from musadata.sandbox import Sandbox
from musadata.sources import open_source
from musadata.tasks.probe import PRELOAD, probe
from musadata.verifier import Verifier
from tests.mining.kernels.kernel_repository import FILES

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(preload=(*PRELOAD, "musadata.mining.search")) as opened:
        yield opened


def mine(source, sandbox):
    miner = Miner(source)
    return [item for unit in source.units() for item in miner.drafts(unit, sandbox)]


@pytest.fixture(scope="module")
def mined(sandbox, tmp_path_factory):
    """Everything that the source makes of the repository."""
    root = tmp_path_factory.mktemp("repository") / "rowops"
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    source = open_source(SourceConfig(SourceType.DIRECTORY, path=str(root)), seed=5)
    return mine(source, sandbox)


@pytest.fixture(scope="module")
def kernels(mined):
    return {(item.kernel.wrapper, item.kernel.binding): item for item in mined if isinstance(item, KernelDraft)}


@pytest.fixture(scope="module")
def tasks(kernels, sandbox):
    found = {
        key: probe(item.draft, TasksConfig(), sandbox, 5) for key, item in kernels.items() if item.draft is not None
    }
    known = found.pop(("SwishFunction", "swish"))
    assert isinstance(known, Reject) and known.reason == "benchmark"  # a problem of KernelBench
    assert all(isinstance(task, Task) for task in found.values()), found
    return found


@pytest.fixture(scope="module")
def verdicts(kernels, tasks):
    config = VerifierConfig(backend=BackendType.EMULATED, input_sets=2, policy="audit")
    with Verifier(config) as verifier:
        return {key: verifier.verify(task, kernels[key].kernel.candidate) for key, task in tasks.items()}


def test_every_wrapper_and_binding_is_a_row(kernels):
    assert set(kernels) == {
        ("cube", "cube_cuda"),
        ("scale_shift", "scale_shift"),
        ("FusedScaledSwish", "scale_shift"),
        ("SwishFunction", "swish"),
        ("SwishFunction", "swish_backward"),
        ("fast_square", "square"),
        ("halve", "halve"),
    }
    forms = {item.kernel.binding_form for item in kernels.values()}
    assert forms == {"pybind11", "torch_library", "load_inline"}


def test_a_row_holds_the_native_code_that_is_needed_and_no_more(kernels):
    row = kernels["scale_shift", "scale_shift"].kernel
    text = "\n".join(file.text for file in row.native)
    assert "// One thread an element." in text
    for needed in (
        "scale_shift_kernel",
        "scale_shift_cuda",
        "kThreads",
        "never_called",
        "swish_kernel",
        "unused_helper",
    ):
        assert (needed in text) is (needed in ("scale_shift_kernel", "scale_shift_cuda", "kThreads")), needed
    assert row.binding_source.count("m.def(") == 1
    assert [file.path for file in row.native] == ["csrc/bind.cpp", "csrc/rows.cu", "csrc/rows.h"]
    assert {file.license for file in row.native} == {"MIT"}
    assert row.wrapper_source.startswith("def scale_shift(x, scale, shift):")
    assert row.provenance.path == "rowops/ops.py"


def test_a_backward_kernel_has_the_gradient_of_the_plain_version_as_its_task(kernels, tasks):
    key = "SwishFunction", "swish_backward"
    assert kernels[key].kernel.equivalent == "the gradient of swish_reference of rowops/plain.py, by its name"
    x, grad_output = tasks[key].inputs
    assert x.shape == grad_output.shape
    assert "torch.autograd.grad(output, x, grad_output)[0]" in tasks[key].reference
    assert "swish_backward" in kernels[key].kernel.candidate


def test_a_wrapper_with_a_plain_version_becomes_a_task_of_its_own_kind(kernels, tasks):
    task = tasks["halve", "halve"]
    assert task.source_kind is SourceKind.PAIRED
    assert task.provenance.path == "rowops/plain.py"
    assert "0.5 * x + 1.0" in task.reference
    row = with_task(kernels["halve", "halve"].kernel, task)
    assert (row.task_id, row.split) == (task.task_id, task.split)
    assert row.equivalent == "halve_torch of rowops/plain.py, by its name"


def test_inputs_are_those_of_the_repositorys_tests(tasks):
    x, scale, shift = tasks["scale_shift", "scale_shift"].inputs
    assert len(x.shape) == 2
    assert scale.shape == shift.shape == x.shape[1:]


def test_native_code_is_left_out_of_references_and_gradients_out_of_candidates(kernels, tasks):
    for key, task in tasks.items():
        assert "load_inline" not in task.reference
        assert ("swish_backward" in kernels[key].kernel.candidate) is (key[1] == "swish_backward")


def test_all_kernels_but_the_wrong_one_are_accepted(verdicts):
    wrong = {key: verdict for key, verdict in verdicts.items() if not verdict.accepted}
    assert {key: verdict.error_class for key, verdict in wrong.items()} == {
        ("fast_square", "square"): ErrorClass.CORRECTNESS
    }
    assert len(verdicts) == 6


def test_a_licence_that_is_not_allowed_is_a_reject(kernels):
    row = kernels["halve", "halve"].kernel
    assert check_licenses(row, ("MIT",)) is None
    reject = check_licenses(row, ("Apache-2.0",))
    assert isinstance(reject, Reject)
    assert (reject.dataset, reject.reason, reject.detail) == ("kernels", "license", "MIT of csrc/registered.cu")


def test_kernels_are_left_alone_where_the_config_says_so(sandbox, tmp_path):
    for name in ("rowops/cubes.py", "LICENSE"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(FILES[name])
    source = open_source(SourceConfig(SourceType.DIRECTORY, path=str(tmp_path), kernels=False), seed=5)
    assert not mine(source, sandbox)
