"""The messages about a candidate and its reference at the measure size; see `messages`."""

from dataclasses import dataclass

from musadata.records import InputSpec
from musadata.sandbox import Descriptor
from musadata.verifier.protocol.messages import Json, Literal, Signal, TensorFacts
from musadata.verifier.protocol.variants import PLAIN


@dataclass(frozen=True)
class Chunk:
    """A command about the chunk of a stream from byte `start` on; see `sandboxed.window`."""

    start: int


# To a candidate's process.


@dataclass(frozen=True)
class MeasurePlan:
    """Answers `JudgeRequest`: what a candidate that is right on its proof sets is called with at the measure size.

    Attributes:
        specs: of the inputs, which its process draws.
        init: of a new model; None where the model of the proof sets is called.
        state: of a new model, in the order in which it comes through the window.
        window, window_bytes, window_kind: see `sandboxed.window`.
        flush_bytes: see `TimedSets`.
    """

    specs: tuple[InputSpec, ...]
    seed: int
    init: Literal | None
    parameters: tuple[str, ...]
    state: tuple[TensorFacts, ...]
    window: Descriptor
    window_bytes: int
    window_kind: str
    flush_bytes: int


class TakeState(Chunk):
    """Copy a chunk of the state out of the window; answered by `ModelReady`."""


@dataclass(frozen=True)
class MakeOutput:
    """Call once with the inputs of this seed, changed as the variant says; answered by `OutputMade`."""

    seed: int
    variant: str = PLAIN
    null_kernels: bool = False


class SendChunk(Chunk):
    """Copy a chunk of the last output into the window; answered by `Prepared`."""


# Between the trusted side and the process that times references.


@dataclass(frozen=True)
class PrepareMeasure:
    """Make a reference's model at its measure size; answered by `MeasureReady`.

    Attributes:
        specs: of the inputs, which its process draws.
        state: that it has on the proof sets; empty where it is another model there, and gets a state of its own.
        as_constructed: see `ReferenceRequest`.
    """

    reference: str
    seed: int
    specs: tuple[InputSpec, ...]
    state: bytes = b""
    compiled: bool = False
    flush_bytes: int = 0
    as_constructed: bool = False


@dataclass(frozen=True)
class MeasureReady:
    """What a candidate's process needs; `input_bytes` on the device; `initial`: see `ReferenceFacts`."""

    init: Json
    parameters: tuple[str, ...]
    state: tuple[TensorFacts, ...]
    input_bytes: int
    initial: Json = None


@dataclass(frozen=True)
class Expect:
    """Work out the results for the inputs of this seed, changed as the variant says; answered by `Expected`."""

    seed: int
    variant: str = PLAIN


@dataclass(frozen=True)
class Expected:
    """What a right output looks like.

    `telling`: most of it is finite, and not one value everywhere; `constant`: the finite number that each output is
    everywhere, "" if one is not.
    """

    structure: Json
    outputs: tuple[TensorFacts, ...]
    telling: bool = True
    constant: str = ""


@dataclass(frozen=True)
class OpenWindow:
    """Make memory to share with one candidate; answered by `WindowOpened`."""

    kind: str
    bytes: int


@dataclass(frozen=True)
class WindowOpened:
    """`kind`: of the host where the device cannot share its own."""

    kind: str
    bytes: int
    file: Descriptor


class FillWindow(Chunk):
    """Copy a chunk of the state into the window; answered by `Prepared`."""


class CompareChunk(Chunk):
    """Compare the chunk of the output that lies in the window; answered by `ChunkCompared`."""


@dataclass(frozen=True)
class ChunkCompared:
    """How many elements are wrong, and the first of them: in which output, its flat index, and both values.

    `worst`: the largest finite error; `nonfinite`: whether a wrong element is NaN or infinite; `reference_error`: how
    far the reference typically is from the oracle, as a share, 0 where no element needed the oracle.
    """

    wrong: int = 0
    output: int = 0
    first: int = 0
    expected: str = ""
    got: str = ""
    worst: float = 0.0
    nonfinite: bool = False
    reference_error: float = 0.0


class MeasureConditions(Signal):
    """Find out how far rounding of the inputs moves the results; answered by `Prepared`."""


class ForgetExpected(Signal):
    """Free what comparing needs; answered by `Prepared`."""


@dataclass(frozen=True)
class Release:
    """Close the window, and unless `keep` free the reference as well; answered by `Released`."""

    keep: bool


@dataclass(frozen=True)
class Released:
    """Whether the reference is still there: a device with little room has it freed in any case."""

    kept: bool


ORACLE_COMMANDS = (
    PrepareMeasure,
    Expect,
    OpenWindow,
    FillWindow,
    CompareChunk,
    MeasureConditions,
    ForgetExpected,
    Release,
)
ORACLE_ANSWERS = (MeasureReady, Expected, WindowOpened, ChunkCompared, Released)
