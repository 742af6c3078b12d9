"""The rows that stages exchange.

Every row is a frozen dataclass of plain values, tuples and other such dataclasses; `musadata.rows` turns each into
one Arrow schema, one JSON Schema and back. Names may be added, not renamed: trainers read them.
An id is a hash of the row's content and of what produced it.
"""

from dataclasses import dataclass

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
    `low`, each once), `choice` (one of the values in the tuple that `literal` spells), `fixed` (all values in the tuple
    that `literal` spells, in their order: integers that agree with other inputs), `rows` (rows of the last dimension,
    each drawn among those that `literal` spells one after the other), `bool`, or `literal` for an
    argument that is not a tensor, whose Python expression then stands in `literal`; with a range it may be another
    number. Integers and choices may have a
    floating dtype: labels, signs and masks often do. Normal and uniform matrices that are always `diagonal`, `upper` or
    `lower` triangular, or `symmetric`, say so in `literal`.
    """

    name: str
    kind: str
    dtype: str  # torch's name without the prefix: "float32"; "" for a literal
    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 0.0
    literal: str = ""


@dataclass(frozen=True)
class Provenance:
    """The line of code that a task came from. `license` is an SPDX expression; `lines` is 1-based and inclusive.

    `packages`: releases of other projects that hold a part of it ("timm==1.0.9").
    """

    origin: str  # "package:torch", "git:https://…", "nnsmith", "directory:…"
    repository: str
    revision: str
    path: str
    lines: str  # "120-164"; "" where there is no file
    license: str
    packages: tuple[str, ...] = ()


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

    path: str
    text: str
    license: str


@dataclass(frozen=True)
class Kernel:
    """CUDA kernels that people wrote, with the Python that calls them: one row for each wrapper and binding.

    A kernel that exists for MUSA as well is a row even if no Python calls it; its wrapper and binding are empty then.

    `candidate` is a program in the form that the verifier judges, made of this code for the task `task_id`; both are
    empty where the repository holds no pure-PyTorch equivalent that runs.
    """

    kernel_id: str
    schema_version: int
    wrapper: str  # the class or function on top level that uses the kernels
    wrapper_kind: str  # "function", "class", "autograd", "module"
    wrapper_source: str
    extension: str  # the native module, by the name under which it is built
    binding: str  # the name that Python sees
    binding_form: str  # "pybind11", "torch_library", "load_inline"
    binding_source: str  # the statements that bind it; "" where `load_inline` writes them
    host: str
    kernels: tuple[str, ...]
    native: tuple[NativeSource, ...]
    musa: tuple[NativeSource, ...]  # the same kernels for MUSA, where the repository holds both
    provenance: Provenance  # of the wrapper; its licence is that of all files of the row
    equivalent: str  # where its PyTorch equivalent stands and what speaks for it; "" if none was found
    task_id: str
    candidate: str
    split: str


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

    task_id: str
    schema_version: int
    source_kind: SourceKind
    name: str
    reference: str
    operators: tuple[str, ...]  # dispatched aten operators, in order: "aten.mul.Tensor"
    operator_family: OperatorFamily
    level: int  # KernelBench's scale: 1 single operator, 2 a few fused, 3 a whole block
    inputs: tuple[InputSpec, ...]
    provenance: Provenance
    split: str
    text_signature: tuple[int, ...]  # MinHash over source shingles
    graph_fingerprint: str  # hash of the traced graph with shapes abstracted
    measure: tuple[InputSpec, ...] = ()
    measure_note: str = ""


@dataclass(frozen=True)
class TensorFact:
    """One tensor of a trace. `role`: input, parameter, buffer, intermediate, output."""

    name: str
    role: str
    operator: str  # the aten operator that made it; "" for inputs, parameters and buffers
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    operands: tuple[str, ...] = ()  # names of the tensors that the operator was given, in order
    arguments: str = ""  # its other arguments: "dim=[1], keepdim=False"


@dataclass(frozen=True)
class Trace:
    """Facts about one execution of a reference on one set of input shapes."""

    inputs: tuple[InputSpec, ...]
    tensors: tuple[TensorFact, ...]
    operators: tuple[str, ...]
    flops: int
    bytes: int  # least traffic: every input and parameter read once, every output written once
    intensity: float  # flops / bytes
    bound: Bound


@dataclass(frozen=True)
class Usage:
    """Tokens of one request to a language model, as its server counts them; zero where nothing was counted.

    `completion_tokens` include `reasoning_tokens`, `prompt_tokens` include `cached_tokens`.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0


NO_USAGE = Usage()


@dataclass(frozen=True)
class ReasoningStep:
    """One of the six steps: see `musadata.teacher.prompts.STEPS`."""

    step: str
    text: str


@dataclass(frozen=True)
class Claim:
    """A sentence of an analysis, with what it claims as an expression over the facts: see docs/grounding.md."""

    step: str
    sentence: str
    expression: str
    outcome: ClaimOutcome
    why: str = ""  # the facts that contradict it, or why it is not checked


@dataclass(frozen=True)
class Annotation:
    """What is known about a task before anyone writes a kernel for it. Two traces or more."""

    annotation_id: str
    schema_version: int
    task_id: str
    traces: tuple[Trace, ...]
    reasoning: tuple[ReasoningStep, ...]
    grounded: bool
    ungrounded: tuple[str, ...]  # claims in the reasoning that the traces contradict
    teacher: str
    split: str
    thoughts: str = ""  # what a reasoning model wrote before its reply, where its server shows it
    finish_reason: str = ""  # why the server ended the reply ("stop", "length")
    logprobs: tuple[float, ...] = ()  # of the reply's tokens, natural logarithms, where they were asked for
    usage: Usage = NO_USAGE
    server: str = ""  # its address; "" for a teacher without one
    served_model: str = ""  # the model and its revision, as the server reports them
    checked: float = 0.0  # share of the reasoning's sentences that have a claim which facts decide
    claims: tuple[Claim, ...] = ()  # of the reasoning's sentences; what has none is prose
    schedule: str = ""  # of the program that the reasoning plans, as in `Candidate`; "" if the teacher does not say


@dataclass(frozen=True)
class Finding:
    """One reason in a verdict, with its evidence. `line` is 1-based in the candidate's source, 0 if unknown.
    `condition`: of the inputs on which it was found, "" where it does not depend on inputs; see `ConditionFact`."""

    rule: str
    message: str
    line: int = 0
    operator: str = ""
    index: str = ""
    expected: str = ""
    got: str = ""
    condition: str = ""


@dataclass(frozen=True)
class ConditionFact:
    """On how many input sets of one kind a candidate is right: "declared" for the task's own shapes and plain values,
    "shapes" for its other shapes, else the name of a variant of the values, such as "scaled by -3".
    Sets on which zeros would pass do not count."""

    condition: str
    passed: int
    total: int


@dataclass(frozen=True)
class Facts:
    """What was measured of a candidate, each apart, whatever a policy makes of it.

    Attributes:
        compiles: None where no compiler was asked, since running the program would not be safe.
        runs: whether each call on the declared inputs ends without an exception or a fault; None if it was not run.
        right: whether its results are right on the declared inputs, whatever faults the emulator saw; None if nothing
            can be said.
        conditions: how many input sets of each kind it passes.
        findings: all that speaks against it under some policy, in the order in which verdicts name reasons. What it
            uses beside its own kernels is among them, with lines.
        stage: the last stage that was reached.
    """

    compiles: bool | None = None
    runs: bool | None = None
    right: bool | None = None
    conditions: tuple[ConditionFact, ...] = ()
    findings: tuple[Finding, ...] = ()
    stage: VerifyStage = VerifyStage.EXTRACT


@dataclass(frozen=True)
class Timing:
    """Milliseconds of a device's work, without the host's share: median, and a 95 % confidence interval for it."""

    name: str  # "candidate", "eager", "compile"
    median_ms: float
    low_ms: float
    high_ms: float
    repetitions: int


@dataclass(frozen=True)
class Verdict:
    """What the verifier found, and what a policy makes of it. The same task, candidate and settings give the same
    verdict. `findings` are the reasons for which `policy` refuses the candidate; `facts` are the same under all."""

    accepted: bool
    stage: VerifyStage
    error_class: ErrorClass | None
    test_share: float  # share of randomised tests passed, 0 to 1
    findings: tuple[Finding, ...]
    feedback: str  # for a model to act on; never holds expected tensors
    backend: str
    device: str
    driver: str
    toolchain: str
    seed_policy: str
    version: str
    operators: tuple[str, ...]  # aten operators that the candidate dispatched
    kernels: tuple[str, ...]  # its own kernels that were launched
    timings: tuple[Timing, ...]
    speedup: float | None  # eager's median by the candidate's, see `Timing`; None where nothing was timed
    reward: float
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

    candidate_id: str
    schema_version: int
    task_id: str
    sample: int
    turn: int
    parent_id: str  # the candidate that this one repairs; "" at turn 1
    source: str
    teacher: str
    schedule: str  # what the teacher says it did; "" if it does not say
    fault: str  # the fault that the compiler teacher seeded; "" if none
    accepted: bool
    kept: bool  # chosen into the diverse set of its task
    error_class: ErrorClass | None
    stage: VerifyStage
    backend: str
    test_share: float
    speedup: float | None
    reward: float
    structure: str  # what kind of kernel it is, for the diversity of a task's set
    findings: tuple[Finding, ...]
    feedback: str
    split: str
    thoughts: str = ""  # this and the next five as in `Annotation`
    finish_reason: str = ""
    logprobs: tuple[float, ...] = ()
    usage: Usage = NO_USAGE
    server: str = ""
    served_model: str = ""
    reward_validity: float = 0.0  # these three add up to `reward`, see `musadata.verifier.reward.RewardParts`
    reward_correctness: float = 0.0
    reward_speed: float = 0.0
    timings: tuple[Timing, ...] = ()  # as in `Verdict`
    algorithm: str = ""  # of its kernels, read from their code: "tiled-matmul + pointwise"
    chosen_because: str = ""  # why it was kept, see `musadata.sampling.diversity`; "" if it was not
    policy: str = ""  # this and the next as in `Verdict`
    facts: Facts = Facts()


@dataclass(frozen=True)
class MutantResult:
    """A wrong program on which a unit test was run."""

    candidate_id: str  # "" where it is none of the corpus' candidates
    fault: str  # that the compiler teacher seeded; "" where a teacher was wrong by itself
    source: str  # "" where `candidate_id` says it
    caught_by: str  # the first test function that fails; "import" where the program cannot be imported; "" if none does
    why: str


@dataclass(frozen=True)
class UnitTest:
    """A unit test for kernels of a task. It passes the reference and accepted candidates, and fails wrong programs.

    `source` defines functions `test_…` with the fixtures `reference` and `candidate`: callables that take and return
    CPU tensors, with equal parameters and buffers.
    """

    unit_test_id: str
    schema_version: int
    task_id: str
    sample: int
    source: str
    functions: tuple[str, ...]
    honest: tuple[str, ...]  # candidate ids of the accepted programs that pass it
    mutants: tuple[MutantResult, ...]
    caught_share: float  # of `mutants`, 0 to 1
    backend: str
    operator_family: OperatorFamily
    teacher: str
    split: str
    thoughts: str = ""  # this and the next five as in `Annotation`
    finish_reason: str = ""
    logprobs: tuple[float, ...] = ()
    usage: Usage = NO_USAGE
    server: str = ""
    served_model: str = ""


@dataclass(frozen=True)
class Question:
    """A question about a task or one of its kernels, with an answer that follows from `facts`."""

    question_id: str
    schema_version: int
    task_id: str
    candidate_id: str  # the accepted candidate whose kernel it is about; "" for none
    topic: QuestionTopic
    facts: str  # what of the trace or the kernel it can be answered from
    question: str
    answer: str
    operator_family: OperatorFamily
    license: str
    teacher: str
    split: str
    thoughts: str = ""  # this and the next five as in `Annotation`
    finish_reason: str = ""
    logprobs: tuple[float, ...] = ()
    usage: Usage = NO_USAGE
    server: str = ""
    served_model: str = ""
    claim: str = ""  # what the answer says, as an expression over the facts that holds; "" where none was given


@dataclass(frozen=True)
class Message:
    """One message of a conversation. `loss`: train on it."""

    role: str
    content: str
    loss: bool


@dataclass(frozen=True)
class Turn:
    """One answer of a conversation and the message that it answers, word for word."""

    question: str
    answer: str


@dataclass(frozen=True)
class Trajectory:
    """A conversation of at most three answers, ending at the first accepted one.

    `turns` are the conversation as it was held. In `messages`, which trainers read, the only assistant's message is an
    accepted answer: failed ones are quoted in the user's message, so that none becomes a target in a trainer that
    learns from every answer.
    """

    trajectory_id: str
    schema_version: int
    task_id: str
    messages: tuple[Message, ...]
    candidates: tuple[str, ...]
    outcomes: tuple[str, ...]  # per turn: "accepted" or the error class
    rewards: tuple[float, ...]
    fault: str
    success: bool
    trajectory_return: float  # PrimeEcho's return
    teacher: str
    split: str
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Port:
    """An accepted candidate in the form for MUSA. `changes`: each name that became another one, as "cuda → musa"."""

    port_id: str
    schema_version: int
    task_id: str
    candidate_id: str
    source: str
    changes: tuple[str, ...]
    verdict: PortVerdict
    operator_family: OperatorFamily
    license: str
    teacher: str  # of the candidate
    split: str


@dataclass(frozen=True)
class Reject:
    """What a step dropped, and why. Nothing disappears."""

    schema_version: int
    dataset: str  # the dataset that it would have become a row of
    step: str
    reason: str  # short and countable: "nondeterministic"
    detail: str
    origin: str  # path:lines, task id or candidate id
