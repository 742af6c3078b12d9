"""Work and traffic of a trace, and which of the two bounds it.

The rule for FLOPs, per dispatched aten operator:

1. matrix products, convolutions and attention: `torch.utils.flop_counter`'s formulas (a multiply-add is two);
2. views, copies, allocation, selection of elements (`operator_costs.yaml`): none;
3. reductions, scans, softmax, normalisation and losses: a fixed number per element read (`operator_costs.yaml`);
4. pooling: one per element of each window, that is the size of the output times the size of the window;
5. distances, bags of embeddings and bilinear forms: one for every addition and multiplication (`_SPECIAL`);
6. everything else: one per element of the output, whatever the function (an `exp` counts as one, like an `add`).

Traffic is the least possible: every input, parameter and buffer that is used is read once, every output written once;
what lies between could stay on chip.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from torch.utils.flop_counter import flop_registry

from musadata.records import Bound, TensorFact

# FLOPs per byte at which an H100 SXM's FP32 units and its memory are both busy: 67 TFLOP/s over 3.35 TB/s.
BALANCE = 20.0

_COSTS = yaml.safe_load(Path(__file__).with_name("operator_costs.yaml").read_text(encoding="utf-8"))
_MOVES = frozenset(_COSTS["moves"].split())
_PER_ELEMENT_READ = {name: cost for cost, names in _COSTS["per_element_read"].items() for name in names.split()}


def operator_flops(function: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """FLOPs of one dispatched operator, by the rule above."""
    formula = flop_registry.get(function.overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    name = function.overloadpacket.__name__.rstrip("_")
    if function.is_view or name in _MOVES:
        return 0
    operands = [value for value in args if isinstance(value, torch.Tensor)]
    outputs = [value for value in _flat(result) if isinstance(value, torch.Tensor)]
    written = max((tensor.numel() for tensor in outputs), default=0)
    if name in _PER_ELEMENT_READ and operands and not _is_pointwise(function):
        return _PER_ELEMENT_READ[name] * operands[0].numel()
    if name.startswith(("max_pool", "avg_pool")):
        window = args[1] if len(args) > 1 else kwargs["kernel_size"]
        return written * _window_size(window, int(name.split("pool")[1][0]))
    special = _SPECIAL.get(name)
    return special(args, written) if special else written


def _trilinear(args: Sequence[Any], written: int) -> int:
    """Two products and an addition for every combination of the three operands' axes."""
    shapes = []
    for tensor, places in zip(args[:3], args[3:6], strict=True):
        shape = list(tensor.shape)
        for place in sorted(places):
            shape.insert(place, 1)
        shapes.append(shape)
    return 3 * math.prod(torch.broadcast_shapes(*shapes))


_SPECIAL: dict[str, Callable[[Sequence[Any], int], int]] = {
    "_trilinear": _trilinear,
    "_cdist_forward": lambda args, written: 3 * written * args[0].shape[-1],  # subtract, square, add
    "_embedding_bag": lambda args, written: args[1].numel() * args[0].shape[-1],
}


def traffic(facts: Iterable[TensorFact]) -> int:
    """Least bytes moved to and from memory: inputs, parameters and buffers once, outputs once."""
    return sum(tensor_bytes(fact) for fact in facts if fact.role != "intermediate")


def tensor_bytes(fact: TensorFact) -> int:
    return math.prod(fact.shape) * getattr(torch, fact.dtype).itemsize


def classify(flops: int, moved: int) -> tuple[float, Bound]:
    """Arithmetic intensity in FLOPs per byte, and the bound that it implies on the roofline."""
    intensity = flops / moved if moved else 0.0
    return intensity, Bound.COMPUTE if intensity > BALANCE else Bound.MEMORY


def _is_pointwise(function: torch._ops.OpOverload) -> bool:
    """True for overloads such as `max.other`, which share a reduction's name."""
    return torch.Tag.pointwise in function.tags or function._overloadname in ("other", "Tensor_Tensor")


def _window_size(window: Any, dimensions: int) -> int:
    sizes = list(window) if isinstance(window, (list, tuple)) else [window]
    return math.prod(sizes) if len(sizes) == dimensions else int(sizes[0]) ** dimensions


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]
