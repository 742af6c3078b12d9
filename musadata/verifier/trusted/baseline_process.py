"""The reference as a candidate's rival in time: a sandboxed process of its own, warm from one candidate to the next.

References are served one after another by the same process, which is made anew after a while and after any failure;
no candidate is ever in it.
"""

import hashlib
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from musadata.errors import MusadataError
from musadata.sandbox import Limits, Sandbox

_MOST_REFERENCES = 100
_LONGEST_ANSWER_SECONDS = 300.0
_CPU_SECONDS = 1800.0


@dataclass(frozen=True)
class Turn:
    """Some calls in a row: milliseconds of each, and by the wall what all of them took together: fills included, the
    lead that a reference's host is given left out."""

    times: tuple[float, ...]
    wall_ms: float


class BaselineFailed(Exception):
    """There is no baseline; the candidate is not to blame."""


class Baseline:
    """Times references, eager or compiled. Use from one thread at a time."""

    def __init__(self, sandbox: Sandbox, device: str, compiled: bool, flush_bytes: int):
        self._sandbox = sandbox
        self._device = device
        self._compiled = compiled
        self._flush_bytes = flush_bytes
        self._commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._served = 0
        self._prepared = ""
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

    def _run(self, commands: "queue.Queue[dict[str, Any]]", answers: "queue.Queue[dict[str, Any]]") -> None:
        def serve(answer: dict[str, Any]) -> dict[str, Any]:
            answers.put(answer)
            return commands.get()

        limits = Limits(seconds=_CPU_SECONDS, memory_mb=0)
        try:
            outcome = self._sandbox.call(
                "musadata.verifier.sandboxed.measure:serve_reference", self._device, limits=limits, serve=serve
            )
            answers.put({"ended": f"{outcome.status} {outcome.error_type} {outcome.message}".strip()})
        except MusadataError as error:
            answers.put({"ended": str(error)})

    def prepare(self, reference: str, plan: Mapping[str, Any], blobs: Mapping[str, bytes]) -> None:
        """Make the reference's model, with the state and the inputs of the timed sets.

        Raises:
            BaselineFailed: it does not run on the device, or cannot be compiled.
        """
        digest = hashlib.sha256(reference.encode())
        for name in sorted(blobs):
            digest.update(name.encode() + blobs[name])
        key = digest.hexdigest()
        if key == self._prepared and self._alive:
            return
        if not self._alive or self._served >= _MOST_REFERENCES or self._compiled:
            self.close()
            self.launch()
        if self._served == 0:
            self.bytes_per_ms = float(self._receive().get("bytes_per_ms", 0.0))
        self._served += 1
        self._prepared = ""
        request = {"prepare": reference, "compiled": self._compiled, "flush_bytes": self._flush_bytes}
        self._ask({**request, **plan, **blobs})
        self._prepared = key

    @property
    def _alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def measure(self, count: int) -> Turn:
        """`count` calls in a row.

        Raises:
            BaselineFailed: it fails now, or takes too long.
        """
        start = time.perf_counter()
        answer = self._ask({"measure": count})
        wall_ms = (time.perf_counter() - start) * 1e3 - answer["led_ms"]
        return Turn(tuple(float(value) for value in answer["times"]), wall_ms)

    def least_traffic(self) -> int:
        """Bytes that every correct candidate must read, see `measure`; 0 if that cannot be told."""
        try:
            return int(self._ask({"traffic": True})["bytes"])
        except BaselineFailed:
            return 0

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        if not self._alive:
            raise BaselineFailed("its process has ended")
        self._commands.put(command)
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=_LONGEST_ANSWER_SECONDS)
        except queue.Empty:
            self._prepared, self._thread = "", None  # left to its own limits
            raise BaselineFailed("it takes too long") from None
        if "ended" in answer:
            raise BaselineFailed(answer["ended"])
        if "error" in answer:
            raise BaselineFailed(f"{answer['error'].get('error_type')}: {answer['error'].get('message')}"[:300])
        return answer

    def close(self) -> None:
        """End the process."""
        if self._alive:
            self._commands.put({"stop": True})
        self._thread, self._prepared = None, ""
