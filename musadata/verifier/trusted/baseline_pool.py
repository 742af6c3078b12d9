"""The processes that a candidate is timed against, and whose turn it is on the device."""

import hashlib
import threading
import warnings
from functools import partial

from musadata.config import VerifierConfig
from musadata.records import Timing
from musadata.sandbox import Sandbox
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.build_cache import cache_folder
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.messages import PrepareReference, number_blobs
from musadata.verifier.trusted.baseline_process import Baseline, BaselineFailed
from musadata.verifier.trusted.device_lock import DeviceLock, DeviceSeat
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.measured_timing import MeasureChecks, allow, blame_slow
from musadata.verifier.trusted.plan import Exercise, MeasureSet, derive_seed
from musadata.verifier.trusted.timing import (
    Driver,
    ProofChecks,
    TimingPolicy,
    time_candidate,
    time_compiled,
    timed_sets,
)

_WINDOW_BYTES = 256 << 20  # what passes between processes at a time


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
        self._flush_bytes, self._window_kind = backend.flush_bytes, "device"
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
        schedule = time_candidate(self._policy, eager, compiled, ProofChecks(expectation), self._config.strict)
        return Driver(schedule)

    def start_measure(self, measure: MeasureSet, exercise: Exercise, seed: int, expectation: Expectation) -> Driver:
        """Begin to prove and time a candidate at the measure size; the caller holds the device alone.

        Raises:
            BaselineFailed: the reference does not run at that size, here and now.
        """
        is_same = bool(expectation.sets) and measure.reference == exercise.reference
        state = expectation.state if is_same else b""
        request = measures.PrepareMeasure(measure.reference, seed, measure.specs, state)
        derive = partial(derive_seed, self._config, exercise.task_id, "measure")
        with self._start_lock:
            ready = self._eager.prepare_measure(request)
            eager_ms = min(self._eager.measure(2).times)
            window = self._eager.ask(measures.OpenWindow(self._window_kind, _WINDOW_BYTES), measures.WindowOpened)
            compiled = self._time_compiled(request) if self._config.torch_compile else None
        if window.kind == "host":  # the device's cannot be shared
            self._window_kind = window.kind
        seeds, strict = (derive("proof"), derive("again")), self._config.strict
        checks = MeasureChecks(self._eager, ready, not is_same, window.bytes, *seeds, strict, not expectation.sets)
        checks.use_host = partial(self._use_host, window.kind)
        plan = measures.MeasurePlan(
            specs=measure.specs,
            seed=seed,
            init=None if is_same else messages.Literal(ready.init),
            parameters=ready.parameters,
            state=() if is_same else ready.state,
            window=window.file,
            window_bytes=window.bytes,
            window_kind=window.kind,
            flush_bytes=self._flush_bytes,
        )
        schedule = time_candidate(self._policy, self._eager, compiled, checks, self._config.strict)
        return Driver(schedule, plan, partial(allow, eager_ms), self._eager.release, partial(blame_slow, eager_ms))

    def _use_host(self, kind: str) -> bool:
        self._window_kind = "host"
        return kind != "host"

    def _time_compiled(self, request: PrepareReference | measures.PrepareMeasure) -> Timing | None:
        """Measured once per reference: compiling takes far longer than everything else."""
        inputs = request.inputs["0"] if isinstance(request, PrepareReference) else repr(request.specs).encode()
        key = hashlib.sha256(request.reference.encode() + inputs).hexdigest()
        if key not in self._compiled_times:
            compiled = _prepared(self._compiled, request)
            self._compiled_times[key] = time_compiled(self._policy, compiled) if compiled else None
            if compiled is not None and isinstance(request, measures.PrepareMeasure):
                compiled.release()
        return self._compiled_times[key]

    def close(self) -> None:
        """End both processes."""
        self._eager.close()
        self._compiled.close()


def _prepared(baseline: Baseline, request: PrepareReference | measures.PrepareMeasure) -> Baseline | None:
    """A reference that fails on the device is a missing baseline, never the candidate's fault; a warning says why."""
    try:
        if isinstance(request, PrepareReference):
            baseline.prepare(request)
        else:
            baseline.prepare_measure(request)
    except BaselineFailed as error:
        warnings.warn(f"{baseline.name} is no baseline: {error}", RuntimeWarning, stacklevel=2)
        return None
    return baseline
