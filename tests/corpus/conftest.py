"""Rows of every kind, made from their types alone, and a small corpus with all three stages."""

import dataclasses
import hashlib
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import strategies as st

from musadata.config import Config, SourceConfig, SourceType
from musadata.corpus.datasets import DATASETS
from musadata.corpus.funnel import Funnel
from musadata.corpus.manifest import create_corpus
from musadata.corpus.publish import publish
from musadata.corpus.views import preference_rows, rft_rows, rl_rows, sft_rows
from musadata.records import (
    Annotation,
    Bound,
    Candidate,
    ErrorClass,
    Finding,
    InputSpec,
    Kernel,
    Message,
    MutantResult,
    NativeSource,
    OperatorFamily,
    Provenance,
    Question,
    QuestionTopic,
    ReasoningStep,
    Reject,
    SourceKind,
    Task,
    TensorFact,
    Trace,
    Trajectory,
    Turn,
    UnitTest,
    VerifyStage,
)
from musadata.rows import content_id
from musadata.sampling.ports import port_candidates
from musadata.storage.commits import ensure_commit, input_hashes, require_commit
from musadata.storage.shards import Shard, ShardWriter, SplitWriter, deal
from musadata.teacher.prompts import STEPS
from musadata.training_rows import ChatMessage, RetryRow, RetryState

INT64 = st.integers(-(2**63), 2**63 - 1)
PLAIN = {str: st.text(max_size=40), int: INT64, float: st.floats(allow_nan=False), bool: st.booleans()}


def strategy_for(kind: typing.Any) -> st.SearchStrategy:
    """Any value of a row's type, as far as Parquet can hold it."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return st.lists(strategy_for(arguments[0]), max_size=3).map(tuple)
    if origin in (typing.Union, types.UnionType):
        return st.none() | strategy_for(next(a for a in arguments if a is not type(None)))
    if dataclasses.is_dataclass(kind):
        return st.builds(kind, **{name: strategy_for(hint) for name, hint in typing.get_type_hints(kind).items()})
    if issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    return PLAIN[kind]


@pytest.fixture(scope="session")
def rows_strategy() -> Callable[[type], st.SearchStrategy]:
    return lambda kind: st.lists(strategy_for(kind), max_size=4)


def sample(kind: typing.Any, key: str) -> typing.Any:
    """One plausible row, a function of `key` alone."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple(sample(arguments[0], f"{key}/{i}") for i in range(number % 3))
    if origin in (typing.Union, types.UnionType):
        return None if number % 3 == 0 else sample(next(a for a in arguments if a is not type(None)), key)
    if dataclasses.is_dataclass(kind):
        return kind(**{name: sample(hint, f"{key}.{name}") for name, hint in typing.get_type_hints(kind).items()})
    if issubclass(kind, StrEnum):
        return list(kind)[number % len(kind)]
    return {str: f"text {key}", int: number % 100, float: number % 100 / 7, bool: number % 2 == 0}[kind]


@pytest.fixture(scope="session")
def sample_rows() -> Callable[[type, int], list]:
    """`sample_rows(kind, count)`: plausible rows, the same in every process."""
    return lambda kind, count, salt="": [sample(kind, f"{kind.__name__}{salt}{index}") for index in range(count)]


REFERENCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * {scale}, dim=-1)


def get_inputs():
    return [torch.randn(4, {width})]


def get_init_inputs():
    return []
"""

CANDIDATE = """import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r\"\"\"
__global__ void softmax_kernel(const float* x, float* y, int total) {{
    __shared__ float tile[8][33];
{body}
}}
\"\"\"

kernel = load_inline("k{number}", cpp_sources="", cuda_sources=cuda_source, functions=["f"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.f(x)
"""

# What accepted programs do, each unlike the others; a failed one lacks the first line.
BODIES = (
    """    __shared__ float partial[256];
    partial[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0];""",
    """    if (blockIdx.x * blockDim.x + threadIdx.x >= total) return;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = expf(x[i]);""",
    """    const int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        const float4 value = reinterpret_cast<const float4*>(x)[i];
        y[4 * i] = expf(value.x) + expf(value.y) + expf(value.z) + expf(value.w);
    }""",
    """    float sum = x[blockIdx.x * 32 + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 == 0) y[blockIdx.x] = sum;""",
)


# One task is of a repository of its own.
ORIGINS = (
    ("package:torch", "torch", "2.15.0"),
    ("git:https://github.com/someone/layers", "https://github.com/someone/layers", "0f" * 20),
)


def make_task(number: int) -> Task:
    family = list(OperatorFamily)[number % 5]
    return Task(
        task_id=f"task-{number:04d}",
        source_kind=SourceKind.MINED if number % 2 else SourceKind.NNSMITH,
        name=f"Softmax{number}",
        reference=REFERENCE.format(scale=number, width=number + 3),
        operators=("aten.mul.Tensor", "aten._softmax.default"),
        operator_family=family,
        level=2,
        inputs=(InputSpec("x", "normal", "float32", (4, number + 3)),),
        provenance=Provenance(*ORIGINS[number == 2], "nn/modules/x.py", f"{number}-9", "BSD-3-Clause"),
        split="test" if number % 7 == 6 else "train",
        text_signature=(1, 2, number),
        graph_fingerprint=f"{number:08x}",
    )


def make_annotation(task: Task, grounded: bool = True) -> Annotation:
    def trace(width: int) -> Trace:
        inputs = (InputSpec("x", "normal", "float32", (4, width)),)
        facts = TensorFact(name="x", role="input", operator="", shape=(4, width), stride=(width, 1), dtype="float32")
        return Trace(inputs, (facts,), task.operators, 40 * width, 32 * width, 1.25, Bound.MEMORY)

    return Annotation(
        annotation_id=task.task_id.replace("task", "annotation"),
        task_id=task.task_id,
        traces=(trace(task.inputs[0].shape[1]), trace(37)),
        reasoning=tuple(ReasoningStep(step, f"What {step} means for {task.name}.") for step in STEPS),
        grounded=grounded,
        ungrounded=() if grounded else ("37",),
        teacher="compiler",
        split=task.split,
        schedule="one thread a row",
    )


def make_kernel(task: Task) -> Kernel:
    return Kernel(
        kernel_id=task.task_id.replace("task", "kernel"),
        wrapper="softmax",
        wrapper_kind="function",
        wrapper_source="def softmax(x):\n    return _C.softmax(x)\n",
        extension="rows._C",
        binding="softmax",
        binding_form="pybind11",
        binding_source='PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n    m.def("softmax", &softmax);\n}',
        host="softmax",
        kernels=("softmax_kernel",),
        native=(NativeSource("csrc/rows.cu", "__global__ void softmax_kernel() {}\n", "MIT"),),
        musa=(),
        provenance=Provenance("git:rows", "", "0" * 40, "rows/ops.py", "3-4", "MIT"),
        equivalent="softmax_ref of rows/ops.py, by its name",
        task_id=task.task_id,
        candidate=CANDIDATE.format(number=0, body=BODIES[0]),
        split=task.split,
    )


def converse(task: Task, sample: int, outcomes: list[str]) -> tuple[list[Candidate], Trajectory]:
    """One conversation whose answers end as `outcomes` say: "accepted" or an error class."""
    candidates: list[Candidate] = []
    turns: list[Turn] = []
    for turn, outcome in enumerate(outcomes, 1):
        accepted = outcome == "accepted"
        body = BODIES[sample % len(BODIES)]
        lines = body if accepted else "\n".join([*body.splitlines()[1:], f"    // {turn}"])
        source = CANDIDATE.format(number=sample, body=lines)
        candidates.append(
            Candidate(
                candidate_id=content_id("candidate", task.task_id, sample, turn),
                task_id=task.task_id,
                sample=sample,
                turn=turn,
                parent_id=candidates[-1].candidate_id if candidates else "",
                source=source,
                teacher="compiler",
                schedule="one thread a row",
                fault="" if outcomes[-1] == "accepted" else "missing bounds check",
                accepted=accepted,
                kept=accepted,
                error_class=None if accepted else ErrorClass(outcome),
                stage=VerifyStage.COMPARE,
                backend="emulated",
                test_share=float(accepted),
                speedup=None,
                reward=1.0 if accepted else -1.0,
                structure=f"structure {sample % 2}",
                findings=() if accepted else (Finding("values", "differs", 3, "", "[0, 1]", "1.0", "2.0"),),
                feedback="" if accepted else "Output 0 differs at [0, 1].",
                split=task.split,
            )
        )
        question = "Output 0 differs at [0, 1]." if turns else f"Write {task.name} in CUDA."
        turns.append(Turn(question, f"Sample {sample}.\n```python\n{source}```"))
    success = outcomes[-1] == "accepted"
    return candidates, Trajectory(
        trajectory_id=content_id("trajectory", task.task_id, sample),
        task_id=task.task_id,
        messages=_messages(turns, success),
        candidates=tuple(candidate.candidate_id for candidate in candidates),
        outcomes=tuple(outcomes),
        rewards=tuple(candidate.reward for candidate in candidates),
        fault=candidates[0].fault,
        success=success,
        trajectory_return=float(success),
        teacher="compiler",
        split=task.split,
        turns=tuple(turns),
    )


def _messages(turns: list[Turn], success: bool) -> tuple[Message, ...]:
    said = "\n\n".join(text for turn in turns for text in (turn.question, turn.answer))
    said = said.removesuffix(turns[-1].answer) if success else said
    answer = (Message("assistant", turns[-1].answer, True),) if success else ()
    return (Message("system", "You write CUDA.", False), Message("user", said, False), *answer)


@pytest.fixture(scope="session")
def make_row() -> types.SimpleNamespace:
    """`make_row.task(n)`, `.annotation(task)`, `.conversation(task, sample, outcomes)`."""
    return types.SimpleNamespace(task=make_task, annotation=make_annotation, conversation=converse)


CONFIG = Config(sources=(SourceConfig(SourceType.PACKAGE, name="torch"),), seed=5, shards=2)
CONVERSATIONS = (["accepted"], ["correctness", "accepted"], ["compile", "runtime", "correctness"], ["accepted"])


def build_corpus(path: str, tasks: int = 14) -> None:
    """A whole corpus, as the stages would leave it."""
    create_corpus(path)
    for shard in deal(CONFIG.shards):
        mine = [make_task(number) for number in range(tasks) if number % shard.count == shard.index]
        kernels = [make_kernel(task) for task in mine[:1]]
        rejects = [_reject("nondeterministic", shard)]
        _write_stage(path, "stage1", shard, (), {"tasks": mine, "kernels": kernels, "rejects": rejects}, tasks)
        first = input_hashes([require_commit(path, "stage1", shard)])
        annotations = [make_annotation(task, grounded=task.name != "Softmax4") for task in mine]
        _write_stage(path, "stage2", shard, first, {"annotations": annotations, "rejects": []}, len(mine))
        second = (*first, *input_hashes([require_commit(path, "stage2", shard)]))
        _write_stage(path, "stage3", shard, second, _sampled(mine, annotations), len(mine) * 3)
    publish(path, CONFIG, shards=CONFIG.shards)


def _sampled(tasks: list[Task], annotations: list[Annotation]) -> dict[str, list]:
    made = (
        "candidates",
        "trajectories",
        "unit_tests",
        "questions",
        "retries",
        "ports",
        "sft",
        "rft",
        "preferences",
        "rl",
    )
    rows: dict[str, list] = {name: [] for name in made}
    for task, annotation in zip(tasks, annotations, strict=True):
        played = [converse(task, sample, outcomes) for sample, outcomes in enumerate(CONVERSATIONS)]
        candidates = [candidate for some, _ in played for candidate in some]
        trajectories = [trajectory for _, trajectory in played]
        rows["candidates"] += candidates
        rows["trajectories"] += trajectories
        rows["unit_tests"].append(_unit_test(task, candidates))
        rows["questions"].append(_question(task))
        rows["retries"].append(_retry(task, candidates))
        rows["ports"] += port_candidates(task, candidates, 1)
        rows["sft"] += sft_rows(task, annotation, candidates, trajectories)
        rows["rft"] += rft_rows(task, annotation, candidates, trajectories)
        rows["preferences"] += preference_rows(task, annotation, candidates, trajectories)
        rows["rl"] += rl_rows(task, annotation, candidates, trajectories)
    return rows


def _unit_test(task: Task, candidates: list[Candidate]) -> UnitTest:
    right, wrong = (next(one for one in candidates if one.accepted is accepted) for accepted in (True, False))
    mutant = MutantResult(wrong.candidate_id, "off_by_one", "", "test_values", "1 != 2")
    source, names = "def test_values(reference, candidate): ...\n", ("test_values",)
    about = (f"unit_test-{task.task_id}", task.task_id, 0, source, names, (right.candidate_id,), (mutant,), 1.0)
    return UnitTest(*about, "emulated", task.operator_family, "compiler", task.split)


def _retry(task: Task, candidates: list[Candidate]) -> RetryRow:
    wrong = next(one for one in candidates if not one.accepted)
    prompt = (
        ChatMessage("user", "Write it."),
        ChatMessage("assistant", wrong.source),
        ChatMessage("user", "Repair it."),
    )
    about = (f"retry-{task.task_id}", task.task_id, wrong.candidate_id, RetryState.SOLVED, 1, prompt)
    rest = (ErrorClass.CORRECTNESS, wrong.feedback, task.operator_family, task.provenance.license, task.split)
    return RetryRow(*about, *rest)


def _question(task: Task) -> Question:
    about = (f"question-{task.task_id}", task.task_id, "", QuestionTopic.TENSORS, "x: (2, 3)", "Elements?", "6")
    return Question(*about, task.operator_family, task.provenance.license, "compiler", task.split)


def _reject(reason: str, shard: Shard) -> Reject:
    return Reject("tasks", "probe", reason, "outputs differ", f"nn/modules/x.py:{shard.index}")


def _write_stage(path: str, stage: str, shard: Shard, inputs: tuple, rows: dict[str, list], came_in: int) -> None:
    def work():
        outputs = []
        for name, some in rows.items():
            kind = DATASETS[name].kind
            writer = (
                SplitWriter(path, name, shard, kind)
                if DATASETS[name].split
                else ShardWriter(path, name, shard, kind, name=f"rejects-{stage}" if name == "rejects" else "")
            )
            with writer:
                for row in some:
                    writer.write(row)
            outputs += writer.outputs
        funnel = Funnel("step one", "step two")
        funnel.came_in("step one", came_in)
        funnel.went_on("step one", came_in - 1)
        funnel.dropped("step one", "nondeterministic")
        return outputs, funnel.counts()

    ensure_commit(path, stage, shard, "digest", inputs, work)


@pytest.fixture(scope="session")
def whole_corpus(tmp_path_factory) -> str:
    """A corpus with all stages; tests do not change it."""
    path = str(tmp_path_factory.mktemp("whole") / "corpus")
    build_corpus(path)
    return path


@pytest.fixture
def own_corpus(tmp_path) -> Path:
    """A corpus with all stages for one test to harm."""
    build_corpus(str(tmp_path / "corpus"), tasks=4)
    return tmp_path / "corpus"


@pytest.fixture(scope="session")
def build() -> Callable[..., None]:
    """`build(path, tasks)`: a whole corpus wherever the test wants it."""
    return build_corpus
