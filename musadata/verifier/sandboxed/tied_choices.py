"""Inside the sandbox: whether a result depends on which of equal values is chosen, which PyTorch leaves open."""

from collections.abc import Callable
from typing import Any

import torch

from musadata.dispatch import DispatchMode

UNSTABLE = frozenset(("topk", "sort", "argsort", "kthvalue", "median", "nanmedian", "mode"))


def depends_on_choice(run: Callable[[], list[torch.Tensor]]) -> bool:
    """Whether results differ if each sort and selection gets its values in reverse."""
    found = run()
    with _Reversed():
        others = run()
    return not all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(found, others, strict=True))


class _Reversed(DispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        given = dict(zip(names, args, strict=False)) | (kwargs or {})
        has_dim = "dim" in names and "indices" in [one.name for one in func._schema.returns]
        values: Any = args[0] if args else None
        if func.overloadpacket.__name__ not in UNSTABLE or not has_dim or given.get("stable") or not values.dim():
            return func(*args, **(kwargs or {}))
        dim = given.get("dim", -1)
        result = func(values.flip(dim), *args[1:], **(kwargs or {}))
        return type(result)((result[0], values.shape[dim] - 1 - result[1]))
