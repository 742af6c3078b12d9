"""Trying attempts on a module. Everything here runs inside the sandbox, in the process that executed the mined code."""

import math
import re
import traceback
import warnings
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from musadata.mining.attempts import Attempt
from musadata.mining.operations import OperationCounter

MAX_ELEMENTS = 1 << 20  # of one input: larger attempts are not made at all
HELPERS = {"torch": torch, "nn": nn, "F": torch.nn.functional, "SimpleNamespace": SimpleNamespace, "math": math}
TRANSIENT = "<reference>"
PARAMETERS_PER_TRY = 250_000  # a large module uses its tries up faster: time must not decide what is found
LAZY = (UninitializedParameter, UninitializedBuffer)


@dataclass(frozen=True)
class Result:
    """How an attempt went. `elements`: of all inputs and outputs together; `parameters`: in the module."""

    ok: bool
    error: str = ""
    line: str = ""
    stage: str = ""  # "init", "inputs" or "forward", where it failed
    elements: int = 0
    parameters: int = 0
    steady: bool = True  # a second call gave the same
    finite: bool = True


@dataclass
class Bench:
    """A mined module, ready to be tried; counts how often it was."""

    source: str
    most_tries: int
    tries: int = 0
    space: dict[str, Any] = field(default_factory=dict)
    _seen: dict[Attempt, Result] = field(default_factory=dict)

    def load(self) -> type:
        """Execute the mined code and return its `Model`."""
        self.space = {"__name__": "mined"}
        exec(compile(self.source, TRANSIENT, "exec"), self.space)
        model: type = self.space["Model"]
        return model

    @property
    def spent(self) -> bool:
        return self.tries >= self.most_tries

    def value(self, text: str) -> Any:
        """The value of an expression of an attempt."""
        return eval(text, {**HELPERS, **self.space})

    def attempt(self, attempt: Attempt, *, twice: bool = False) -> Result:
        """Build and call the module; an attempt that was made before is answered from memory."""
        if attempt in self._seen and not twice:
            return self._seen[attempt]
        self.tries += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self._attempt(attempt, twice)
        self._seen[attempt] = result
        self.tries += result.parameters // PARAMETERS_PER_TRY
        return result

    def _attempt(self, attempt: Attempt, twice: bool) -> Result:
        if any(draw.elements > MAX_ELEMENTS for draw in attempt.draws):
            return Result(False, "ValueError: input too large", stage="inputs")
        stage, parameters = "init", 0
        try:
            torch.manual_seed(0)
            model = self.space["Model"](*[self.value(text) for text in attempt.init])
            if any(isinstance(item, LAZY) for item in [*model.parameters(), *model.buffers()]):
                return Result(False, "ValueError: parameters get their shapes from the first input", stage="lazy")
            parameters = sum(item.numel() for item in model.parameters())
            stage = "inputs"
            inputs = [
                self.value(draw.literal) if draw.kind == "literal" else draw.draw(torch) for draw in attempt.draws
            ]
            stage = "forward"
            with torch.no_grad():
                outputs = tensors(model(*[_copied(item) for item in inputs]))
                again = tensors(model(*[_copied(item) for item in inputs])) if twice else outputs
        except Exception as error:
            message = f"{type(error).__name__}: {error}"[:2000]
            message = re.sub(r"\b0x[0-9a-f]{6,}", "0x", message)
            return Result(False, message, _failing_line(error, self.source), stage, parameters=parameters)
        if not outputs or not all(item.numel() for item in outputs):
            return Result(False, "ValueError: no tensor comes out", stage="forward")
        parts = [*tensors(inputs), *outputs]
        steady = len(outputs) == len(again) and all(_same(a, b) for a, b in zip(outputs, again, strict=True))
        finite = all(bool(item.isfinite().all()) for item in outputs)
        elements = sum(item.numel() for item in parts)
        return Result(True, elements=elements, parameters=parameters, steady=steady, finite=finite)

    def operations(self, attempt: Attempt) -> int:
        """Multiply-adds of convolutions and matrix products in one call."""
        torch.manual_seed(0)
        model = self.space["Model"](*[self.value(text) for text in attempt.init])
        inputs = [self.value(draw.literal) if draw.kind == "literal" else draw.draw(torch) for draw in attempt.draws]
        with warnings.catch_warnings(), torch.no_grad(), OperationCounter() as counter:
            warnings.simplefilter("ignore")
            model(*inputs)
        return counter.total


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in tensors(part)]
    if isinstance(value, dict):
        return [item for part in value.values() for item in tensors(part)]
    return []


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())


def _failing_line(error: Exception, source: str) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == TRANSIENT]
    lines = source.splitlines()
    return lines[frames[-1].lineno - 1].strip() if frames and frames[-1].lineno else ""
