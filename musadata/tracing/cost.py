"""Work of a trace.

The rule for FLOPs, per dispatched aten operator:

1. matrix products, convolutions and attention: `torch.utils.flop_counter`'s formulas (a multiply-add is two);
2. views, copies, allocation, selection of elements (0 in the table of operators): none;
3. reductions, scans, softmax, normalisation and losses: the table's number per element read;
4. pooling: one per element of each window, that is the size of the output times the size of the window;
5. distances, bags of embeddings, bilinear forms and negative log-likelihoods: one for every addition and
   multiplication (`_SPECIAL`);
6. everything else: one per element of the output, whatever the function (an `exp` counts as one, like an `add`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from musadata.operators import column

_PER_ELEMENT_READ: dict[str, int] = column("flops")


def operator_flops(function: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> int:
    """FLOPs of one dispatched operator, by the rule above."""
    formula = flop_registry.get(function.overloadpacket)
    if formula is not None:
        work = int(formula(*args, **kwargs, out_val=result))
        return work * (args[0].shape[-2] + 1) // (2 * args[0].shape[-2]) if _is_causal(function, args, kwargs) else work
    name = function.overloadpacket.__name__.rstrip("_")
    cost = _PER_ELEMENT_READ.get(name)
    if function.is_view or cost == 0:
        return 0
    operands = [value for value in args if isinstance(value, torch.Tensor)]
    results = result if isinstance(result, (tuple, list)) else [result]
    written = max((value.numel() for value in results if isinstance(value, torch.Tensor)), default=0)
    if cost and operands and not _is_pointwise(function):
        return cost * operands[0].numel()
    if name.startswith(("max_pool", "avg_pool")):
        window = args[1] if len(args) > 1 else kwargs["kernel_size"]
        return written * _window_size(window, int(name.split("pool")[1][0]))
    special = _SPECIAL.get(name)
    return special(args, written) if special else written


def _is_causal(function: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an attention leaves out half of its scores: those of later keys."""
    names = [one.name for one in function._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return bool(given.get("is_causal")) and args[0].shape[-2] == args[1].shape[-2]


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
    "nll_loss_forward": lambda args, written: 2 * args[1].numel(),  # negate, add
    "nll_loss2d_forward": lambda args, written: 2 * args[1].numel(),
    "_embedding_bag": lambda args, written: args[1].numel() * args[0].shape[-1],
}


def _is_pointwise(function: torch._ops.OpOverload) -> bool:
    """True for overloads such as `max.other`, which share a reduction's name."""
    return torch.Tag.pointwise in function.tags or function._overloadname in ("other", "Tensor_Tensor")


def _window_size(window: Any, dimensions: int) -> int:
    sizes = list(window) if isinstance(window, (list, tuple)) else [window]
    return math.prod(sizes) if len(sizes) == dimensions else int(sizes[0]) ** dimensions
