"""Every operator that a forward dispatches, on any device, and how much it moves to the host. Only inside the sandbox.

The device's own records do not cover tensors on the CPU, where a candidate could compute unseen.
"""

import hashlib
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import torch
import torch._tensor_str
from torch.utils._pytree import tree_leaves

from musadata.dispatch import DispatchMode
from musadata.verifier.backends.device_records import Records
from musadata.verifier.protocol.tensors import pack

# Namespaces that PyTorch itself fills; a candidate's own operators live in others.
BUILTIN = frozenset({"aten", "prims", "quantized", "mkldnn", "mkl", "onednn", "_quantized", "_nnpack", "sparse"})

_MOST_KEPT = 64  # results of one operator
_BYTES_PER_VALUE = 4  # C++ reports bytes only
_FILLS = frozenset({torch.ops.aten.zero_, torch.ops.aten.fill_})

_print_tensor = torch._tensor_str._str
_watching: list["DispatchWatch"] = []


class DispatchWatch(DispatchMode):
    """`operators`: names as "aten.mul.Tensor". `to_host`: what was copied, read or printed from a device. `parts`: how
    often a part of a tensor was filled, or copied from a part; putting a whole tensor into its place is no work.

    With `keep`, what the operators have written stays, for `written`.
    """

    def __init__(self, keep: bool = False) -> None:
        super().__init__()
        self.operators: set[str] = set()
        self.to_host = 0
        self.parts = 0
        self._counting: set[str] = set()
        self._keep = keep
        self._kept: dict[int, torch.Tensor] = {}  # by where its memory begins

    def besides_counters(self, recorded: Iterable[str]) -> set[str]:
        """Names of all operators, of which a backend has recorded some, but for those that only count, such as batches:
        in place, in an integer."""
        return (set(recorded) | self.operators) - (self._counting - self.operators)

    def written(self) -> list[str]:
        """Digests of the whole memory of each tensor on a device that operators have returned."""
        with torch.no_grad():
            return sorted({_digest_memory(tensor) for tensor in self._kept.values() if tensor.numel()})

    def __enter__(self) -> "DispatchWatch":
        _watching.append(self)
        torch._tensor_str._str = _print_watched
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        _watching.pop()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func.namespace not in BUILTIN:
            return self._run_own(func, args, kwargs or {})
        (self._counting if _counts(func, args) else self.operators).add(str(func))
        self.parts += _writes_part(func, args)
        result = func(*args, **(kwargs or {}))
        if self._keep:
            leaves = [
                leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu"
            ]
            self._kept |= {leaf.untyped_storage().data_ptr(): leaf.detach() for leaf in leaves[:_MOST_KEPT]}
        given = [value for value in args if isinstance(value, torch.Tensor) and value.device.type != "cpu"]
        if given and not (isinstance(result, torch.Tensor) and result.device.type != "cpu"):
            self.to_host += _moved(result)
        return result

    def _run_own(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator of the candidate's own, watched from within: here no mode is active any more."""
        devices = {leaf.device.type for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        if not devices:
            return func(*args, **kwargs)
        key = torch._C._dispatch_key_for_device(max(devices - {"cpu"}, default="cpu"))
        with self:
            return func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)


def count_moved(records: Records, watch: DispatchWatch) -> int:
    """Values that went to the host in a call: through operators, or the candidate's C++."""
    return watch.to_host + _values(records.host_bytes)


def count_moved_or_pinned(records: Records, watch: DispatchWatch) -> int:
    """The same, or through pinned memory: copies may go through it. Only where nothing else has read values from the
    device in this process, as PyTorch does that through pinned memory, which counts until the next is asked for."""
    return max(count_moved(records, watch), _values(records.pinned_bytes))


def _values(size: int) -> int:
    return -(-size // _BYTES_PER_VALUE)


def _digest_memory(tensor: torch.Tensor) -> str:
    """Of all that its storage holds, wherever in it the tensor lies."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = tensor.as_strided((count,), (1,), 0).cpu()
    return hashlib.sha256(pack({"": whole})[-count * tensor.element_size() :]).hexdigest()


def _print_watched(tensor: torch.Tensor, *, tensor_contents: Any = None) -> str:
    """Printing turns all modes off and reads what it prints, value by value."""
    for watch in _watching[-1:]:
        watch.to_host += tensor.numel() if tensor.device.type != "cpu" else 0
    return _print_tensor(tensor, tensor_contents=tensor_contents)


def _counts(func: Any, args: tuple[Any, ...]) -> bool:
    counter = args[0] if func.overloadpacket is torch.ops.aten.add_ else None
    return isinstance(counter, torch.Tensor) and counter.numel() == 1 and counter.dtype is torch.int64


def _writes_part(func: Any, args: tuple[Any, ...]) -> bool:
    packet = func.overloadpacket
    return (packet in _FILLS and _is_part(args[0])) or (packet is torch.ops.aten.copy_ and all(map(_is_part, args[:2])))


def _is_part(tensor: torch.Tensor) -> bool:
    is_dense = tensor.layout == torch.strided
    return is_dense and tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


def _moved(result: Any) -> int:
    """Elements of a result that a device operator left on the host: tensors there, and numbers."""
    if isinstance(result, torch.Tensor):
        return result.numel()
    if isinstance(result, (list, tuple)):
        return sum(_moved(item) for item in result if not isinstance(item, torch.Tensor) or item.device.type == "cpu")
    return 1 if isinstance(result, (bool, int, float, complex)) else 0


class RangeWatch(DispatchMode):
    """`overflows`: whether integers were made of real numbers that they cannot hold, for which C++ defines nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.overflows = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ == "_to_copy" and args[0].is_floating_point() and args[0].numel():
            is_whole = not result.dtype.is_floating_point and result.dtype not in (torch.bool, torch.complex64)
            self.overflows |= is_whole and float(args[0].abs().max()) > torch.iinfo(result.dtype).max
        return result
