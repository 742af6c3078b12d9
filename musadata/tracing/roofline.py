"""Traffic of a trace, and which of memory and arithmetic bounds it. Needs no torch, whose import costs 300 MB.

Traffic is the least possible: every input, parameter and buffer that is used is read once, every output written once;
what lies between could stay on chip.
"""

import math
import re
from collections.abc import Iterable

from musadata.records import Bound, TensorFact

# FLOPs per byte at which an H100 SXM's FP32 units and its memory are both busy: 67 TFLOP/s over 3.35 TB/s.
BALANCE = 20.0


def itemsize(dtype: str) -> int:
    """Bytes of one element: 4 for "float32", 1 for "bool" and "float8_e4m3fn", 8 for "complex64"."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1


def tensor_bytes(fact: TensorFact) -> int:
    return math.prod(fact.shape) * itemsize(fact.dtype)


def traffic(facts: Iterable[TensorFact]) -> int:
    """Least bytes moved to and from memory: inputs, parameters and buffers once, outputs once."""
    return sum(tensor_bytes(fact) for fact in facts if fact.role != "intermediate")


def classify(flops: int, moved: int) -> tuple[float, Bound]:
    """Arithmetic intensity in FLOPs per byte, and the bound that it implies on the roofline."""
    intensity = flops / moved if moved else 0.0
    return intensity, Bound.COMPUTE if intensity > BALANCE else Bound.MEMORY
