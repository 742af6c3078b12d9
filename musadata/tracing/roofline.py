"""Traffic of a trace, and which of memory and arithmetic bounds it on a named device.

It needs no torch, whose import costs 300 MB.

Traffic is the least possible: of every input, parameter and buffer what is used is read once, every output written
once; what lies between could stay on chip.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from musadata.operators import column
from musadata.records import Bound, TensorFact

_READS: dict[str, str] = column("reads")


class Unit(StrEnum):
    """What a device does products with."""

    FP32 = "FP32 units"
    FP64 = "FP64 units"
    TENSOR = "tensor cores"
    SPLIT = "tensor cores, three products of TF32 for each"


@dataclass(frozen=True)
class Device:
    """The limits that facts, plans and prompts are about, from the vendor's data sheet; rates without sparsity."""

    name: str
    multiprocessors: int
    bytes_per_second: float
    fp32: float  # FLOPs per second of each kind
    fp64: float
    split: float  # of float32 by three products of TF32; no peak: on an H200 they came to as much as FP32 tiles
    tensor: float  # of fp16 and bf16 with sums in FP32
    cache: int  # bytes of L2
    cache_bytes_per_second: float  # from L2, measured by microbenchmarks as the latency is
    clock: float  # cycles per second
    threads: int = 2048  # the next four of a multiprocessor
    blocks: int = 32
    registers: int = 65_536
    shared: int = 228 << 10
    block_shared: int = 227 << 10
    latency: float = 600e-9  # seconds of a load from memory

    def rate(self, unit: Unit) -> float:
        """FLOPs per second of a unit."""
        rates = {Unit.FP32: self.fp32, Unit.FP64: self.fp64, Unit.TENSOR: self.tensor, Unit.SPLIT: self.split}
        return rates[unit]

    def balance(self, unit: Unit) -> float:
        """FLOPs per byte at which a unit and the memory are both busy."""
        return self.rate(unit) / self.bytes_per_second


H100 = Device("NVIDIA H100 SXM", 132, 3.35e12, 67e12, 34e12, 70e12, 989e12, 50 << 20, 5.5e12, 1.98e9)
H200 = replace(H100, name="NVIDIA H200", bytes_per_second=4.8e12)
_HALF = frozenset({"float16", "bfloat16"})
_PRODUCTS = re.compile(r"aten\.(_?scaled_dot_product|convolution|\w*mm\b|addmv|mv\b|dot\b|matmul|linear|bilinear)")


def unit_of(facts: Iterable[TensorFact]) -> Unit:
    """The unit that a trace's products run on at the accuracy that its dtypes ask for; FP32 units if there are none."""
    facts = list(facts)
    products = {fact.dtype for fact in facts if _PRODUCTS.match(fact.operator)}
    if products & _HALF:
        return Unit.TENSOR
    return Unit.FP64 if "float64" in {fact.dtype for fact in facts if fact.operator} else Unit.FP32


def itemsize(dtype: str) -> int:
    """Bytes of one element: 4 for "float32", 1 for "bool" and "float8_e4m3fn", 8 for "complex64"."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1


def tensor_bytes(fact: TensorFact) -> int:
    return math.prod(fact.shape) * itemsize(fact.dtype)


def traffic(facts: Sequence[TensorFact]) -> int:
    """Least bytes moved to and from memory: what is read of inputs, parameters and buffers once, outputs once."""
    return sum(moved_bytes(fact, facts) for fact in facts if fact.role != "intermediate")


def moved_bytes(fact: TensorFact, facts: Sequence[TensorFact]) -> int:
    """The bytes of a tensor, or of what is read of it where all its readers are slices and look-ups."""
    whole, readers = math.prod(fact.shape), [one for one in facts if fact.name in one.operands]
    calls = {(one.operator, one.operands, one.arguments): one for one in readers}  # one may make several tensors
    parts = [_elements_read(fact, reader) for reader in calls.values()] or [whole]
    return min(whole, sum(parts)) * itemsize(fact.dtype)


def _elements_read(fact: TensorFact, reader: TensorFact) -> int:
    how = _READS.get(reader.operator.removeprefix("aten.").partition(".")[0]) if reader.operands[0] == fact.name else ""
    if how == "row" and len(fact.shape) > 1:
        return math.prod(fact.shape) // fact.shape[1]
    return math.prod(reader.shape) if how == "made" else math.prod(fact.shape)


def device_named(name: str) -> Device | None:
    """The device that a driver calls by `name`, such as "NVIDIA H100 80GB HBM3"; None if its limits are not known."""
    return next((device for device in (H100, H200) if device.name.split()[1] in name.split()), None)


def classify(flops: int, moved: int, unit: Unit = Unit.FP32, device: Device = H100) -> tuple[float, Bound]:
    """Arithmetic intensity in FLOPs per byte, and the bound that it implies on the roofline of a device's unit."""
    intensity = flops / moved if moved else 0.0
    return intensity, Bound.COMPUTE if intensity > device.balance(unit) else Bound.MEMORY


BYTES = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 1000}  # powers of ten, as those of bandwidths
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def bytes_text(count: int) -> str:
    """`1.07 GB`."""
    return in_units(count, "B") if count >= 1000 else f"{count} bytes"


def in_units(count: int, unit: str) -> str:
    """`12.3 GFLOP`."""
    prefix, size = next(((name[0], size) for name, size in BYTES.items() if count >= size), ("", 1))
    return f"{count / size:.4g} {prefix}{unit}"


def time_text(seconds: float) -> str:
    """`320 µs`."""
    unit = next((name for name, size in SECONDS.items() if seconds >= size), "µs")
    return f"{seconds / SECONDS[unit]:.3g} {unit}"
