"""The rows that stages exchange.

Every row is a frozen dataclass of plain values, tuples and other such dataclasses; `musadata.rows` turns each into
one Arrow schema, one JSON Schema and back. Names may be added, not renamed: trainers read them.
An id is a hash of the row's content and of what produced it.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any

from musadata.columns import (
    Backend,
    Family,
    FinishReason,
    License,
    Logprobs,
    Policy,
    SchemaVersion,
    ServedModel,
    Server,
    Split,
    TaskId,
    Teacher,
    Thoughts,
)
from musadata.row_enums import (
    Bound,
    ClaimOutcome,
    ErrorClass,
    OperatorFamily,
    PortVerdict,
    QuestionTopic,
    SourceKind,
    VerifyStage,
)

SCHEMA_VERSION = 1
HUMAN = "human"  # the teacher of candidates that people wrote and that were mined together with their task


@dataclass(frozen=True)
class InputSpec:
    """One argument of `forward`: enough to draw fresh values of it.

    `kind` is `normal` (`low` and `high` are one deviation from the mean; 0 and 0 stand for mean 0 and deviation 1),
    `uniform` (in [low, high)), `integers` (in [low, high)), `offsets` (integers rising from `low`
    to `high` - 1), `segments` (the same, but some are equal), `permutation` (as many integers as it has elements, from
    `low`, each once), `choice` (one of the values in the tuple that `literal` spells), `own` (what `get_inputs` of the
    reference that `literal` spells returns at the position `low`: of a reference that comes alone), `bool`, or
    `literal` for an argument that is not a tensor, whose Python expression then stands in `literal`; with a range it
    may be another number. Integers and choices may have a
    floating dtype: labels, signs and masks often do. Normal and uniform matrices that are always `diagonal`, `upper` or
    `lower` triangular, or `symmetric`, say so in `literal`.
    """

    name: Annotated[str, "Name of the argument."]
    kind: Annotated[
        str,
        "How values are drawn: `normal`, `uniform`, `integers`, `offsets`, `segments`, `permutation`, `choice`, "
        "`own`, `bool`, `literal`.",
    ]
    dtype: Annotated[str, "torch's name without the prefix (`float32`); empty for a literal."]
    shape: Annotated[tuple[int, ...], "Sizes of the dimensions."]
    low: Annotated[float, "Lower end of the range; mean minus one deviation for `normal`."] = 0.0
    high: Annotated[float, "Upper end of the range, exclusive; mean plus one deviation for `normal`."] = 0.0
    literal: Annotated[
        str,
        "Python expression of the values, of a constraint (`diagonal`, `upper`, …), or of the argument itself.",
    ] = ""


@dataclass(frozen=True)
class Provenance:
    """The line of code that a task came from."""

    origin: Annotated[str, "The source: `package:torch`, `git:https://…`, `nnsmith`, `directory:…`."]
    repository: Annotated[str, "Name or address of the repository or package."]
    revision: Annotated[str, "Commit or release."]
    path: Annotated[str, "File inside it."]
    lines: Annotated[str, "First and last line, 1-based and inclusive (`120-164`); empty where there is no file."]
    license: Annotated[str, "SPDX expression of the file's licence."]
    packages: Annotated[tuple[str, ...], "Releases of other projects that hold a part of it (`timm==1.0.9`)."] = ()


@dataclass(frozen=True)
class Draft:
    """A possible task, before anything was executed: KernelBench's form plus where it came from.

    `reference` defines `Model`, `get_inputs()` and `get_init_inputs()`.
    """

    source_kind: SourceKind
    name: str  # the class or graph it was made from, for people
    reference: str
    provenance: Provenance


@dataclass(frozen=True)
class NativeSource:
    """One C++ or CUDA file, without the functions that the kernel at hand does not need."""

    path: Annotated[str, "File inside the repository."]
    text: Annotated[str, "The file, without functions that the kernel does not need."]
    license: Annotated[str, "SPDX expression of the file's licence."]


@dataclass(frozen=True)
class Kernel:
    """CUDA kernels that people wrote, with the Python that calls them: one row for each wrapper and binding.

    A kernel that exists for MUSA as well is a row even if no Python calls it; its wrapper and binding are empty then.
    """

    kernel_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    wrapper: Annotated[str, "The class or function on top level that uses the kernels."]
    wrapper_kind: Annotated[str, "`function`, `class`, `autograd` or `module`."]
    wrapper_source: Annotated[str, "The wrapper's Python."]
    extension: Annotated[str, "The native module, by the name under which it is built."]
    binding: Annotated[str, "The name that Python sees."]
    binding_form: Annotated[str, "`pybind11`, `torch_library` or `load_inline`."]
    binding_source: Annotated[str, "The statements that bind it; empty where `load_inline` writes them."]
    host: Annotated[str, "The host function that launches the kernels."]
    kernels: Annotated[tuple[str, ...], "Names of the kernels."]
    native: Annotated[tuple[NativeSource, ...], "The C++ and CUDA files."]
    musa: Annotated[tuple[NativeSource, ...], "The same kernels for MUSA, where the repository holds both."]
    provenance: Annotated[Provenance, "Where the wrapper stands; its licence is that of all files of the row."]
    equivalent: Annotated[str, "Where its PyTorch equivalent stands and what speaks for it; empty if none was found."]
    task_id: Annotated[str, "The task of its pure-PyTorch equivalent; empty where the repository holds none that runs."]
    candidate: Annotated[str, "What the verifier judges: a program made of this code for that task; empty without one."]
    split: Split


@dataclass(frozen=True)
class KernelDraft:
    """A kernel before its task, if it may get one, was executed."""

    kernel: Kernel
    draft: Draft | None = None


@dataclass(frozen=True)
class Task:
    """A PyTorch reference that has been executed and passed every filter.

    `inputs` are the proof sizes: small, for every backend, and what proof sets are made from. `measure` are the same
    arguments at the measure size, which keeps a data-centre GPU busy: only shapes differ, and ranges that follow from
    sizes, such as bounds of indices. Where the sizes cannot be scaled, `measure` is empty and `measure_note` says why.
    """

    task_id: Annotated[str, "Hash of the reference and what it was made from."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    source_kind: Annotated[
        SourceKind,
        "Where it came from: mined, paired with a kernel, generated, composed, or one operator.",
    ]
    name: Annotated[str, "The class or graph that it was made from, for people."]
    reference: Annotated[
        str,
        "Python that defines `Model`, `get_inputs()` and `get_init_inputs()`, in KernelBench's form.",
    ]
    operators: Annotated[tuple[str, ...], "Dispatched aten operators, in order (`aten.mul.Tensor`)."]
    operator_family: Annotated[
        OperatorFamily, "The kind of work that dominates it; the paper balances its mixture over these."
    ]
    level: Annotated[int, "KernelBench's scale: 1 a single operator, 2 a few fused, 3 a whole block."]
    inputs: Annotated[tuple[InputSpec, ...], "Arguments of `forward` at proof size."]
    provenance: Annotated[Provenance, "The line of code that it came from."]
    split: Split
    text_signature: Annotated[tuple[int, ...], "MinHash over shingles of the source."]
    graph_fingerprint: Annotated[str, "Hash of the traced graph, shapes abstracted."]
    measure: Annotated[
        tuple[InputSpec, ...],
        "The same arguments at measure size; empty where sizes cannot be scaled.",
    ] = ()
    measure_note: Annotated[str, "Why `measure` is empty."] = ""

    def columns(self) -> dict[str, Any]:
        """The columns that all rows made of the task have in common."""
        return {"task_id": self.task_id, "license": self.provenance.license, "split": self.split}


@dataclass(frozen=True)
class TensorFact:
    """One tensor of a trace. `role`: input, parameter, buffer, intermediate, output."""

    name: Annotated[str, "Name in the trace."]
    role: Annotated[str, "`input`, `parameter`, `buffer`, `intermediate` or `output`."]
    operator: Annotated[str, "The aten operator that made it; empty for inputs, parameters and buffers."]
    shape: Annotated[tuple[int, ...], "Sizes of the dimensions."]
    stride: Annotated[tuple[int, ...], "Strides in elements."]
    dtype: Annotated[str, "torch's name without the prefix."]
    operands: Annotated[tuple[str, ...], "Names of the tensors that the operator was given, in order."] = ()
    arguments: Annotated[str, "Its other arguments (`dim=[1], keepdim=False`)."] = ""


@dataclass(frozen=True)
class Trace:
    """Facts about one execution of a reference on one set of input shapes."""

    inputs: Annotated[tuple[InputSpec, ...], "The arguments."]
    tensors: Annotated[tuple[TensorFact, ...], "Every tensor of the run."]
    operators: Annotated[tuple[str, ...], "Dispatched aten operators, in order."]
    flops: Annotated[int, "Floating-point operations."]
    bytes: Annotated[int, "Least traffic: what is read of inputs and parameters once, every output written once."]
    intensity: Annotated[float, "`flops` / `bytes`."]
    bound: Annotated[Bound, "What limits it on the roofline."]


@dataclass(frozen=True)
class Usage:
    """Tokens of one request to a language model, as its server counts them; zero where nothing was counted."""

    prompt_tokens: Annotated[int, "Tokens of the request, `cached_tokens` included."] = 0
    completion_tokens: Annotated[int, "Tokens of the reply, `reasoning_tokens` included."] = 0
    reasoning_tokens: Annotated[int, "Tokens of the reply before its text."] = 0
    cached_tokens: Annotated[int, "Tokens of the request that the server had in its cache."] = 0


NO_USAGE = Usage()
Asked = Annotated[Usage, "Tokens of the request, as the server counts them; 0 where nothing was counted."]


@dataclass(frozen=True)
class ReasoningStep:
    """One of the six steps: see `musadata.teacher.prompts.STEPS`."""

    step: Annotated[str, "Which of the six steps: see `musadata.teacher.prompts.STEPS`."]
    text: Annotated[str, "What it says."]


@dataclass(frozen=True)
class Claim:
    """A sentence of an analysis, with what it claims as an expression over the facts: see docs/grounding.md."""

    step: Annotated[str, "The step that the sentence is of."]
    sentence: Annotated[str, "The sentence, word for word."]
    expression: Annotated[str, "What it claims, as an expression over the facts."]
    outcome: Annotated[ClaimOutcome, "What the facts say of it."]
    why: Annotated[str, "The facts that contradict it, or why it is not checked."] = ""


@dataclass(frozen=True)
class Annotation:
    """What is known about a task before anyone writes a kernel for it.

    `declared` holds its trace at the declared size, made without memory: the size that texts are about. It is empty
    where that size is the first of `traces`, which are on the proof sizes, two or more of them.
    """

    annotation_id: Annotated[str, "Hash of the task, the teacher and the reasoning."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    traces: Annotated[tuple[Trace, ...], "Facts on two or more sets of shapes."]
    reasoning: Annotated[tuple[ReasoningStep, ...], "The six steps."]
    grounded: Annotated[bool, "Whether the traces contradict nothing in it."]
    ungrounded: Annotated[tuple[str, ...], "Claims that the traces contradict."]
    teacher: Teacher
    split: Split
    thoughts: Thoughts = ""
    finish_reason: FinishReason = ""
    logprobs: Logprobs = ()
    usage: Asked = NO_USAGE
    server: Server = ""
    served_model: ServedModel = ""
    checked: Annotated[float, "Share of the reasoning's sentences that have a claim which facts decide."] = 0.0
    claims: Annotated[tuple[Claim, ...], "Claims of the reasoning's sentences; what has none is prose."] = ()
    schedule: Annotated[
        str,
        "Of the program that the reasoning plans, as in `candidates`; empty if the teacher does not say.",
    ] = ""
    license: License = ""
    declared: Annotated[
        tuple[Trace, ...], "Facts at the declared size; empty where that is the first of `traces`."
    ] = ()

    @property
    def told(self) -> tuple[Trace, ...]:
        """The traces as texts and claims number them: the declared size first, then the proof sizes."""
        return (*self.declared, *self.traces)


@dataclass(frozen=True)
class Finding:
    """One reason in a verdict, with its evidence."""

    rule: Annotated[str, "Name of the rule or check: see `musadata policies`."]
    message: Annotated[str, "What was found."]
    line: Annotated[int, "Line in the candidate's source, 1-based; 0 if unknown."] = 0
    operator: Annotated[str, "The aten operator that was called."] = ""
    index: Annotated[str, "Where results differ."] = ""
    expected: Annotated[str, "The reference's value there."] = ""
    got: Annotated[str, "The candidate's value there."] = ""
    condition: Annotated[
        str,
        "Of the inputs on which it was found, as in `facts.conditions`; empty where it does not depend on inputs.",
    ] = ""


@dataclass(frozen=True)
class ConditionFact:
    """On how many input sets of one kind a candidate is right: "declared" for the task's own shapes and plain values,
    "shapes" for its other shapes, else the name of a variant of the values, such as "scaled by -3".
    Sets on which zeros would pass do not count."""

    condition: Annotated[str, "`declared`, `shapes`, or the name of a variant of the values (`scaled by -3`)."]
    passed: Annotated[int, "Input sets on which the candidate is right."]
    total: Annotated[int, "Input sets that were tried."]


@dataclass(frozen=True)
class Facts:
    """What was measured of a candidate, each apart, whatever a policy makes of it."""

    compiles: Annotated[
        bool | None,
        "Null where no compiler was asked, since running the program would not be safe.",
    ] = None
    runs: Annotated[
        bool | None,
        "Whether each call on the declared inputs ends without an exception or a fault; null if it was not run.",
    ] = None
    right: Annotated[
        bool | None,
        "Whether results are right on the declared inputs, whatever faults the emulator saw; null if nothing can be "
        "said.",
    ] = None
    conditions: Annotated[tuple[ConditionFact, ...], "How many input sets of each kind it passes."] = ()
    findings: Annotated[
        tuple[Finding, ...],
        "All that speaks against it under some policy, in the order in which verdicts name reasons. What it uses "
        "beside its own kernels is among them, with lines.",
    ] = ()
    stage: Annotated[VerifyStage, "The last stage that was reached."] = VerifyStage.EXTRACT


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a device's work, without the host's share: median, and a 95 % confidence interval for it."""

    name: Annotated[str, "`candidate`, `eager` or `compile`."]
    median_ms: Annotated[float, "Median of the device's work in milliseconds, without the host's share."]
    low_ms: Annotated[float, "Lower end of the median's 95 % confidence interval."]
    high_ms: Annotated[float, "Upper end of the median's 95 % confidence interval."]
    repetitions: Annotated[int, "Calls that were measured."]


@dataclass(frozen=True)
class Verdict:
    """What the verifier found, and what a policy makes of it. The same task, candidate and settings give the same
    verdict. `findings` are the reasons for which `policy` refuses the candidate; `facts` are the same under all."""

    accepted: bool = False
    stage: VerifyStage = VerifyStage.EXTRACT
    error_class: ErrorClass | None = None
    test_share: float = 0.0  # share of randomised tests passed, 0 to 1
    findings: tuple[Finding, ...] = ()
    feedback: str = ""  # for a model to act on; never holds expected tensors
    backend: str = ""
    device: str = ""
    driver: str = ""
    toolchain: str = ""
    seed_policy: str = ""
    version: str = ""
    operators: tuple[str, ...] = ()  # aten operators that the candidate dispatched
    kernels: tuple[str, ...] = ()  # its own kernels that were launched
    timings: tuple[Timing, ...] = ()
    speedup: float | None = None  # eager's median by the candidate's, see `Timing`; None where nothing was timed
    reward: float = 0.0
    own_share: float | None = None  # of the device's time, in own kernels; None where it was not measured
    shrunk: str = ""  # what of a reference that came alone was made smaller to be judged
    policy: str = ""
    facts: Facts = Facts()

    @property
    def is_undecided(self) -> bool:
        """Whether nothing is said about the candidate."""
        return self.error_class is not None and self.error_class.is_undecided


@dataclass(frozen=True)
class Candidate:
    """One answer of a teacher and its verdict."""

    candidate_id: Annotated[str, "Hash of the task, the program and what produced it."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    sample: Annotated[int, "Number of the conversation about the task."]
    turn: Annotated[int, "Number of the answer in it, from 1."]
    parent_id: Annotated[str, "The candidate that this one repairs; empty at turn 1."]
    source: Annotated[str, "The program: Python that defines `ModelNew`."]
    teacher: Teacher
    schedule: Annotated[str, "What the teacher says it did; empty if it does not say."]
    fault: Annotated[str, "The fault that the compiler teacher seeded; empty if none."]
    accepted: Annotated[bool, "Whether the policy accepts it."]
    kept: Annotated[bool, "Whether it was chosen into the diverse set of its task."]
    error_class: Annotated[ErrorClass | None, "Why it was not accepted; null if it was."]
    stage: Annotated[VerifyStage, "The last stage of the verifier that was reached."]
    backend: Backend
    test_share: Annotated[float, "Share of randomised tests passed, 0 to 1."]
    speedup: Annotated[float | None, "Eager's median time by the candidate's; null where nothing was timed."]
    reward: Annotated[float, "Reward of the answer: −1 to 0 where it failed, 1 and more where it was accepted."]
    structure: Annotated[str, "What kind of kernel it is, for the diversity of a task's set."]
    findings: Annotated[tuple[Finding, ...], "The reasons for which the policy refuses it."]
    feedback: Annotated[str, "What the verifier tells the model; never holds expected tensors."]
    split: Split
    thoughts: Thoughts = ""
    finish_reason: FinishReason = ""
    logprobs: Logprobs = ()
    usage: Asked = NO_USAGE
    server: Server = ""
    served_model: ServedModel = ""
    reward_validity: Annotated[float, "Part of `reward` for a program that compiles and is allowed."] = 0.0
    reward_correctness: Annotated[float, "Part of `reward` for right results."] = 0.0
    reward_speed: Annotated[float, "Part of `reward` for a measured speedup."] = 0.0
    timings: Annotated[tuple[Timing, ...], "Times that were measured."] = ()
    device: Annotated[str, "The device that its times were measured on; empty without times."] = ""
    algorithm: Annotated[str, "Techniques that tell its kernels from others (`shared-memory + warp-shuffle`)."] = ""
    chosen_because: Annotated[str, "Why it was kept; empty if it was not."] = ""
    policy: Policy = ""
    facts: Annotated[Facts, "What was measured, the same under all policies."] = Facts()
    license: License = ""
    expected_ms: Annotated[
        float | None,
        "Milliseconds that a cost model of an H100 expects its kernels to take at the declared size; null if unknown.",
    ] = None
    bound_ms: Annotated[
        float | None,
        "Milliseconds of the task's least traffic there, or of its arithmetic at the peak of the unit that its dtypes "
        "name, whichever takes longer; null if unknown.",
    ] = None
    costs: Annotated[str, "What the model counts of each kernel there, as a list in JSON; empty if unknown."] = ""


@dataclass(frozen=True)
class MutantResult:
    """A wrong program on which a unit test was run."""

    candidate_id: Annotated[str, "The wrong program; empty where it is none of the corpus' candidates."]
    fault: Annotated[str, "The fault that the compiler teacher seeded; empty where a teacher was wrong by itself."]
    source: Annotated[str, "The program; empty where `candidate_id` says it."]
    caught_by: Annotated[
        str,
        "The first test function that fails; `import` where the program cannot be imported; empty if none does.",
    ]
    why: Annotated[str, "How it fails."]


@dataclass(frozen=True)
class UnitTest:
    """A unit test for kernels of a task. It passes the reference and accepted candidates, and fails wrong programs.

    `source` defines functions `test_…` with the fixtures `reference` and `candidate`: callables that take and return
    CPU tensors, with equal parameters and buffers.
    """

    unit_test_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    sample: Annotated[int, "Number of the answer about the task."]
    source: Annotated[str, "Python with functions `test_…` that take the fixtures `reference` and `candidate`."]
    functions: Annotated[tuple[str, ...], "Names of the test functions."]
    honest: Annotated[tuple[str, ...], "Candidate ids of the accepted programs that pass it."]
    mutants: Annotated[tuple[MutantResult, ...], "Wrong programs on which it was run."]
    caught_share: Annotated[float, "Share of `mutants` that it catches, 0 to 1."]
    backend: Backend
    operator_family: Family
    teacher: Teacher
    split: Split
    thoughts: Thoughts = ""
    finish_reason: FinishReason = ""
    logprobs: Logprobs = ()
    usage: Asked = NO_USAGE
    server: Server = ""
    served_model: ServedModel = ""
    license: License = ""


@dataclass(frozen=True)
class Question:
    """A question about a task or one of its kernels, with an answer that follows from `facts`."""

    question_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    candidate_id: Annotated[str, "The accepted candidate whose kernel it is about; empty for none."]
    topic: Annotated[QuestionTopic, "What it is about."]
    facts: Annotated[str, "What of the trace or the kernel it can be answered from."]
    question: Annotated[str, "The question."]
    answer: Annotated[str, "The answer; every figure follows from `facts`."]
    operator_family: Family
    license: License
    teacher: Teacher
    split: Split
    thoughts: Thoughts = ""
    finish_reason: FinishReason = ""
    logprobs: Logprobs = ()
    usage: Asked = NO_USAGE
    server: Server = ""
    served_model: ServedModel = ""
    claim: Annotated[
        str,
        "What the answer says, as an expression over the facts that holds; empty where none was given.",
    ] = ""


@dataclass(frozen=True)
class Message:
    """One message of a conversation. `loss`: train on it."""

    role: Annotated[str, "`system`, `user` or `assistant`."]
    content: Annotated[str, "The text."]
    loss: Annotated[bool, "Whether to train on it."]


@dataclass(frozen=True)
class Turn:
    """One answer of a conversation and the message that it answers, word for word."""

    question: Annotated[str, "The message that was answered."]
    answer: Annotated[str, "The answer, word for word."]


@dataclass(frozen=True)
class Trajectory:
    """A conversation of at most three answers, ending at the first accepted one.

    `turns` are the conversation as it was held. In `messages`, which trainers read, the only assistant's message is an
    accepted answer: failed ones are quoted in the user's message, so that none becomes a target in a trainer that
    learns from every answer.
    """

    trajectory_id: Annotated[str, "Hash of the conversation."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    messages: Annotated[
        tuple[Message, ...],
        "The conversation for trainers: its only assistant's message is an accepted answer.",
    ]
    candidates: Annotated[tuple[str, ...], "Candidate id of each answer."]
    outcomes: Annotated[tuple[str, ...], "Of each answer: `accepted` or the error class."]
    rewards: Annotated[tuple[float, ...], "Of each answer."]
    fault: Annotated[str, "The fault that was seeded in the first answer; empty if none."]
    success: Annotated[bool, "Whether the last answer was accepted."]
    trajectory_return: Annotated[float, "PrimeEcho's return."]
    teacher: Teacher
    split: Split
    turns: Annotated[tuple[Turn, ...], "The conversation as it was held."] = ()
    license: License = ""


@dataclass(frozen=True)
class Port:
    """An accepted candidate in the form for MUSA. `changes`: each name that became another one, as "cuda → musa"."""

    port_id: Annotated[str, "Hash of the row's content."]
    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    task_id: TaskId
    candidate_id: Annotated[str, "The accepted candidate that was ported."]
    source: Annotated[str, "The program for MUSA."]
    changes: Annotated[tuple[str, ...], "Each name that became another one (`cuda → musa`)."]
    verdict: Annotated[PortVerdict, "What is known of it."]
    operator_family: Family
    license: License
    teacher: Annotated[str, "Who wrote the candidate."]
    split: Split


@dataclass(frozen=True)
class Reject:
    """What a step dropped, and why. Nothing disappears."""

    schema_version: SchemaVersion = field(default=SCHEMA_VERSION, kw_only=True)
    dataset: Annotated[str, "The dataset that it would have become a row of."]
    step: Annotated[str, "The step that dropped it."]
    reason: Annotated[str, "Short and countable: `nondeterministic`."]
    detail: Annotated[str, "What was seen."]
    origin: Annotated[str, "`path:lines`, a task id or a candidate id."]
