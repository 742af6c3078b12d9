"""The reference that a candidate is timed against: a sandboxed process of its own, warm from one candidate to the next.

References are served one after another by the same process, which is started again after a while and after any failure;
no candidate is ever in it.
"""

import contextlib
import hashlib
import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TypeVar

from musadata.errors import MusadataError
from musadata.sandbox import Conversation, Limits, Sandbox
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.entry_points import TIME_REFERENCE
from musadata.verifier.protocol.message_encoding import decode, encode

_MOST_REFERENCES = 100
_LONGEST_ANSWER_SECONDS = 300.0
_CPU_SECONDS = 1800.0
_KEPT_BYTES = 1 << 30  # of inputs on the device, between candidates for the same task
Answer = TypeVar("Answer")
_ANSWERS = (
    messages.BaselineReady,
    messages.Prepared,
    messages.TurnTimes,
    messages.Traffic,
    messages.Failure,
    *measures.ORACLE_ANSWERS,
)


@dataclass(frozen=True)
class Turn:
    """Some calls in a row: milliseconds of each, and by the wall clock what all of them took together, with filling
    their inputs, without the lead that a reference's host is given."""

    times: tuple[float, ...]
    wall_ms: float


@dataclass(frozen=True)
class _Ended:
    """The process has ended, and how."""

    how: str


class BaselineFailed(Exception):
    """There is no baseline; the candidate is not to blame."""


class Baseline:
    """Times references, eager or compiled. Use from one thread at a time."""

    def __init__(self, sandbox: Sandbox, device: str, compiled: bool, flush_bytes: int):
        self._sandbox = sandbox
        self._device = device
        self._compiled = compiled
        self._flush_bytes = flush_bytes
        self._commands: queue.Queue[object] = queue.Queue()
        self._answers: queue.Queue[object] = queue.Queue()
        self._thread: threading.Thread | None = None
        self.reference = ""  # that it has served last
        self._served = 0
        self._prepared = ""
        self._measure: measures.MeasureReady | None = None  # of the prepared reference, at its measure size
        self.bytes_per_ms = 0.0  # the memory's peak by its clock and width; 0 where the device does not tell

    @property
    def name(self) -> str:
        """As a person would say it."""
        return "the reference through torch.compile" if self._compiled else "the reference in eager mode"

    @property
    def on_device(self) -> bool:
        """Whether it runs where candidates do."""
        return self._device != "cpu"

    def launch(self) -> None:
        """Start the process without waiting for it; the first command will."""
        self._commands, self._answers = queue.Queue(), queue.Queue()
        self._served, self._prepared = 0, ""
        channels = (self._commands, self._answers)
        self._thread = threading.Thread(target=self._run, args=channels, daemon=True, name="baseline")
        self._thread.start()

    def _run(self, commands: "queue.Queue[object]", answers: "queue.Queue[object]") -> None:
        def serve(said: object) -> dict[str, object]:
            answers.put(decode(said, *_ANSWERS))
            return encode(commands.get())

        limits = Limits(seconds=_CPU_SECONDS, memory_mb=0)
        try:
            conversation = Conversation(serve, files_asked=1)
            outcome = self._sandbox.call(TIME_REFERENCE, self._device, limits=limits, serve=conversation)
            answers.put(_Ended(f"{outcome.status} {outcome.error_type} {outcome.message}".strip()))
        except MusadataError as error:
            answers.put(_Ended(str(error)))

    def prepare(self, request: messages.PrepareReference) -> None:
        """Make the reference's model, with the state and the inputs of the timed sets. How it runs, eager or compiled,
        and what flushes the cache, is the baseline's own choice.

        Raises:
            BaselineFailed: it does not run on the device, or cannot be compiled.
        """
        request = replace(request, compiled=self._compiled, flush_bytes=self._flush_bytes)
        key = _digest(request.reference, request.state, *request.inputs.values())
        if key == self._prepared and self._alive:
            return
        self._begin(request.reference)
        self.ask(request, messages.Prepared)
        self._prepared = key

    def prepare_measure(self, request: measures.PrepareMeasure) -> measures.MeasureReady:
        """Make the reference's model at its measure size, and draw its inputs.

        Raises:
            BaselineFailed: it does not run on the device.
        """
        request = replace(request, compiled=self._compiled, flush_bytes=self._flush_bytes)
        key = _digest(request.reference, request.state, repr(request.specs).encode())
        if key != self._prepared or not self._alive or self._measure is None:
            self._begin(request.reference)
            self._measure = self.ask(request, measures.MeasureReady)
            self._prepared = key
        return self._measure

    def release(self, keep: bool = True) -> None:
        """Close the window, and free the reference unless it is to be kept and small; nothing if that fails."""
        if self._served == 0:
            return
        keep = keep and self._measure is not None and self._measure.input_bytes <= _KEPT_BYTES
        kept = False
        with contextlib.suppress(BaselineFailed):
            kept = self.ask(measures.Release(keep), measures.Released).kept
        if not kept:
            self._prepared, self._measure = "", None

    def _begin(self, reference: str) -> None:
        """Make sure that there is a process for one more reference."""
        self.reference = reference
        if not self._alive or self._served >= _MOST_REFERENCES or self._compiled:
            self.close()
            self.launch()
        if self._served == 0:
            self.bytes_per_ms = self._receive(messages.BaselineReady).bytes_per_ms
        self._served += 1
        self._prepared, self._measure = "", None

    @property
    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def measure(self, count: int) -> Turn:
        """`count` calls in a row.

        Raises:
            BaselineFailed: it fails now, or takes too long.
        """
        start = time.perf_counter()
        answer = self.ask(messages.MeasureTurn(count), messages.TurnTimes)
        return Turn(answer.times, (time.perf_counter() - start) * 1e3 - answer.led_ms)

    def least_traffic(self) -> int:
        """Bytes that every correct candidate must read, see `measure`; 0 if that cannot be told."""
        try:
            return self.ask(messages.MeasureTraffic(), messages.Traffic).bytes
        except BaselineFailed:
            return 0

    def ask(self, command: object, kind: type[Answer]) -> Answer:
        """The answer to a command about the prepared reference.

        Raises:
            BaselineFailed: there is none.
        """
        if not self._alive:
            raise BaselineFailed("its process has ended")
        self._commands.put(command)
        return self._receive(kind)

    def _receive(self, kind: type[Answer]) -> Answer:
        try:
            answer = self._answers.get(timeout=_LONGEST_ANSWER_SECONDS)
        except queue.Empty:
            self._prepared, self._thread = "", None  # left to its own limits
            raise BaselineFailed("it takes too long") from None
        if isinstance(answer, kind):
            return answer
        if isinstance(answer, messages.Failure):
            raise BaselineFailed(f"{answer.error.error_type}: {answer.error.message}"[:300])
        raise BaselineFailed(answer.how if isinstance(answer, _Ended) else "it does not answer as it should")

    def close(self) -> None:
        """End the process."""
        if self._alive:
            self._commands.put(messages.Stop())
        self._thread, self._prepared = None, ""


def _digest(reference: str, *blobs: bytes) -> str:
    digest = hashlib.sha256(reference.encode())
    for blob in blobs:
        digest.update(blob)
    return digest.hexdigest()
