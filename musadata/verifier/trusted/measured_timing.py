"""A candidate at the measure size: its output is compared on the device, and then it is timed.

The process that holds the expected results compares; here only the order is decided in which chunks of outputs pass
through the window, and what is said of an element that is wrong.
"""

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from musadata.errors import Outage
from musadata.records import Finding
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages, variants
from musadata.verifier.protocol.pytree import describe
from musadata.verifier.protocol.streams import stream_of
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.aten_operators import is_allowed
from musadata.verifier.trusted.baseline_process import Baseline
from musadata.verifier.trusted.device_lock import DeviceLock
from musadata.verifier.trusted.judge import MOST_REFERENCE_ERROR, find_other_start
from musadata.verifier.trusted.runtime_legality import check_host
from musadata.verifier.trusted.timing import CandidateFailed, Checks, Command, Measured, Reply, describe_answer

_Answer = TypeVar("_Answer")
_VARIANTS = (variants.SCALED, variants.OFFSET)
_SETUP_SECONDS = 90.0
_FIRST_SECONDS = 4.0  # for the first call
_STEP_SECONDS = 10.0  # for anything that depends on no kernel of the candidate
_MOST_OPERATORS = 32  # named, of those that are not allowed
_COMPILER_FAILED = "BackendCompilerFailed"  # torch.compile's: it cannot work in a candidate's process
_SLOWEST = 40.0  # times the reference: twice what is still measured


@dataclass
class MeasureChecks(Checks):
    """The comparison of outputs at the measure size.

    Attributes:
        ready: the prepared reference.
        has_own_state: it has another state than on the proof sets.
        proof, again: the seeds of the inputs before and after timing.
        use_host: makes later windows memory of the host; whether this one is not.
        is_only_proof: there are no proof sets, so that more inputs, and a replay with null kernels, take their place.
        device: shared until the candidate is called for the first time, and after timing; held alone between.
        known_ms, launches: of the candidate's first call.
    """

    baseline: Baseline
    ready: measures.MeasureReady
    has_own_state: bool
    window_bytes: int
    proof: int
    again: int
    is_only_proof: bool = False
    use_host: Callable[[], bool] = lambda: False
    device: DeviceLock | None = None
    as_constructed: bool = False
    known_ms: float = 0.0
    launches: int = 0
    failure: ClassVar[rules.Rule] = rules.MEASURE_EXCEPTION

    def __post_init__(self) -> None:
        self.input_bytes = self.ready.input_bytes  # of the inputs alone: the state only adds to what must be read

    def before(self, measured: Measured) -> Generator[Command, Reply, None]:
        """Hand over the state, and compare one output."""
        initial = yield from self._send_state()
        plain = yield from self._compare(measured, measures.MakeOutput(self.proof), is_first=True)
        if not self.is_only_proof:
            return
        self.end_timing()
        if measured.error_class is None and (yield from self._is_right_without_kernels(plain)):
            measured.blame(rules.RUNTIME_DECOY, f"{self.launches} launches")
        for number, variant in enumerate(_VARIANTS):
            if measured.error_class is None:
                other = yield from self._compare(measured, measures.MakeOutput(self.proof + 1 + number, variant))
                if not plain.telling and not other.telling and (not plain.constant or other.constant != plain.constant):
                    measured.blame(rules.TASK_NOT_DISCRIMINATING)
        different = find_other_start(initial, self.ready.initial, self.ready.parameters)
        if measured.error_class is None and different and not self.as_constructed:
            measured.blame(rules.INTERFACE_INITIAL_STATE, different)
        if measured.error_class is None and self.device is not None:
            self.device.take_alone()

    def after(self, measured: Measured) -> Generator[Command, Reply, None]:
        """Compare the output for inputs that the candidate has not seen."""
        yield from self._compare(measured, measures.MakeOutput(self.again))

    def end_timing(self) -> None:
        """Let others use the device as well."""
        if self.device is not None:
            self.device.share()

    def _next(self, command: Command) -> Command:
        """The command, once no candidate waits to be alone on the device."""
        self._give_way()
        return command

    def _give_way(self) -> None:
        if self.device is not None:
            self.device.give_way()

    def _ask(self, command: object, kind: type[_Answer]) -> _Answer:
        """What the reference's process answers, once no candidate waits to be alone on the device."""
        self._give_way()
        return self.baseline.ask(command, kind)

    def _send_state(self) -> Generator[Command, Reply, messages.Json]:
        """How the candidate's own state starts."""
        initial: messages.Json = None
        length = stream_of(self.ready.state).length if self.has_own_state else 0
        for start in range(0, max(length, 1), self.window_bytes):  # the first chunk also makes the model
            if length:
                self._ask(measures.FillWindow(start), messages.Prepared)
            reply = yield self._next(measures.TakeState(start))
            self._require_window(reply)
            ready = _require(reply, messages.ModelReady)
            initial = ready.initial if start == 0 else initial
        return initial

    def _require_window(self, reply: Reply) -> None:
        """Raise an outage, so that the candidate is run again, if its process says that it cannot map device memory.

        That may be a lie, so it counts only once: the next window is of the host.
        """
        answer = reply.answer
        if isinstance(answer, messages.Failure) and answer.error.error_type == "WindowFailed" and self.use_host():
            raise Outage(f"device memory cannot be shared ({answer.error.message})"[:300], where="verifier")

    def _compare(
        self, measured: Measured, command: measures.MakeOutput, is_first: bool = False
    ) -> Generator[Command, Reply, measures.Expected]:
        """Blame the candidate if its output is wrong; of inputs that tell nothing only where they are the first."""
        expected = self._ask(measures.Expect(command.seed, command.variant), measures.Expected)
        if not (is_first or expected.telling or expected.constant):
            return expected
        if is_first and self.device is not None:
            self.device.take_alone()
        made = _require((yield self._next(command)), messages.OutputMade)
        if is_first and math.isfinite(made.milliseconds):
            self.known_ms, self.launches = made.milliseconds, made.launches
        measured.findings += self._find_use(made)
        problem = _find_mismatch(made, expected)
        if problem is None:
            found = yield from self._compare_values(expected)
            if found.wrong:  # rounding alone may be why
                self._ask(measures.MeasureConditions(), messages.Prepared)
                found = yield from self._compare_values(expected)
            problem = _describe_wrong(found, expected) if found.wrong else None
            if found.reference_error > MOST_REFERENCE_ERROR:
                problem = rules.TASK_NO_RIGHT_ANSWER.finding(f"{found.reference_error:.2g}")
        if problem is not None:
            measured.findings.append(problem)
            measured.error_class = measured.error_class or rules.RULES[problem.rule].error_class
        if not (is_first and self.is_only_proof and problem is None):  # else it is compared once more
            self._ask(measures.ForgetExpected(), messages.Prepared)
        return expected

    def _is_right_without_kernels(self, expected: measures.Expected) -> Generator[Command, Reply, bool]:
        reply = yield self._next(measures.MakeOutput(self.proof, null_kernels=True))
        is_right = isinstance(reply.answer, messages.OutputMade) and _find_mismatch(reply.answer, expected) is None
        if is_right:  # it may fail
            is_right = not (yield from self._compare_values(expected)).wrong
        self._ask(measures.ForgetExpected(), messages.Prepared)
        return is_right

    def _find_use(self, made: messages.OutputMade) -> Iterator[Finding]:
        """What PyTorch or the host did of the work, as they may do for large inputs only."""
        if not made.launches:
            yield rules.RUNTIME_NO_LAUNCH.finding()
        for name in sorted({name[:100] for name in made.operators if not is_allowed(name)})[:_MOST_OPERATORS]:
            yield rules.RUNTIME_OPERATOR.finding(name, operator=name)
        yield from check_host(made.to_host)

    def _compare_values(self, expected: measures.Expected) -> Generator[Command, Reply, measures.ChunkCompared]:
        """The first chunk that is wrong, or one that is right."""
        off = 0.0
        for start in range(0, stream_of(expected.outputs).length, self.window_bytes):
            _require((yield self._next(measures.SendChunk(start))), messages.Prepared)
            found = self._ask(measures.CompareChunk(start), measures.ChunkCompared)
            if found.wrong:
                return found
            off = max(off, found.reference_error)
        return measures.ChunkCompared(reference_error=off)


def allow(baseline_ms: float, proof: int, command: Command) -> float:
    """Seconds that a candidate's process may take for a command, if the reference takes so many milliseconds. Its
    first call, on the inputs of the seed `proof`, has the device alone, and holds up all others."""
    one = _SLOWEST * baseline_ms / 1e3
    match command:
        case measures.MakeOutput(seed=seed, variant=variants.PLAIN, null_kernels=False) if seed == proof:
            return _FIRST_SECONDS + one
        case measures.TakeState():
            return _SETUP_SECONDS
        case messages.MeasureTurn():
            return _STEP_SECONDS + command.count * (one + 0.1)
        case messages.MeasureShare():
            return _STEP_SECONDS + 2 * command.count * (one + 0.1)
    return _STEP_SECONDS + one


def blame_slow(baseline_ms: float) -> Finding:
    """What is said of a candidate that was ended because a command took too long."""
    return rules.MEASURE_SLOW.finding(_SLOWEST, baseline_ms)


def _require(reply: Reply, kind: type[_Answer]) -> _Answer:
    if isinstance(reply.answer, kind):
        return reply.answer
    if isinstance(reply.answer, messages.Failure):
        error = reply.answer.error
        if error.error_type == "StateMismatch":
            raise CandidateFailed(error.message[:300], rules.INTERFACE_STATE)
        if error.error_type == _COMPILER_FAILED:
            raise CandidateFailed("torch.compile in a program", rules.EXECUTE_UNSUPPORTED)
    raise CandidateFailed(describe_answer(reply.answer))


def _find_mismatch(made: messages.OutputMade, expected: measures.Expected) -> Finding | None:
    """A finding if the output cannot be compared value by value."""
    if made.bad:
        return rules.MEASURE_OUTPUT.finding(made.bad[0][:300])
    if made.structure != expected.structure or len(made.outputs) != len(expected.outputs):
        return rules.MEASURE_OUTPUT.finding(f"the forward does not return {describe(expected.structure)}.")
    for number, (got, want) in enumerate(zip(made.outputs, expected.outputs, strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            is_shape = got.shape != want.shape
            found, right = (got.shape, want.shape) if is_shape else (got.dtype, want.dtype)
            what = "shape" if is_shape else "dtype"
            return rules.MEASURE_OUTPUT.finding(f"output {number} has the {what} {found} instead of {right}.")
    return None


def _describe_wrong(found: measures.ChunkCompared, expected: measures.Expected) -> Finding:
    shape = expected.outputs[found.output].shape
    place, rest = [], found.first
    for size in reversed(shape):
        place.append(rest % size)
        rest //= size
    index = "[" + ", ".join(map(str, reversed(place))) + "]"
    name = "The output" if len(expected.outputs) == 1 else f"Output {found.output}"
    message = f"At the measure size: {name} of shape {tuple(shape)} is wrong, first at {index}: {found.got} instead of "
    message += f"{found.expected}; {found.wrong} wrong elements near there"
    message += f", largest error {found.worst:.3g}." if found.worst else "."
    rule = rules.MEASURE_NONFINITE if found.nonfinite else rules.MEASURE_VALUES
    return rule.worded(message, index=index, expected=found.expected, got=found.got)
