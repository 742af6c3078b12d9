"""The processes that a candidate is timed against, and whose turn it is on the device."""

import hashlib
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from musadata.config import VerifierConfig
from musadata.records import Timing
from musadata.sandbox import Sandbox
from musadata.verifier.backends.protocol import Backend
from musadata.verifier.compilation.build_cache import cache_folder
from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.messages import PrepareReference, number_blobs
from musadata.verifier.protocol.streams import stream_of
from musadata.verifier.trusted.baseline_process import Baseline, BaselineFailed
from musadata.verifier.trusted.device_lock import DeviceLock, DeviceSeats
from musadata.verifier.trusted.expectation import Expectation
from musadata.verifier.trusted.measured_timing import MeasureChecks, allow, blame_slow
from musadata.verifier.trusted.plan import Exercise, MeasureSet, derive_seed
from musadata.verifier.trusted.timing import ProofChecks, time_candidate, time_compiled, timed_sets
from musadata.verifier.trusted.timing_driver import Driver
from musadata.verifier.trusted.timing_policy import TimingPolicy

_WINDOW_BYTES = 256 << 20  # what passes between processes at a time
# References that are prepared for candidates, of which one is timed. They take turns together: all prepare, then one
# after the other is timed, so with more of them the device waits less often.
_AT_ONCE = 8
# Of a measure size's inputs, with results, and of its state, in both processes; and what others may need. Where an
# oracle in float64 is needed and memory lacks, the candidate is judged again with all of it.
_COPIES, _LEAST_NEED = 8, 4 << 30
# Half of a device's memory is handed out in parts to what is prepared at its measure size, by all processes that share
# the device. Contexts have the other half: a pipeline on 16 cores has 32 candidates' and some 50 references'.
_PART_MB, _SHARED = 4096, 2


class _Eager:
    """Processes for references in eager mode, of which each candidate gets one for as long as it is timed, in the order
    in which they ask."""

    def __init__(self, make: Callable[[], Baseline]):
        self._free = [make() for _ in range(_AT_ONCE)]
        self._all = tuple(self._free)
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._asleep = set(self._all[:-1])
        self._free[-1].launch()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
            self._changed.wait_for(lambda: self._queue[0] is ticket and bool(self._free))
            yield
            self._queue.popleft()
            self._changed.notify_all()

    @contextmanager
    def taken(self, reference: str, alone: bool = False) -> Iterator[Baseline]:
        """One that is free, until the block is left; the one that has served this reference last, if it is. For one
        that has the device alone the others free what they keep."""
        with self._turn():
            found = next((one for one in self._free if one.reference == reference), self._free[-1])
            self._free.remove(found)
            self._asleep.discard(found)  # the first command starts it
            if len(self._free) < _AT_ONCE - 1 and self._free and self._free[-1] in self._asleep:
                self._asleep.discard(self._free[-1])  # the next candidate need not wait for its start
                self._free[-1].launch()
            for other in self._free if alone else ():
                other.release(keep=False)
        try:
            yield found
        finally:
            with self._changed:
                self._free.append(found)
                self._changed.notify_all()

    def close(self) -> None:
        """End all processes."""
        for one in self._all:
            one.close()


class BaselinePool:
    """The reference in eager mode and, if the config says so, compiled. One device, any number of threads."""

    def __init__(self, config: VerifierConfig, backend: Backend, sandbox: Sandbox):
        self._config = config
        self._policy = TimingPolicy(repetitions=config.timed_runs)
        make = partial(Baseline, sandbox, backend.clock, False, backend.flush_bytes)
        self._eager, self._parts = _Eager(make), backend.memory_mb // (_SHARED * _PART_MB)
        self._compiled = Baseline(sandbox, backend.clock, True, backend.flush_bytes)
        self._compiled_times: dict[str, Timing | None] = {}
        self._folder, self._name, self._seats = cache_folder() / "locks", backend.identity, backend.seats
        self._compile_lock = threading.Lock()
        self._flush_bytes, self._window_kind = backend.flush_bytes, "device"

    def lock(self) -> DeviceLock:
        """A new candidate's lock on the device."""
        return DeviceLock(self._folder, self._name)

    def seat(self) -> DeviceSeats | None:
        """A new candidate's place on the device; None where there is room for all."""
        return DeviceSeats(self._folder, self._name, self._seats) if self._seats else None

    def start(self, reference: str, seed: int, expectation: Expectation, lock: DeviceLock) -> Driver:
        """Begin to time a candidate on its proof sets, alone on the device."""
        timed = [expectation.sets[index] for index in timed_sets(expectation)]
        inputs = number_blobs([item.inputs for item in timed])
        request = PrepareReference(
            reference, seed, expectation.init_arguments, timed[0].literals, expectation.state, inputs
        )
        with ExitStack() as stack:
            eager = stack.enter_context(self._eager.taken(reference))
            lock.take_alone()
            prepared = _prepared(eager, request)
            compiled = self._time_compiled(request) if self._config.torch_compile else None
            schedule = time_candidate(self._policy, prepared, compiled, ProofChecks(expectation))
            return Driver(schedule, close=stack.pop_all().close)

    def start_measure(
        self, measure: MeasureSet, exercise: Exercise, seed: int, expectation: Expectation, lock: DeviceLock
    ) -> Driver:
        """Begin to prove and time a candidate at the measure size. The device is shared until the candidate is called:
        drawing inputs, and the reference's results, take longer than most candidates.

        Raises:
            BaselineFailed: the reference does not run at that size, here and now.
        """
        tensors = [messages.TensorFacts(one.name, one.dtype, one.shape) for one in measure.specs if one.dtype]
        memory = DeviceSeats(self._folder, self._name, self._parts, "memory")
        need = _parts_of(_LEAST_NEED + _COPIES * stream_of(tensors).length)
        with ExitStack() as stack:
            stack.callback(memory.release)
            memory.take(memory.count if exercise.alone else need)
            eager = stack.enter_context(self._eager.taken(measure.reference, exercise.alone is not None))
            if exercise.alone:
                exercise.alone()
            stack.callback(eager.release)
            lock.share()
            is_same = bool(expectation.sets) and measure.reference == exercise.reference
            state = expectation.state if is_same else b""
            own = exercise.as_constructed
            request = measures.PrepareMeasure(measure.reference, seed, measure.specs, state, as_constructed=own)
            derive = partial(derive_seed, self._config, exercise.task_id, "measure")
            ready = eager.prepare_measure(request)
            memory.take_free(_parts_of(_COPIES * stream_of(ready.state).length))
            lock.give_way()
            eager_ms = eager.measure(1).times[0]
            lock.give_way()
            window = eager.ask(measures.OpenWindow(self._window_kind, _WINDOW_BYTES), measures.WindowOpened)
            compiled = None
            if self._config.torch_compile:
                lock.take_alone()
                compiled = self._time_compiled(request)
                lock.share()
            if window.kind == "host":  # the device's cannot be shared
                self._window_kind = window.kind
            seeds = derive("proof"), derive("again")
            has_own_state = not is_same and not own
            checks = MeasureChecks(eager, ready, has_own_state, window.bytes, *seeds, not expectation.sets)
            checks.as_constructed = own
            checks.use_host, checks.device = partial(self._use_host, window.kind), lock
            plan = measures.MeasurePlan(
                specs=measure.specs,
                seed=seed,
                init=None if is_same else messages.Literal(ready.init),
                parameters=() if own else ready.parameters,
                state=ready.state if has_own_state else (),
                window=window.file,
                window_bytes=window.bytes,
                window_kind=window.kind,
                flush_bytes=self._flush_bytes,
            )
            schedule = time_candidate(self._policy, eager, compiled, checks)
            close = stack.pop_all().close
            return Driver(schedule, plan, partial(allow, eager_ms, seeds[0]), close, partial(blame_slow, eager_ms))

    def _use_host(self, kind: str) -> bool:
        self._window_kind = "host"
        return kind != "host"

    def _time_compiled(self, request: PrepareReference | measures.PrepareMeasure) -> Timing | None:
        """Measured once per reference: compiling takes far longer than everything else."""
        with self._compile_lock:
            return self._time_compiled_once(request)

    def _time_compiled_once(self, request: PrepareReference | measures.PrepareMeasure) -> Timing | None:
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


def _parts_of(size: int) -> int:
    """How many parts of a device's memory so many bytes take."""
    return -(-size // (_PART_MB << 20))


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
