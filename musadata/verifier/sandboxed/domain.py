"""Inside the sandbox: what a reference accepts beyond its declared inputs, found by asking it a few times.

A range that was declared is a sample of what a function is for. Real values go as far as the reference gives finite
results of the same shapes. Integers go as far as the reference refuses what is beyond: then they are indices, lengths
or classes, and all of these are right. What has no bound at all, such as a count, stays as it was declared, down to 0.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.tracing.inputs import draw
from musadata.verifier.sandboxed.draws import is_constant, is_real

Run = Callable[[list[Any]], list[torch.Tensor]]
_MOST_ASKED = 48  # calls of the reference for all inputs together
_MOST_SIZES, _MOST_NAMED = 8, 4
_INTEGER = re.compile(r"(?<![\w.])-?\d{1,6}(?![\w.])")


def find_domain(run: Run, specs: Sequence[InputSpec], model: torch.nn.Module, text: str, seed: int) -> list[InputSpec]:
    """The specs with what the reference accepts: each input with the others as they were found before it."""
    domain = _Domain(run, list(specs), seed)
    tensors = [*model.parameters(), *model.buffers()]
    sizes = {size for shape in (*(one.shape for one in tensors), *(one.shape for one in specs)) for size in shape}
    named = sorted({int(match[0]) for match in _INTEGER.finditer(text)}, key=abs)  # what stands for none, among others
    for at, spec in enumerate(specs):
        if spec.kind == "uniform" and is_real(spec) and not spec.literal and not is_constant(spec):
            domain.widen_real(at)
        elif spec.kind == "integers" and spec.dtype.startswith(("int", "uint")) and 0 not in spec.shape:
            domain.widen_whole(at, sizes, named)
    return domain.specs


class _Domain:
    def __init__(self, run: Run, specs: list[InputSpec], seed: int):
        self.specs = specs
        self._run, self._seed, self._left = run, seed, _MOST_ASKED
        self._plain = run(draw(specs, seed))

    def _accepts(self, specs: list[InputSpec], at: int = 0, number: int | None = None) -> bool:
        """Whether it gives results of the same shapes, no fewer of them finite, with an integer at some place."""
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            values = draw(specs, self._seed)
            if number is not None:
                values[at].view(-1)[values[at].numel() // 2] = number
            found = self._run(values)
        except Exception:  # whatever the reference raises; so do tensors that cannot hold the number
            return False
        return len(found) == len(self._plain) and all(
            one.shape == plain.shape and int(one.isfinite().sum()) >= int(plain.isfinite().sum())
            for one, plain in zip(found, self._plain, strict=True)
        )

    def widen_real(self, at: int) -> None:
        """Values of both signs, or positive ones from small to large."""
        spec = self.specs[at]
        size = max(abs(spec.low), abs(spec.high))
        wider = [replace(spec, kind="normal", low=-size, high=size)]
        if spec.low >= 0.0:
            wider.append(replace(spec, low=spec.low / 8.0 or size / 1024.0, high=8.0 * size))
        for trial in wider:
            specs = [*self.specs[:at], trial, *self.specs[at + 1 :]]
            if self._accepts(specs):
                self.specs = specs
                return

    def widen_whole(self, at: int, sizes: set[int], named: Sequence[int]) -> None:
        """From the lowest to the highest that it takes; and what stands for none, as far as it is named."""
        spec = self.specs[at]
        low, high, limits = math.ceil(spec.low), math.ceil(spec.high) - 1, torch.iinfo(getattr(torch, spec.dtype))
        beyond = 2 * max(*sizes, *map(abs, (low, high)), 1) + 1
        counts = sorted((size for size in sizes if size > 1), reverse=True)[:_MOST_SIZES]

        def takes(number: int) -> bool:
            return limits.min <= number <= limits.max and self._accepts(self.specs, at, number)

        has_top = not takes(beyond)
        top = next((size - 1 for size in counts if size - 1 > high and takes(size - 1)), high) if has_top else high
        bottom = 0 if low > 0 and takes(0) else low
        has_bottom = low >= 0 and takes(-1) and not takes(-beyond)
        if has_bottom:
            bottom = next((-size for size in counts if takes(-size)), bottom)
        special = [one for one in named if bottom <= one <= top][:_MOST_NAMED]
        if has_top and not takes(-beyond):
            special += [one for one in named if one < bottom and takes(one)]
        if (bottom, top) == (low, high) and not special:
            return
        text = repr(tuple(special)) if special else ""
        wide = replace(spec, low=float(bottom), high=float(top + 1), literal=text)
        if self._accepts([*self.specs[:at], wide, *self.specs[at + 1 :]]):
            self.specs[at] = wide
