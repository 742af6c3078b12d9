"""The expected results, from the reference, which runs in a process without candidates."""

import hashlib
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from musadata.records import InputSpec
from musadata.sandbox import Limits, Outcome, Sandbox
from musadata.verifier.protocol.entry_points import RUN_REFERENCE
from musadata.verifier.protocol.message_encoding import decode, encode
from musadata.verifier.protocol.messages import Json, ReferenceFacts, ReferenceRequest, ReferenceSet
from musadata.verifier.protocol.tensors import Array, BadTensors, unpack
from musadata.verifier.protocol.variants import INFINITE, PLAIN, InputSet

_CACHED_BYTES = 96 << 20  # and one expectation of more than that: its candidates come one after the other
_LEAN_FILE_MB = 1200
_NO_CONDITION = Array("float32", (), np.zeros((), np.float32), b"")


@dataclass(frozen=True)
class ExpectedSet(ReferenceSet):
    """The expected result for one input set; tuples are in the order of the result's tensors.

    `oracle` is in float64. `conditions` are how far it moves if inputs change by one unit in the last place, or the
    height of the step near which an element is. `state`: of a model of its own; empty for that of the expectation.
    """

    inputs: bytes = b""
    expected: tuple[Array, ...] = ()
    oracle: tuple[Array, ...] = ()
    conditions: tuple[Array, ...] = ()
    state: bytes = b""

    @property
    def discriminating(self) -> bool:
        return self.plan.variant == INFINITE or any(tolerance.discriminating for tolerance in self.tolerances)


@dataclass(frozen=True)
class Expectation:
    """Everything that a verification needs to know about the reference. `initial`: digests of its parameters and
    buffers by name, as they are constructed; `state`: their values that candidates are judged with. `as_constructed`:
    candidates keep the state that they construct, so that results alone show whether it is the reference's."""

    init_arguments: Json
    parameters: tuple[str, ...]
    state: bytes
    sets: tuple[ExpectedSet, ...]
    initial: Mapping[str, str]
    as_constructed: bool = False


class BadReference(Exception):
    """The reference cannot be run, so no candidate can be judged."""


class ReferenceRunner:
    """Runs references in a sandbox and caches the latest expectations. Safe for any number of threads."""

    def __init__(self, sandbox: Sandbox, limits: Limits):
        self._sandbox = sandbox
        self._limits = limits
        self._cache: OrderedDict[str, Expectation] = OrderedDict()
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}  # by key, so that each expectation is computed once

    def expect(
        self,
        source: str,
        shape_sets: Sequence[Sequence[InputSpec]],
        plans: Sequence[InputSet],
        seed: int,
        seconds: float = math.inf,
        as_constructed: bool = False,
        lean: bool = False,
    ) -> Expectation:
        """The expected results for every planned input set, within so many seconds of CPU time. `lean`: see
        `ReferenceRequest`.

        Raises:
            BadReference: it fails, exceeds a limit, or returns nothing that can be compared.
        """
        specs = tuple(map(tuple, shape_sets))
        request = ReferenceRequest(source, specs, tuple(plans), seed, as_constructed, lean)
        key = hashlib.sha256(json.dumps(encode(request)).encode()).hexdigest()
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            found = self._recall(key)
            if found is None:
                found = self._run(request, seconds)
                if as_constructed:
                    found = replace(found, parameters=(), initial={}, as_constructed=True)
                self._remember(key, found)
        return found

    def _recall(self, key: str) -> Expectation | None:
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
            return self._cache.get(key)

    def _run(self, request: ReferenceRequest, seconds: float) -> Expectation:
        limits = replace(self._limits, seconds=min(seconds, self._limits.seconds))
        if request.lean:  # at declared sizes, once
            limits = replace(limits, file_mb=max(limits.file_mb, _LEAN_FILE_MB))
        outcome = self._sandbox.call(RUN_REFERENCE, encode(request), limits=limits)
        plain = tuple(plan for plan in request.sets if plan.variant == PLAIN)
        if outcome.status == "crash" and 0 < len(plain) < len(request.sets):
            # PyTorch does not check all that it is given: an output_size of repeat_interleave that integers do not have
            # as their sum ends the process. Then inputs that were not declared prove nothing.
            outcome = self._sandbox.call(RUN_REFERENCE, encode(replace(request, sets=plain)), limits=limits)
        if not outcome.ok:
            last = "".join(
                f"; {line}" for line in outcome.stderr.strip().splitlines()[-1:] if outcome.status == "crash"
            )
            what = f"{outcome.error_type}: {outcome.message}" if outcome.error_type else outcome.message + last
            raise BadReference(f"The reference does not run ({outcome.status}): {what}"[:400])
        try:
            return _read_expectation(outcome)
        except (BadTensors, KeyError, ValueError) as error:
            raise BadReference("The reference's process does not answer as it should.") from error

    def _remember(self, key: str, expectation: Expectation) -> None:
        with self._lock:
            self._cache[key] = expectation
            self._turns.pop(key, None)
            sizes = {key: _size(one) for key, one in self._cache.items()}
            large = [key for key, size in sizes.items() if size > _CACHED_BYTES]
            for one in large[:-1]:
                del self._cache[one]
            small = [key for key in self._cache if key not in large]
            while len(small) > 1 and sum(sizes[one] for one in small) > _CACHED_BYTES:
                del self._cache[small.pop(0)]


def _size(expectation: Expectation) -> int:
    arrays = [array for item in expectation.sets for array in (*item.expected, *item.oracle)]
    return len(expectation.state) + sum(len(a.raw) for a in arrays) + sum(len(s.inputs) for s in expectation.sets)


def _read_expectation(outcome: Outcome) -> Expectation:
    facts = decode(outcome.value, ReferenceFacts)
    if facts is None:
        raise ValueError("not the facts of a reference")
    sets = tuple(_read_set(index, item, outcome.files) for index, item in enumerate(facts.sets))
    initial = {str(name): str(digest) for name, digest in dict(facts.initial).items()}
    return Expectation(facts.init, facts.parameters, outcome.files["state"], sets, initial)


def _read_set(index: int, item: ReferenceSet, files: dict[str, bytes]) -> ExpectedSet:
    expected, oracle, conditions = (unpack(files[f"{name}{index}"]) for name in ("expected", "oracle", "condition"))
    order = sorted(expected, key=int)
    oracle, conditions = oracle or expected, conditions or dict.fromkeys(order, _NO_CONDITION)
    return ExpectedSet(
        **vars(item),
        inputs=files[f"inputs{index}"],
        expected=tuple(expected[name] for name in order),
        oracle=tuple(oracle[name] for name in order),
        conditions=tuple(conditions[name] for name in order),
        state=files[f"state{index}"] if item.own_state else b"",
    )
