"""The processes that a candidate is timed against, and whose turn it is on the device."""

import hashlib
import threading
import warnings

from musadata.config import VerifierConfig
from musadata.records import Timing
from musadata.sandbox import Sandbox
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.build_cache import cache_folder
from musadata.verifier.protocol.messages import PrepareReference, number_blobs
from musadata.verifier.trusted.baseline_process import Baseline, BaselineFailed
from musadata.verifier.trusted.device_lock import DeviceLock, DeviceSeat
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.timing import Driver, TimingPolicy, time_candidate, time_compiled, timed_sets


class BaselinePool:
    """The reference in eager mode and, if the config says so, compiled. One device, any number of threads."""

    def __init__(self, config: VerifierConfig, backend: Backend, sandbox: Sandbox):
        self._config = config
        self._policy = TimingPolicy(repetitions=config.timed_runs)
        self._eager = Baseline(sandbox, backend.clock, False, backend.flush_bytes)
        self._compiled = Baseline(sandbox, backend.clock, True, backend.flush_bytes)
        self._compiled_times: dict[str, Timing | None] = {}
        self._folder, self._name, self._seats = cache_folder() / "locks", backend.identity, backend.seats
        self._start_lock = threading.Lock()
        self._eager.launch()

    def lock(self) -> DeviceLock:
        """A new candidate's lock on the device."""
        return DeviceLock(self._folder, self._name)

    def seat(self) -> DeviceSeat | None:
        """A new candidate's place on the device; None where there is room for all."""
        return DeviceSeat(self._folder, self._name, self._seats) if self._seats else None

    def start(self, reference: str, seed: int, expectation: Expectation) -> Driver:
        """Begin to time a candidate; the caller holds the device alone."""
        timed = [expectation.sets[index] for index in timed_sets(expectation)]
        inputs = number_blobs([item.inputs for item in timed])
        request = PrepareReference(
            reference, seed, expectation.init_arguments, timed[0].literals, expectation.state, inputs
        )
        with self._start_lock:
            eager = _prepared(self._eager, request)
            compiled = self._time_compiled(request) if self._config.torch_compile else None
        schedule = time_candidate(self._policy, eager, compiled, expectation, self._config.strict)
        return Driver(schedule)

    def _time_compiled(self, request: PrepareReference) -> Timing | None:
        """Measured once per reference: compiling takes far longer than everything else."""
        key = hashlib.sha256(request.reference.encode() + request.inputs["0"]).hexdigest()
        if key not in self._compiled_times:
            compiled = _prepared(self._compiled, request)
            self._compiled_times[key] = time_compiled(self._policy, compiled) if compiled else None
        return self._compiled_times[key]

    def close(self) -> None:
        """End both processes."""
        self._eager.close()
        self._compiled.close()


def _prepared(baseline: Baseline, request: PrepareReference) -> Baseline | None:
    """A reference that fails on the device is a missing baseline, never the candidate's fault; a warning says why."""
    try:
        baseline.prepare(request)
    except BaselineFailed as error:
        warnings.warn(f"{baseline.name} is no baseline: {error}", RuntimeWarning, stacklevel=2)
        return None
    return baseline
