"""Inside the sandbox: what a reference accepts beyond its declared inputs, found by asking it a few times.

A range that was declared is a sample of what a function is for. Real values go as far as the reference gives finite
results of the same shapes. Masks and labels of a real dtype may lie between those that were declared. Integers go as
far as the reference refuses what is beyond: then they are indices, lengths or classes, and all of these are right, in
any order that it takes, and offsets may leave segments empty. What has no bound at all, such as a count, stays as it
was declared, down to 0, but for integers that integers are computed from: these go as far as the reference gives in
their own type what it gives in one of 64 bits.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from musadata.records import InputSpec
from musadata.tracing.inputs import draw, parse_literal
from musadata.verifier.sandboxed.draws import is_constant, is_real

Run = Callable[[list[Any]], list[torch.Tensor]]
_MOST_ASKED = 48  # calls of the reference for all inputs together
_MOST_SIZES, _MOST_NAMED = 8, 4
_MOST_UNBOUND = 1 << 31
_WHOLE = ("integers", "segments", "offsets")
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
        elif spec.kind == "choice" and getattr(torch, spec.dtype).is_floating_point:
            domain.widen_choice(at)
        elif spec.kind in _WHOLE and spec.dtype.startswith(("int", "uint")) and 0 not in spec.shape:
            domain.widen_whole(at, sizes, named)
    return domain.specs


class _Domain:
    def __init__(self, run: Run, specs: list[InputSpec], seed: int):
        self.specs = specs
        self._run, self._seed, self._left = run, seed, _MOST_ASKED
        self._plain = run(draw(specs, seed))

    def _accepts(self, specs: list[InputSpec], at: int = 0, number: int | None = None, in_long: bool = False) -> bool:
        """Whether it gives results of the same shapes, no fewer of them finite, with an integer at some place; and
        `in_long`, the same results where this input has 64 bits."""
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            values = draw(specs, self._seed)
            if number is not None:
                values[at].view(-1)[values[at].numel() // 2] = number
            found = self._run(values)
            long = self._run([*values[:at], values[at].long(), *values[at + 1 :]]) if in_long else []
        except Exception:  # whatever the reference raises; so do tensors that cannot hold the number
            return False
        same = all(torch.equal(one.double(), other.double()) for one, other in zip(found, long, strict=False))
        return (
            same
            and len(found) == len(self._plain)
            and all(
                one.shape == plain.shape and int(one.isfinite().sum()) >= int(plain.isfinite().sum())
                for one, plain in zip(found, self._plain, strict=True)
            )
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

    def widen_choice(self, at: int) -> None:
        """Values between those that a mask or a label had."""
        given = parse_literal(self.specs[at].literal)
        low, size = min(given), max(given) - min(given)
        wide = replace(self.specs[at], literal=repr((*given, low + 0.25 * size, low + 0.625 * size)))
        if self._accepts([*self.specs[:at], wide, *self.specs[at + 1 :]]):
            self.specs[at] = wide

    def widen_whole(self, at: int, sizes: set[int], named: Sequence[int]) -> None:
        """From the lowest to the highest that it takes; and what stands for none, as far as it is named."""
        self._reorder(at)
        spec = self.specs[at]
        low, high, limits = math.ceil(spec.low), math.ceil(spec.high) - 1, torch.iinfo(getattr(torch, spec.dtype))
        beyond = 2 * max(*sizes, *map(abs, (low, high)), 1) + 1
        counts = sorted((size for size in sizes if size > 1), reverse=True)[:_MOST_SIZES]

        def takes(number: int) -> bool:
            return limits.min <= number <= limits.max and self._accepts(self.specs, at, number)

        has_top = not takes(beyond)
        if spec.kind != "integers" or (not has_top and self._unbind(at, beyond)):
            return
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

    def _reorder(self, at: int) -> None:
        """Offsets that leave some segments empty, and numbers of segments that do not rise."""
        spec = self.specs[at]
        looser = "segments" if spec.kind == "offsets" else "integers"
        beyond = int(spec.high) + math.prod(spec.shape)
        if spec.kind == "offsets" or (spec.kind == "segments" and not self._accepts(self.specs, at, beyond)):
            trial = [*self.specs[:at], replace(spec, kind=looser), *self.specs[at + 1 :]]
            self.specs = trial if self._accepts(trial) else self.specs

    def _unbind(self, at: int, beyond: int) -> bool:
        """Large values, if the reference takes them, results depend on how large they are, and none overflows."""
        spec = self.specs[at]
        if any(one.is_floating_point() for one in self._plain):
            return False
        values = [draw(self.specs, self._seed) for _ in range(2)]
        for one, number in zip(values, (beyond, 2 * beyond), strict=True):
            one[at].view(-1)[0] = number
        if all(map(torch.equal, *map(self._run, values))):
            return False
        most = min(_MOST_UNBOUND, torch.iinfo(getattr(torch, spec.dtype)).max)
        least = -most if spec.low < 0 else 0
        for size in (1, 256):
            wide = replace(spec, low=float(least // size), high=float(most // size))
            if wide.high > spec.high and self._accepts(
                [*self.specs[:at], wide, *self.specs[at + 1 :]], at, in_long=True
            ):
                self.specs[at] = wide
                return True
        return False
