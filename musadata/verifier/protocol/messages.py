"""Every message between the trusted side and the processes that run candidates and references; nothing else crosses.

`message_encoding` turns them into what the sandbox carries, and back. What a candidate's process sends may be forged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from musadata.records import InputSpec
from musadata.verifier.backends.device_records import Fault, Launch
from musadata.verifier.compilation.sources import CandidateSources
from musadata.verifier.protocol.tolerance import Tolerance
from musadata.verifier.protocol.variants import InputSet

Json = Any  # coded by one sandboxed process for another, or the nesting of a result: see `plain_values` and `pytree`
Blobs = dict[str, bytes]  # travel as they are: packed tensors, files


@dataclass(frozen=True)
class Signal:
    """A message that holds nothing."""


@dataclass(frozen=True)
class Repeat:
    """A command to call the model so many times in a row."""

    count: int


# Either process may send these.


@dataclass(frozen=True)
class ErrorFacts:
    """An exception, as `describe_error` puts it."""

    error_type: str = ""
    message: str = ""
    traceback: str = ""


@dataclass(frozen=True)
class Failure:
    """A command could not be carried out."""

    error: ErrorFacts


@dataclass(frozen=True)
class TurnTimes:
    """Milliseconds of some calls in a row. `led_ms`: how much later the device began than the host, all together."""

    times: tuple[float, ...]
    led_ms: float = 0.0


@dataclass(frozen=True)
class TensorFacts:
    """A tensor without its values. `dtype`: torch's name without the prefix; `name`: of a parameter or buffer."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Prepared(Signal):
    """It is done."""


class MeasureTurn(Repeat):
    """Time so many calls in a row; answered by `TurnTimes`."""


class Stop(Signal):
    """Nothing more is wanted."""


# From a candidate's process, in the order in which an honest one sends them.


class RequestContext(Signal):
    """Waits until few others are making a context on the device."""


class ContextMade(Signal):
    """Its context is there."""


@dataclass(frozen=True)
class CompileRequest:
    """Compile these; answered by `Compiled` or `Refused`."""

    sources: CandidateSources


class RequestPlan(Signal):
    """The candidate is imported; answered by `Plan`."""


class RequestDevice(Signal):
    """Waits until no other candidate is being timed."""


@dataclass(frozen=True)
class CallRecords:
    """What one call did.

    Attributes:
        operators: of PyTorch, as "aten.mul.Tensor".
        to_host: values that were copied to the host or read there.
        kernels: names of those launched.
        launches: how many.
        parts: how often a part of a tensor was filled, or copied.
        refused: launches that CUDA does not accept.
        faults, reports: what kernels did wrong, seen by the device or by the checks on accesses.
    """

    operators: tuple[str, ...] = ()
    to_host: int = 0
    kernels: tuple[str, ...] = ()
    launches: int = 0
    parts: int = 0
    refused: tuple[Launch, ...] = ()
    faults: tuple[Fault, ...] = ()
    reports: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class CallFacts:
    """One call of the candidate's forward.

    Attributes:
        bad: sentences about outputs that are wrong as objects, whatever their values.
        changed_inputs: the inputs that differ after the call.
        changed_state: what the program changed in itself although the same call was made before.
        written: digests of the tensors that PyTorch's operators wrote in a replay with null kernels.
        structure: the nesting of the result.
        digest: of the file with its outputs.
    """

    error: ErrorFacts | None = None
    records: CallRecords = CallRecords()
    bad: tuple[str, ...] = ()
    changed_inputs: tuple[int, ...] = ()
    changed_state: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    structure: Json = None
    digest: str = ""


@dataclass(frozen=True)
class CandidateFacts:
    """A candidate's run so far, as its process tells it: what is malformed in it, at any depth, counts as left out.

    Attributes:
        calls: in the order of the plan.
        interface: sentences about what does not fit the reference's model.
        initial: digests of its parameters and buffers by name, as its constructor has made them.
        changed_later: names of calls whose outputs a later call changed.
        tampered: functions of PyTorch and Python that the candidate replaced.
        threads: how many it started.
        reserved: the call of `Plan.reserved`, where there was one.
    """

    calls: tuple[CallFacts, ...] = ()
    error: ErrorFacts | None = None
    interface: tuple[str, ...] = ()
    initial: Json = None
    changed_later: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()
    threads: int = 0
    reserved: CallFacts = CallFacts()


@dataclass(frozen=True)
class JudgeRequest:
    """All calls are done: judge them now. Answered by `Proceed`, to be timed, or `Stop`."""

    facts: CandidateFacts
    outputs: Blobs  # by the name of the call; "faults": what crashes of host code left


class TimingReady(Signal):
    """Waits for the first command."""


@dataclass(frozen=True)
class CheckedOutput:
    """The result of one more call like the timed ones."""

    structure: Json
    output: bytes


@dataclass(frozen=True)
class DeviceTimes:
    """Milliseconds of the device: of a call with null kernels, and of none at all."""

    rest: float
    empty: float


@dataclass(frozen=True)
class OutputMade:
    """A candidate's output at the measure size; its values wait to be asked for.

    `bad`: see `CallFacts`; `operators`, `launches`, `to_host`: see `CallRecords`; `milliseconds` that the call took.
    """

    structure: Json
    outputs: tuple[TensorFacts, ...]
    bad: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    launches: int = 0
    to_host: int = 0
    milliseconds: float = 0.0


@dataclass(frozen=True)
class ModelReady:
    """A candidate's model at the measure size is made, and has taken a chunk of its state. `initial`: see
    `CandidateFacts`."""

    initial: Json = None


QUESTIONS = (RequestContext, ContextMade, CompileRequest, RequestPlan, RequestDevice, JudgeRequest, TimingReady)
REPLIES = (TurnTimes, CheckedOutput, DeviceTimes, Failure, OutputMade, ModelReady, Prepared)


# To a candidate's process.


class Proceed(Signal):
    """Go on."""


@dataclass(frozen=True)
class Refused:
    """A question that is not answered, and why."""

    reason: str


@dataclass(frozen=True)
class Compiled:
    """The path of the library."""

    path: str


@dataclass(frozen=True)
class Call:
    """One call of the candidate's forward.

    Attributes:
        set: the number of the input set.
        name: of the file with the call's outputs.
        order: of threads and blocks.
        poison: the byte that fresh memory holds.
        null_kernels: its kernels do nothing.
        strided: its inputs are not contiguous.
        may_refuse: with an exception, but it may not silently take its inputs for what they are not.
        check: of accesses: off, brief, full; empty where the backend knows none.
        settled: the call before had the same shapes, so that nothing kept has a reason to change.
        sampled: only some blocks of each launch run.
        unseen: calls on the same inputs that come before it, of which nothing is looked at; see `run_unseen`.
    """

    set: int
    name: str
    order: str = "forward"
    seed: int = 0
    poison: int = 0xFF
    null_kernels: bool = False
    strided: bool = False
    may_refuse: bool = False
    check: str = ""
    settled: bool = False
    unseen: int = 0
    sampled: bool = False


@dataclass(frozen=True)
class Literal:
    """An argument that is no tensor."""

    value: Json


@dataclass(frozen=True)
class PlannedSet:
    """An input set. `literals`: per argument, None for a tensor; `handed_on`: outputs that may be an input; `init`: the
    constructor's arguments of a model of its own that has others; `updated`: buffers that count as further outputs;
    `loaded`: its state goes into the model of the other sets, and out of it again."""

    literals: tuple[Literal | None, ...]
    shape: int
    handed_on: tuple[int, ...]
    init: Json = None
    updated: tuple[str, ...] = ()
    loaded: bool = False


@dataclass(frozen=True)
class TimedSets:
    """The numbers of the input sets that are timed, and the bytes that are written before each call."""

    sets: tuple[int, ...]
    flush_bytes: int


@dataclass(frozen=True)
class Plan:
    """What a candidate is called with. `inputs`: by the number of the set; `timed`: None where times mean nothing;
    `state`: empty for a candidate that keeps the one that it constructs; `states`: of models of their own, for the
    sets that have one; `reserved`: inputs of the declared size for one more call, whose kernels do nothing: their
    memory is reserved and never touched. Without sets, of a model constructed with `init`."""

    init: Json
    parameters: tuple[str, ...]
    seed: int
    sets: tuple[PlannedSet, ...]
    calls: tuple[Call, ...]
    timed: TimedSets | None
    state: bytes
    inputs: Blobs
    states: Blobs
    reserved: tuple[InputSpec, ...]


@dataclass(frozen=True)
class CheckOutput:
    """Call once more with this one of the timed sets; answered by `CheckedOutput`."""

    position: int


class MeasureShare(Repeat):
    """How much of the device's time is not that of own kernels, from so many calls; answered by `DeviceTimes`."""


# Between the trusted side and the process that times references.


@dataclass(frozen=True)
class BaselineReady:
    """`bytes_per_ms`: the peak of the device's memory, 0 where that is not known."""

    bytes_per_ms: float = 0.0


@dataclass(frozen=True)
class PrepareReference:
    """Make a reference's model with this state, and the inputs of the timed sets, in their order."""

    reference: str
    seed: int
    init: Json
    literals: tuple[Literal | None, ...]
    state: bytes
    inputs: Blobs
    compiled: bool = False
    flush_bytes: int = 0


class MeasureTraffic(Signal):
    """Answered by `Traffic`."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that the result depends on; 0 if that cannot be told."""

    bytes: int


# Between the trusted side and the process that runs a reference.


@dataclass(frozen=True)
class ReferenceRequest:
    """Input sets to run a reference on, of these sets of shapes. `as_constructed`: with the state that its constructor
    gives it after the seed, for candidates that cannot be given another one. `lean`: once each, with the widest
    tolerances."""

    reference: str
    shapes: tuple[tuple[InputSpec, ...], ...]
    sets: tuple[InputSet, ...]
    seed: int
    as_constructed: bool = False
    lean: bool = False


@dataclass(frozen=True)
class ReferenceSet:
    """What came of one input set; its tensors are files. `own_state`: so is the state of a model of its own; for the
    others see `PlannedSet`."""

    plan: InputSet
    literals: tuple[Literal | None, ...]
    structure: Json
    handed_on: tuple[int, ...]
    tolerances: tuple[Tolerance, ...]
    own_state: bool = False
    init: Json = None
    updated: tuple[str, ...] = ()
    loaded: bool = False


@dataclass(frozen=True)
class ReferenceFacts:
    """The constructor's arguments, the parameters' names, and those of the sets that prove something. `initial`:
    digests of parameters and buffers by name, as the constructor has made them."""

    init: Json
    parameters: tuple[str, ...]
    sets: tuple[ReferenceSet, ...]
    initial: Json


def number_blobs(blobs: Sequence[bytes]) -> Blobs:
    """By their place, as `inputs` are."""
    return {str(index): blob for index, blob in enumerate(blobs)}
