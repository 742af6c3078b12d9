"""A candidate at the measure size: its output is compared on the device, and then it is timed.

The process that holds the expected results compares; here only the order is decided in which chunks of outputs pass
through the window, and what is said of an element that is wrong.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from musadata.errors import Outage
from musadata.records import Finding
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.pytree import describe
from musadata.verifier.protocol.streams import stream_of
from musadata.verifier.protocol.variants import OFFSET, PLAIN, SCALED
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.aten_operators import is_allowed
from musadata.verifier.trusted.baseline_process import Baseline
from musadata.verifier.trusted.timing import CandidateFailed, Command, Measured, Reply, describe_answer

_Answer = TypeVar("_Answer")
_VARIANTS = (SCALED, OFFSET)
_SETUP_SECONDS = 90.0
_STEP_SECONDS = 10.0  # for anything that depends on no kernel of the candidate
_SLOWEST = 40.0  # times the reference: twice what is still measured


@dataclass
class MeasureChecks:
    """The comparison of outputs at the measure size.

    Attributes:
        ready: the prepared reference.
        has_own_state: it has another state than on the proof sets.
        proof, again: the seeds of the inputs before and after timing.
        use_host: makes later windows memory of the host; whether this one is not.
        is_only_proof: there are no proof sets, so that more inputs, and a replay with null kernels, take their place.
    """

    baseline: Baseline
    ready: measures.MeasureReady
    has_own_state: bool
    window_bytes: int
    proof: int
    again: int
    strict: bool
    is_only_proof: bool = False
    use_host: Callable[[], bool] = lambda: False
    failure: ClassVar[rules.Rule] = rules.MEASURE_EXCEPTION

    @property
    def input_bytes(self) -> int:
        """Of the inputs alone: the state only adds to what must be read."""
        return self.ready.input_bytes

    def before(self, measured: Measured) -> Generator[Command, Reply, None]:
        """Hand over the state, and compare one output."""
        yield from self._send_state()
        yield from self._compare(measured, measures.MakeOutput(self.proof), replay=self.is_only_proof)
        for number, variant in enumerate(_VARIANTS if self.is_only_proof else ()):
            if measured.error_class is None:
                yield from self._compare(measured, measures.MakeOutput(self.proof + 1 + number, variant))

    def after(self, measured: Measured) -> Generator[Command, Reply, None]:
        """Compare the output for inputs that the candidate has not seen."""
        yield from self._compare(measured, measures.MakeOutput(self.again))

    def _send_state(self) -> Generator[Command, Reply, None]:
        length = stream_of(self.ready.state).length if self.has_own_state else 0
        for start in range(0, max(length, 1), self.window_bytes):  # the first chunk also makes the model
            if length:
                self.baseline.ask(measures.FillWindow(start), messages.Prepared)
            reply = yield measures.TakeState(start)
            self._require_window(reply)
            _require(reply, messages.Prepared)

    def _require_window(self, reply: Reply) -> None:
        """Raise an outage, so that the candidate is run again, if its process says that it cannot map device memory.

        That may be a lie, so it counts only once: the next window is of the host.
        """
        answer = reply.answer
        if isinstance(answer, messages.Failure) and answer.error.error_type == "WindowFailed" and self.use_host():
            raise Outage(f"device memory cannot be shared ({answer.error.message})"[:300], where="verifier")

    def _compare(
        self, measured: Measured, command: measures.MakeOutput, replay: bool = False
    ) -> Generator[Command, Reply, None]:
        """Blame the candidate if its output is wrong; with `replay`, also if it is right without its kernels."""
        expected = self.baseline.ask(measures.Expect(command.seed, command.variant), measures.Expected)
        is_plain = command.variant == PLAIN
        if not is_plain and not expected.telling:
            return
        if is_plain and self.is_only_proof and not expected.telling:
            measured.blame(rules.TASK_NOT_DISCRIMINATING)
            return
        made = _require((yield command), messages.OutputMade)
        problem = self._find_cheat(made) or _find_mismatch(made, expected)
        if problem is None:
            found = yield from self._compare_values(expected)
            if found.wrong:  # rounding alone may be why
                self.baseline.ask(measures.MeasureConditions(), messages.Prepared)
                found = yield from self._compare_values(expected)
            problem = _describe_wrong(found, expected) if found.wrong else None
        if problem is None and replay and (yield from self._is_right_without_kernels(expected)):
            problem = rules.RUNTIME_DECOY.finding(f"{made.launches} launches")
        if problem is not None:
            measured.findings.append(problem)
            measured.error_class = measured.error_class or rules.RULES[problem.rule].error_class
        self.baseline.ask(measures.ForgetExpected(), messages.Prepared)

    def _is_right_without_kernels(self, expected: measures.Expected) -> Generator[Command, Reply, bool]:
        reply = yield measures.MakeOutput(self.proof, null_kernels=True)
        if not isinstance(reply.answer, messages.OutputMade) or _find_mismatch(reply.answer, expected) is not None:
            return False  # it may fail
        found = yield from self._compare_values(expected)
        return not found.wrong

    def _find_cheat(self, made: messages.OutputMade) -> Finding | None:
        """A finding if PyTorch did the work, as it may do for large inputs only."""
        if not made.launches:
            return rules.RUNTIME_NO_LAUNCH.finding()
        computing = [name for name in made.operators if not is_allowed(name)] if self.strict else []
        return rules.RUNTIME_OPERATOR.finding(computing[0][:100], operator=computing[0][:100]) if computing else None

    def _compare_values(self, expected: measures.Expected) -> Generator[Command, Reply, measures.ChunkCompared]:
        """The first chunk that is wrong, or one that is right."""
        for start in range(0, stream_of(expected.outputs).length, self.window_bytes):
            _require((yield measures.SendChunk(start)), messages.Prepared)
            found = self.baseline.ask(measures.CompareChunk(start), measures.ChunkCompared)
            if found.wrong:
                return found
        return measures.ChunkCompared()


def allow(baseline_ms: float, command: Command) -> float:
    """Seconds that a candidate's process may take for a command, if the reference takes so many milliseconds."""
    one = _SLOWEST * baseline_ms / 1e3
    match command:
        case measures.TakeState():
            return _SETUP_SECONDS
        case messages.MeasureTurn():
            return _STEP_SECONDS + command.count * (one + 0.1)
        case messages.MeasureShare():
            return _STEP_SECONDS + 3 * command.count * (one + 0.1)
    return _STEP_SECONDS + one


def blame_slow(baseline_ms: float) -> Finding:
    """What is said of a candidate that was ended because a command took too long."""
    return rules.MEASURE_SLOW.finding(_SLOWEST, baseline_ms)


def _require(reply: Reply, kind: type[_Answer]) -> _Answer:
    if isinstance(reply.answer, kind):
        return reply.answer
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
