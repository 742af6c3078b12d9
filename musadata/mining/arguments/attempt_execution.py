"""Executing attempts on a mined module. Runs inside the sandbox, in the process that executed the mined code."""

import math
import random
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import islice
from types import CodeType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from musadata.mining.arguments.absent_packages import absent_packages
from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.growth import TooLarge, bounded_size
from musadata.mining.arguments.module_snapshots import MINED, Snapshot
from musadata.mining.arguments.operations import OperationCounter, Work, counted_work, refusing_rows
from musadata.mining.reading.messages import NO_TENSOR, Said
from musadata.mining.reading.results import tensors

MAX_ELEMENTS = 1 << 20  # of one input; an attempt with a larger one is not executed
HELPERS = {"torch": torch, "nn": nn, "F": torch.nn.functional, "SimpleNamespace": SimpleNamespace}
HELPERS |= {"math": math, "partial": partial}
TRANSIENT = "<reference>"
ASSIGNED_TO = re.compile(r"^[\w, ]+ = ")  # a name there holds an older value, if any
MAX_LINES = 6  # of a failing expression
# A large module and a long call use up more tries: a clock must not decide what is found.
PARAMETERS_PER_TRY = 1_000_000
WORK_PER_TRY = 60_000_000
PARAMETERS_PER_TENSOR = 5000  # which take as long as one of them to make: a network of many layers may be small
TRIES_OF_OVERFLOW = 40
MAX_KEPT = 64_000_000  # parameters of all modules kept for later attempts
LAZY = (UninitializedParameter, UninitializedBuffer)
STAGES = ("", "inputs", "init", "forward", "lazy")  # where an attempt may fail, the least telling first


@dataclass(frozen=True)
class Result:
    """Result of an attempt. `elements`: total of all inputs and outputs; `parameters`: of the module; `rows`: of the
    first output."""

    ok: bool
    error: str = ""
    line: str = ""
    place: tuple[int, ...] = ()  # instructions of the mined code that raised, outermost call first
    layers: int = 0  # that returned before it failed: those inside `nn.Sequential` fail at the same place
    operands: tuple[int, ...] = ()  # inputs whose memory the failing statement reads
    stage: str = ""  # "init", "inputs" or "forward", where it failed
    elements: int = 0
    parameters: int = 0
    repeatable: bool = True  # a second call returned the same values
    finite: bool = True
    rows: int = 0

    @property
    def progress(self) -> tuple[int, tuple[int, ...], int]:
        """How far in the code a failed attempt came: stage, instructions of the calls, layers that ended."""
        return STAGES.index(self.stage), self.place, self.layers


@dataclass
class Built:
    """A constructed module. `generator`: the state of torch's random generator after construction."""

    model: Any
    parameters: int
    generator: torch.Tensor
    snapshot: Snapshot | None


@dataclass
class AttemptRunner:
    """Constructs and calls one mined module with different arguments, up to a number of tries."""

    source: str
    max_tries: int
    tries: int = 0
    batched: bool = False  # an attempt has returned an item for each one of its batch, and so must those that `works`
    space: dict[str, Any] = field(default_factory=dict)
    _seen: dict[Attempt, Result] = field(default_factory=dict)
    _unbuildable: dict[tuple[str, ...], Result] = field(default_factory=dict)
    _kept: dict[tuple[str, ...], Built] = field(default_factory=dict)

    def load(self) -> type:
        """Execute the mined code and return its `Model`."""
        self.space = {"__name__": MINED}
        with absent_packages(self.source):
            exec(compile(self.source, TRANSIENT, "exec"), self.space)
        model: type = self.space["Model"]
        return model

    @property
    def exhausted(self) -> bool:
        return self.tries >= self.max_tries

    def is_refused(self, init: tuple[str, ...]) -> bool:
        """Whether the constructor has refused these arguments, so that no inputs help."""
        return init in self._unbuildable

    def value(self, text: str) -> Any:
        """The value of an expression of an attempt."""
        return eval(_compiled(text), {**HELPERS, **self.space})

    def attempt(self, attempt: Attempt, *, twice: bool = False) -> Result:
        """Construct and call the module; the result of a repeated attempt is cached."""
        if attempt in self._seen and not twice:
            return self._seen[attempt]
        self.tries += 1
        with warnings.catch_warnings(), counted_work() as work:
            warnings.simplefilter("ignore")
            result = self._attempt(attempt, twice, work)
        result = replace(result, layers=work.layers)
        self._seen[attempt] = result
        self.tries += work.total // WORK_PER_TRY
        return result

    def works(self, attempt: Attempt) -> bool:
        """Whether a variant of an attempt that works does so as well, and treats its batch alike.

        What `x.view(-1, 800)` makes of an image of another size are rows of several images, where it fits at all.
        """
        result = self.attempt(attempt) if not self.exhausted else None
        if result is None or not result.ok:
            return False
        batch = attempt.batch()
        if self.batched:
            return result.rows == batch
        others = attempt.values().count(batch) - sum(draw.shape[:1] == (batch,) for draw in attempt.draws)
        self.batched = result.rows == batch > 1 and not others
        return True

    def _attempt(self, attempt: Attempt, twice: bool, work: Work) -> Result:
        if any(draw.elements > MAX_ELEMENTS for draw in attempt.draws):
            return Result(False, f"{TooLarge.__name__}: input", stage="inputs")
        if attempt.init in self._unbuildable:
            return self._unbuildable[attempt.init]
        try:
            built = self._build(attempt.init)
        except Exception as error:
            self.tries += _charge(error)
            self._unbuildable[attempt.init] = failed = self._failure(error, "init")
            return failed
        if built.parameters < 0:
            return Result(False, "ValueError: parameters get their shapes from the first input", stage="lazy")
        stage, given = "inputs", []
        try:
            inputs = self._draw(attempt, built)
            stage, given = "forward", [_copied(item) for item in inputs]
            with torch.no_grad(), refusing_rows(given, TRANSIENT, work):
                outputs = tensors(built.model(*given))
                again = tensors(built.model(*[_copied(item) for item in inputs])) if twice else outputs
        except Exception as error:
            self.tries += _charge(error)
            return self._failure(error, stage, built.parameters, given)
        finally:
            self._put_back(attempt.init, built)
        if not outputs or not all(item.numel() for item in outputs):
            place = (sys.maxsize,) if outputs else ()  # empty ones: it ran to its end
            return Result(False, f"ValueError: {NO_TENSOR}", place=place, stage="forward")
        parts = [*tensors(inputs), *outputs]
        repeatable = len(outputs) == len(again) and all(_same(a, b) for a, b in zip(outputs, again, strict=True))
        finite = all(bool(item.isfinite().all()) for item in outputs)
        elements = sum(item.numel() for item in parts)
        rows = len(outputs[0]) if outputs[0].dim() else 0
        return Result(True, "", "", (), 0, (), "", elements, built.parameters, repeatable, finite, rows=rows)

    def operations(self, attempt: Attempt) -> int:
        """Multiply-adds of convolutions and matrix products in one call; of its layers alone, if it allows no mode."""
        built = self._build(attempt.init)
        inputs = self._draw(attempt, built)
        counter = OperationCounter()
        with warnings.catch_warnings(), torch.no_grad(), counted_work() as work:
            warnings.simplefilter("ignore")
            try:
                with counter:
                    built.model(*inputs)
            except NotImplementedError:  # flex attention knows no dispatch mode
                built.model(*inputs)
        self._put_back(attempt.init, built)
        return max(counter.total, work.total)

    def _build(self, init: tuple[str, ...]) -> Built:
        """The module for these arguments, new or unchanged since construction; `parameters` is -1 for a lazy module."""
        if init in self._kept:
            return self._kept.pop(init)
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` spends a millisecond on devices
        random.seed(0)
        np.random.seed(0)
        with bounded_size():
            model = self.space["Model"](*[self.value(text) for text in init])
        if any(isinstance(item, LAZY) for item in [*model.parameters(), *model.buffers()]):
            return Built(model, -1, torch.get_rng_state(), None)
        sizes = [item.numel() for item in model.parameters()]
        parameters = sum(sizes)
        self.tries += (parameters + PARAMETERS_PER_TENSOR * len(sizes)) // PARAMETERS_PER_TRY
        return Built(model, parameters, torch.get_rng_state(), Snapshot(model))

    def _put_back(self, init: tuple[str, ...], built: Built) -> None:
        """Cache a module for later attempts with the same arguments, unless a call has changed it for good."""
        if built.snapshot is None or not built.snapshot.restore():
            return
        self._kept[init] = built
        while sum(item.parameters for item in self._kept.values()) > MAX_KEPT or len(self._kept) > 8:
            del self._kept[next(iter(self._kept))]

    def _draw(self, attempt: Attempt, built: Built) -> list[Any]:
        torch.set_rng_state(built.generator)
        return [self.value(draw.literal) if draw.kind == "literal" else draw.draw(torch) for draw in attempt.draws]

    def _failure(self, error: Exception, stage: str, parameters: int = 0, given: Sequence[Any] = ()) -> Result:
        message = f"{type(error).__name__}: {error}"[:2000]
        message = re.sub(r"\b0x[0-9a-f]{6,}", "0x", message)
        calls = _mined_calls(error, self.source.splitlines())
        place = tuple(call.instruction for call in calls)
        text = calls[-1].text if calls else ""
        operands = _operands(calls, given)
        return Result(False, message, text, place, 0, operands, stage, parameters=parameters)


def _charge(error: Exception) -> int:
    """How many tries more a failure counts as: what does not fit in memory has taken long before."""
    if isinstance(error, TooLarge):
        return error.charge // PARAMETERS_PER_TRY
    return TRIES_OF_OVERFLOW if Said.LARGE.read(str(error)) else 0


@lru_cache(maxsize=1024)
def _compiled(text: str) -> CodeType:
    return compile(text.strip(), "<attempt>", "eval")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())


@dataclass(frozen=True)
class _Call:
    """A call of mined code: where it failed, the text of the line, and its local variables."""

    instruction: int
    text: str
    variables: dict[str, Any]


def _mined_calls(error: Exception, lines: list[str]) -> list[_Call]:
    """The calls in an exception's traceback, outermost first. `traceback` would read files."""
    trace, found = error.__traceback__, []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == TRANSIENT:
            position = next(islice(code.co_positions(), trace.tb_lasti // 2, None), (None, None, None, None))
            last = min(position[1] or trace.tb_lineno, trace.tb_lineno + MAX_LINES)
            text = " ".join(line.strip() for line in lines[trace.tb_lineno - 1 : last])
            found.append(_Call(trace.tb_lasti, text, trace.tb_frame.f_locals))
        trace = trace.tb_next
    return found


def _operands(calls: list[_Call], given: Sequence[Any]) -> tuple[int, ...]:
    """The inputs, or views of them, that the innermost failing statement reads which reads any by a local name."""
    memory = {place: number for number, item in enumerate(given) for place in _storages(item)}
    for call in reversed(calls):
        names = re.findall(r"\w+", ASSIGNED_TO.sub("", call.text))
        read = [call.variables[name] for name in names if name in call.variables]
        found = dict.fromkeys(memory[place] for item in read for place in _storages(item) if place in memory)
        if found:
            return tuple(found)
    return ()


def _storages(value: Any) -> list[int]:
    """Where the elements of a tensor lie, or of those in a short list."""
    strided = [item for item in tensors(value)[:8] if item.layout == torch.strided]
    return [place for item in strided if (place := item.untyped_storage().data_ptr())]
