"""What serves a candidate's process while it is timed."""

import time
from collections.abc import Callable, Generator

from musadata.records import Finding
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.trusted.timing import Command, Measured, Reply


class Driver:
    """Serves a candidate's process while it is timed: answers with the next command, and measures by the wall clock.

    Attributes:
        opening: what the process is told when it has been judged.
        allowed: how many seconds it may take for a command; None where only the limits of its call count.
        deadline: for the command that it carries out, by `time.monotonic`.
        close: ends what was opened for it.
        late: what is said of a process that misses its deadline.
    """

    def __init__(
        self,
        schedule: Generator[Command, Reply, Measured],
        opening: "messages.Proceed | measures.MeasurePlan" = messages.Proceed(),  # noqa: B008 (frozen)
        allowed: Callable[[Command], float] | None = None,
        close: Callable[[], None] = lambda: None,
        late: Callable[[], Finding] = lambda: rules.TIMING_TIMEOUT.finding("it takes too long"),
    ):
        self._schedule = schedule
        self._sent = 0.0
        self._started = False
        self.opening, self.allowed, self.close, self.late = opening, allowed, close, late
        self.deadline: float | None = None
        self.measured: Measured | None = None

    def serve(self, answer: object) -> Command:
        """The next command; `Stop` at the end."""
        wall_ms = (time.perf_counter() - self._sent) * 1e3
        self.deadline = None
        try:
            if self._started:
                command = self._schedule.send(Reply(answer, wall_ms))
            else:
                self._started, command = True, next(self._schedule)
        except StopIteration as end:
            self.measured, command = end.value, messages.Stop()
        if self.allowed is not None and not isinstance(command, messages.Stop):
            self.deadline = time.monotonic() + self.allowed(command)
        self._sent = time.perf_counter()
        return command
