"""Every operator that a forward dispatches, on whatever device, and how much it moves to the host.

The device's own record cannot know of tensors on the CPU, where a candidate could compute unseen. Only for use inside
the sandbox.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Namespaces that PyTorch itself fills; a candidate's own operators live in others.
_BUILTIN = frozenset({"aten", "prims", "quantized", "mkldnn", "mkl", "onednn", "_quantized", "_nnpack", "sparse"})


class DispatchWatch(TorchDispatchMode):
    """`operators`: names as "aten.mul.Tensor". `to_host`: elements copied or read from a device to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: set[str] = set()
        self.to_host = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch._dynamo is imported on entry: seconds, in every fork

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func.namespace in _BUILTIN:
            self.operators.add(str(func))
        result = func(*args, **(kwargs or {}))
        given = [value for value in args if isinstance(value, torch.Tensor) and value.device.type != "cpu"]
        if given and not (isinstance(result, torch.Tensor) and result.device.type != "cpu"):
            self.to_host += _moved(result)
        return result


def _moved(result: Any) -> int:
    """Elements of a result that a device operator left on the host: tensors there, and numbers."""
    if isinstance(result, torch.Tensor):
        return result.numel()
    if isinstance(result, (list, tuple)):
        return sum(_moved(item) for item in result if not isinstance(item, torch.Tensor) or item.device.type == "cpu")
    return 1 if isinstance(result, (bool, int, float, complex)) else 0
