"""Inside the sandbox: values for the arguments of a reference's `forward`, drawn on the device where they are used.

A counter-based generator (Philox4x32) in integer arithmetic, and at most two roundings that IEEE 754 defines, give
the same bits on a CPU and on any device, in chunks of any size. On a CUDA device one kernel (`philox.cu`) draws floats
in place; where it cannot be built, PyTorch's integer operators give the same values, more slowly.
"""

import math
import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from musadata.errors import MusadataError
from musadata.records import InputSpec
from musadata.tasks.normal_values import moments
from musadata.tracing.inputs import draw_own, keep_structure, parse_literal
from musadata.verifier.compilation.build_cache import build_once, cache_folder, hash_of
from musadata.verifier.protocol.variants import PLAIN
from musadata.verifier.sandboxed.cuda_driver import check
from musadata.verifier.sandboxed.draws import apply_variant

_SOURCE, _CUBIN = Path(__file__).with_name("philox.cu"), "philox.cubin"
_CHUNK = 1 << 24  # values at a time, a multiple of 4
_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORDS, _UNIFORM, _NORMAL = 0, 1, 2  # as in philox.cu
_NORMAL_SCALE = math.sqrt(3.0) / 2.0**30  # four values of 16 bits, fourteen bits below them: deviation 1
_BLOCK, _GRID = 256, 132 * 16
ROUNDS, FEW_ROUNDS = 10, 4  # of Philox; few where values need only be others than before, as for calls that are timed


def draw_on(device: str, specs: Sequence[InputSpec], seed: int) -> list[Any]:
    """One value per spec: a tensor on the device, or the Python value of a literal. See `InputSpec`; a `normal` value
    lies within 3.5 deviations of its mean.

    Raises:
        ValueError: a spec of unknown kind, an empty range, no choice, or a literal that is not one.
    """
    values = [
        parse_literal(spec.literal)
        if spec.kind == "literal"
        else torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        for spec in specs
    ]
    redraw(specs, seed, values)
    return values


def redraw(
    specs: Sequence[InputSpec], seed: int, values: Sequence[Any], variant: str = PLAIN, rounds: int = ROUNDS
) -> None:
    """Overwrite the tensors among these values of `draw_on` as it would draw them with this seed, changed as the
    variant says. With `FEW_ROUNDS` it is faster, and the values are less random."""
    with torch.no_grad():
        for index, (spec, value) in enumerate(zip(specs, values, strict=True)):
            if spec.kind == "literal":
                continue
            if spec.kind == "own":
                value.copy_(draw_own(spec, seed))
                continue
            _fill(spec, _Stream(seed, index, rounds=rounds), value)
            if variant != PLAIN:
                value.copy_(apply_variant([spec], [value], variant)[0])


class _Stream:
    """Words of 32 bits that depend on a seed and the position of an argument alone."""

    def __init__(self, seed: int, index: int, part: str = "", rounds: int = ROUNDS):
        self.rounds = rounds
        digest = sha256(f"{seed}/{index}/{part}".encode()).digest()
        self.keys = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")

    def words(self, first: int, count: int, device: torch.device) -> torch.Tensor:
        """Words `first` to `first + count` as int64; `first` is a multiple of 4."""
        draw = _find_kernel(device)
        if draw is not None:
            drawn = torch.empty(count, dtype=torch.int32, device=device)
            draw(drawn, first // 4, self.keys, _WORDS, rounds=self.rounds)
            return drawn.long() & _WORD
        return philox(first // 4, -(-count // 4), self.keys, device, self.rounds)[:count]

    def pairs(self, first: int, count: int, device: torch.device) -> torch.Tensor:
        """Words two by two: (count, 2)."""
        return self.words(2 * first, 2 * count, device).view(-1, 2)


def philox(
    block: int, count: int, keys: tuple[int, int], device: torch.device | str, rounds: int = ROUNDS
) -> torch.Tensor:
    """The words of `count` blocks from number `block` on, four of each, as int64."""
    blocks = torch.arange(block, block + count, device=device)
    counter = [blocks & _WORD, blocks >> 32, torch.zeros_like(blocks), torch.zeros_like(blocks)]
    for step in range(rounds):
        key0, key1 = ((key + step * add) & _WORD for key, add in zip(keys, _KEY_STEPS, strict=True))
        left, right = (counter[2 * side] * multiplier for side, multiplier in enumerate(_MULTIPLIERS))
        counter = [
            (right >> 32 & _WORD) ^ counter[1] ^ key0,
            right & _WORD,
            (left >> 32 & _WORD) ^ counter[3] ^ key1,
            left & _WORD,
        ]
    return torch.stack(counter, 1).view(-1)


def _fill(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    kind = _KINDS.get(spec.kind)
    if kind is None:
        raise ValueError(f"input {spec.name!r} has the unknown kind {spec.kind!r}")
    if spec.kind in ("uniform", "integers", "offsets", "segments") and not spec.low < spec.high:
        raise ValueError(f"input {spec.name!r} has the empty range [{spec.low}, {spec.high})")
    flat = out.view(-1)
    if out.is_complex():
        for part in (0, 1):
            kind(spec, _Stream(*stream.keys, str(part), stream.rounds), torch.view_as_real(flat)[:, part])
    else:
        kind(spec, stream, flat)
    if spec.literal and spec.kind in ("normal", "uniform"):
        out.copy_(keep_structure(spec, out))


def _fill_floats(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    draw = _find_kernel(out.device) if out.dtype != torch.float64 else None
    if draw is None:
        for first, part in _chunks(out):
            part.copy_(_normal(stream, first, part) if spec.kind == "normal" else _uniform(spec, stream, first, part))
            _finish(spec, part)
        return
    kind, limits = (_NORMAL, (0.0, _NORMAL_SCALE, 0.0)) if spec.kind == "normal" else (_UNIFORM, _limits(spec))
    is_direct = out.dtype == torch.float32 and out.is_contiguous()
    for first, part in [(0, out)] if is_direct else _chunks(out):  # a hundred launches take longer than the kernel
        drawn = part if is_direct else torch.empty(part.shape, dtype=torch.float32, device=part.device)
        draw(drawn, first // (2 if spec.kind == "normal" else 4), stream.keys, kind, limits, stream.rounds)
        if not is_direct:
            part.copy_(drawn)
        _finish(spec, part)


def _finish(spec: InputSpec, part: torch.Tensor) -> None:
    if spec.kind == "uniform" and part.dtype.itemsize < 4:
        part.masked_fill_(part >= spec.high, spec.low)  # rounding to a short dtype may reach the bound, an excluded one
    if spec.kind == "normal" and moments(spec) != (0.0, 1.0):
        _scale_and_move(part, *moments(spec))


def _limits(spec: InputSpec) -> tuple[float, float, float]:
    """The lower bound, the length and the upper bound of a range, each rounded to float32."""
    low, span, high = (float(np.float32(value)) for value in (spec.low, spec.high - spec.low, spec.high))
    return low, span, high


def _normal(stream: _Stream, first: int, part: torch.Tensor) -> torch.Tensor:
    a, b = stream.pairs(first, part.numel(), part.device).unbind(1)
    total = (a >> 16) + (a & 0xFFFF) + (b >> 16) + (b & 0xFFFF)
    fine = (a * 0x9E3779B1 + b * 0x85EBCA77 & _WORD) >> 18
    whole = (total - 131070) * 16384 + fine - 8192
    if part.dtype == torch.float64:
        return whole.double() * _NORMAL_SCALE
    return whole.float() * float(np.float32(_NORMAL_SCALE))


def _uniform(spec: InputSpec, stream: _Stream, first: int, part: torch.Tensor) -> torch.Tensor:
    if part.dtype == torch.float64:
        words = stream.pairs(first, part.numel(), part.device)
        values = ((words[:, 1] << 21) | (words[:, 0] >> 11)).double() * 2.0**-53 * (spec.high - spec.low)
        low, high = spec.low, spec.high
    else:
        low, span, high = _limits(spec)
        values = (stream.words(first, part.numel(), part.device) >> 8).float() * 2.0**-24 * span
    values = values + low
    return values.masked_fill_(values >= high, low)


def _scale_and_move(part: torch.Tensor, mean: float, deviation: float) -> None:
    wide = part if part.dtype.itemsize >= 4 else part.float()
    wide.mul_(deviation).add_(mean)
    if wide is not part:
        part.copy_(wide)


def _integers(spec: InputSpec, stream: _Stream, first: int, part: torch.Tensor, high: float) -> torch.Tensor:
    words = stream.pairs(first, part.numel(), part.device)
    low = math.ceil(spec.low)
    return ((words[:, 1] >> 1 << 32) | words[:, 0]) % (math.ceil(high) - low) + low


def _fill_integers(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    for first, part in _chunks(out):
        part.copy_(_integers(spec, stream, first, part, spec.high))


def _fill_offsets(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    """Rising without repeats, as long as the range has room for that; segments are some of them equal."""
    is_strict = spec.kind == "offsets"
    room = max(spec.low + 1.0, spec.high - out.numel() + 1.0) if is_strict else spec.high
    values = _integers(spec, stream, 0, out, room).sort().values
    if is_strict:
        values = (values + torch.arange(len(values), device=out.device)).clamp(max=math.ceil(spec.high) - 1)
    values[:1], values[-1:] = math.ceil(spec.low), math.ceil(spec.high) - 1
    if not is_strict and len(values) >= 3:
        values[len(values) // 2] = values[len(values) // 2 - 1]  # an empty segment
    out.copy_(values)


def _fill_permutation(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    order = stream.words(0, out.numel(), out.device).sort(stable=True).indices
    out.copy_(order + math.ceil(spec.low))


def _fill_choice(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    values = parse_literal(spec.literal)
    if not isinstance(values, tuple) or not values:
        raise ValueError(f"input {spec.name!r} has no values to choose from: {spec.literal!r}")
    table = torch.from_numpy(np.asarray(values)).to(out.device)
    for first, part in _chunks(out):
        part.copy_(table[stream.words(first, part.numel(), out.device) % len(values)])


def _fill_bools(spec: InputSpec, stream: _Stream, out: torch.Tensor) -> None:
    for first, part in _chunks(out):
        part.copy_(stream.words(first, part.numel(), out.device) >> 31)


_KINDS: dict[str, Callable[[InputSpec, _Stream, torch.Tensor], None]] = {
    "normal": _fill_floats,
    "uniform": _fill_floats,
    "integers": _fill_integers,
    "offsets": _fill_offsets,
    "segments": _fill_offsets,
    "permutation": _fill_permutation,
    "choice": _fill_choice,
    "bool": _fill_bools,
}


def _chunks(out: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
    """(index of the first value, values) of each chunk."""
    return [(first, out[first : first + _CHUNK]) for first in range(0, out.numel(), _CHUNK)]


_Draw = Callable[..., None]  # (tensor, first block, keys, kind, limits, rounds)


def _find_kernel(device: torch.device) -> _Draw | None:
    return _build_kernel() if device.type == "cuda" else None


@cache
def _build_kernel() -> _Draw | None:
    """The kernel for the current device; None where it cannot be built, or does not give the bits that it should."""
    try:
        draw = _load_kernel()
        found = torch.empty(4096, dtype=torch.int32, device="cuda")
        right = []
        for rounds in (ROUNDS, FEW_ROUNDS):
            draw(found, 7, (1, 2), _WORDS, rounds=rounds)
            right.append(torch.equal(found.long() & _WORD, philox(7, 1024, (1, 2), "cuda", rounds)))
        if all(right):
            return draw
        why = "it gives other values than PyTorch's operators"
    except Exception as error:  # whatever the driver or the compiler has to say
        why = f"{type(error).__name__}: {error}"[:300]
    warnings.warn(f"inputs are drawn by PyTorch's operators, since the kernel cannot be used: {why}", stacklevel=2)
    return None


def compile_ahead(architecture: str) -> None:
    """Keep the kernel's machine code in the cache, where all processes of the machine find it, if that can be.

    It is compiled in a fork: NVRTC initializes the driver, which no fork of this process would survive.
    """
    child = os.fork()
    if child == 0:
        try:
            _machine_code(architecture)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _machine_code(architecture: str) -> bytes:
    """The kernel for a compute capability such as "90".

    Raises:
        ImportError, RuntimeError: NVRTC is not there, or refuses it.
    """

    def build(folder: Path) -> None:
        (folder / _CUBIN).write_bytes(_compile_kernel(architecture))

    try:
        key = hash_of(_SOURCE, architecture, str(torch.version.cuda))
        return (build_once(cache_folder() / f"philox-{key}", build) / _CUBIN).read_bytes()
    except (OSError, MusadataError):  # it can only be read there, or the disk is full
        return _compile_kernel(architecture)


def _compile_kernel(architecture: str) -> bytes:
    from cuda.bindings import nvrtc

    program = check(nvrtc.nvrtcCreateProgram(_SOURCE.read_bytes(), b"philox.cu", 0, [], []))
    options = [f"--gpu-architecture=sm_{architecture}".encode()]
    check(nvrtc.nvrtcCompileProgram(program, len(options), options))
    image = b"\0" * check(nvrtc.nvrtcGetCUBINSize(program))
    check(nvrtc.nvrtcGetCUBIN(program, image))
    return image


def _load_kernel() -> _Draw:
    import ctypes

    from cuda.bindings import driver

    architecture = "".join(map(str, torch.cuda.get_device_capability()))
    module = check(driver.cuModuleLoadData(_machine_code(architecture)))
    function = check(driver.cuModuleGetFunction(module, b"draw"))
    numbers = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int)
    types = (ctypes.c_void_p, *numbers, ctypes.c_float, ctypes.c_float, ctypes.c_float, ctypes.c_int)

    def draw(
        out: torch.Tensor,
        block: int,
        keys: tuple[int, int],
        kind: int,
        limits: tuple[float, float, float] = (0, 0, 0),
        rounds: int = ROUNDS,
    ) -> None:
        values = (out.data_ptr(), out.numel(), block, *keys, kind, *limits, rounds)
        grid = max(1, min(_GRID, -(-out.numel() // _BLOCK)))
        stream = torch.cuda.current_stream().cuda_stream
        check(driver.cuLaunchKernel(function, grid, 1, 1, _BLOCK, 1, 1, 0, stream, (values, types), 0))

    return draw
