"""Executing a reference on tensors that have shapes and no memory, and what the same would cost a GPU."""

import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from musadata.dispatch import DispatchMode, without_dynamo
from musadata.errors import Rejection
from musadata.tasks.operator_recording import tensors_in

# An H200: HBM3e, and FP32 without tensor cores.
BYTES_PER_SECOND = 4.8e12
FLOPS_PER_SECOND = 67e12
_FLOPS_PER_ELEMENT = 16  # measured on the emulator: 2.9 s for 0.5 M elements of a ReLU, 2.3 s for 8 M FLOPs
_SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"})
TWO_DEVICES = re.compile(r"two different devices|on the same device|expected device|on device \w+, but")
# Operators that may take a tensor on the CPU as well: copies, `x[indices]`, and the lengths of packed sequences.
_MIXING = frozenset(
    {"_to_copy", "copy", "copy_", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
    | {"_pack_padded_sequence", "_pad_packed_sequence", "lstm", "gru", "rnn_tanh", "rnn_relu"}
)
_READ_SCALAR = torch.ops.aten._local_scalar_dense.default

logging.getLogger("torch._subclasses.fake_tensor").disabled = True  # reports every size that is refused


class Unscalable(Rejection):
    """A reference of which it cannot be told what it does at other sizes."""


@dataclass(frozen=True)
class Cost:
    """What one call costs when every operator reads its operands from memory and writes its results there.

    Attributes:
        seconds: by the roofline of an H200, operator by operator.
        bytes: inputs, outputs and the largest intermediate together.
        work: on the emulator, where an element that an operator reads or writes takes as long as some FLOPs of a
            product.
        scanned: the part of `work` that is there only if a kernel reads a whole prefix for every element.
        operators: how many were dispatched.
        rows: the first size of each output, 0 for a number.
        unread: elements of what is scattered that no index is for. PyTorch lets them be; a size at which there are
            some, where there are none at the declared one, does not belong to the others.
    """

    seconds: float
    bytes: int
    work: int
    operators: int
    rows: tuple[int, ...] = ()
    scanned: int = 0
    unread: int = 0


@dataclass
class OperatorBudget:
    """How many operators all fake executions together may dispatch: a bound on time that no machine changes."""

    left: int

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Unscalable("too_many_operators", "its operators are too many to be tried at several sizes")


class _BranchRecorder(DispatchMode):
    """Notes the truth values that a real execution reads from tensors, in order: conditions such as a check of ranges.

    Sizes read from tensors are not noted: what follows from them cannot be told at other sizes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is _READ_SCALAR and args[0].dtype is torch.bool:
            self.found.append(result)
        return result


def record_branches(model: Callable[..., Any], values: Sequence[Any]) -> tuple[bool, ...]:
    """The truth values that `model` reads from tensors when it runs on real `values`."""
    with torch.no_grad(), _BranchRecorder() as recorder:
        model(*values)
    return tuple(recorder.found)


class TakeBranches(DispatchMode):
    """Lets a fake execution read these truth values from tensors, in order; see `record_branches`."""

    def __init__(self, branches: Sequence[bool]) -> None:
        super().__init__()
        self._branches = iter(branches)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _READ_SCALAR and args[0].dtype is torch.bool:
            for value in self._branches:
                return value
        return func(*args, **(kwargs or {}))


class _CostRecorder(DispatchMode):
    """Adds up the work of every operator; no fake tensor of it stays alive."""

    def __init__(self, budget: OperatorBudget) -> None:
        super().__init__()
        self.seconds, self.work, self.scanned, self.operators, self.largest = 0.0, 0, 0, 0, 0
        self.unread = 0
        self._budget = budget

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        self._budget.spend()
        self.operators += 1
        if func is _READ_SCALAR:
            return func(*args, **keywords)
        _check_channels(func, args)
        result = func(*args, **keywords)
        if not func.is_view:
            produced = tensors_in(result)
            touched = [*tensors_in((args, keywords)), *produced]
            flops, moved = _product_flops(func, args, keywords, result), sum(map(_bytes, touched))
            self.seconds += max(moved / BYTES_PER_SECOND, flops / FLOPS_PER_SECOND)
            flops = max(flops, _gathered_flops(func, args, result))
            self.work += flops // _FLOPS_PER_ELEMENT + sum(one.numel() for one in touched)
            if func.overloadpacket.__name__ in _SCANS:  # kernels may well read a whole prefix for every element
                self.scanned += sum(one.numel() * max(one.shape, default=1) for one in produced[:1])
            self.largest = max([self.largest, *map(_bytes, produced)])
            if func.overloadpacket.__name__.startswith("scatter") and len(given := tensors_in(args)) == 3:
                self.unread += given[2].numel() - given[1].numel()
        return result


def _check_channels(func: Any, args: Any) -> None:
    """Refuse what a transposed convolution refuses, which tensors without memory let pass.

    Raises:
        RuntimeError: the input has other channels than the weight.
    """
    if func is torch.ops.aten.convolution.default and args[6]:
        given, weight = args[0], args[1]
        if given.shape[-len(args[3]) - 1] != weight.shape[0]:
            raise RuntimeError(f"given transposed=1, weight of size {[*weight.shape]}, input {[*given.shape]}")


def _product_flops(func: Any, args: Any, keywords: dict[str, Any], result: Any) -> int:
    formula = flop_registry.get(func.overloadpacket)
    if formula is not None:
        return int(formula(*args, **keywords, out_val=result))
    if func.overloadpacket.__name__.startswith("_scaled_dot_product"):
        return int(sdpa_flop_count(args[0].shape, args[1].shape, args[2].shape))
    if func is torch.ops.aten._trilinear.default:  # bilinear layers: each row meets the whole weight
        return int(2 * args[0].numel() // args[0].shape[-1] * args[1].numel())
    if func.overloadpacket.__name__ == "multilabel_margin_loss_forward":  # each class of a row meets all its targets
        return int(3 * args[0].numel() * args[0].shape[-1])
    return 0


def _gathered_flops(func: Any, args: Any, result: Any) -> int:
    """Of a transposed convolution as kernels do it, which look for every element of the result at all that may have
    gone into it: far more than its product where a small image gets a large border."""
    if func is not torch.ops.aten.convolution.default or not args[6]:
        return 0
    weight, groups = args[1], args[8]
    return 2 * result.numel() * weight.shape[0] // groups * math.prod(weight.shape[2:])


def _bytes(tensor: torch.Tensor) -> int:
    """Of memory that it takes up: a broadcast one has more elements than that."""
    memory = tensor.untyped_storage().nbytes() if tensor.layout == torch.strided else tensor.numel()
    return min(tensor.numel() * tensor.itemsize, int(memory))


@contextmanager
def shapes_only(with_devices: bool = False) -> Iterator[None]:
    """Tensors that are made here have no memory.

    They are tensors on the meta device. With `with_devices` they are fake ones, ten times as slow, which know the
    device that they pretend to be on and work together with real ones. Fused operators that PyTorch chooses by machine
    are off, so that the same operators run everywhere.

    Raises:
        Unscalable: in place of PyTorch's exception, where a size or a branch depends on the values of fake tensors.
    """
    fast, onednn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    mode = FakeTensorMode(allow_non_fake_inputs=True) if with_devices else torch.device("meta")
    try:
        with mode, torch.no_grad(), without_dynamo():
            yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise Unscalable("depends_on_values", f"{error.func} depends on values") from error
    finally:
        torch._C._set_mkldnn_enabled(onednn)
        torch.backends.mha.set_fastpath_enabled(fast)


class OneDevice(DispatchMode):
    """Refuses tensors of two devices in one operator. Some let one on the CPU pass beside one on the meta device, as
    `index_select` does with its indices."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        devices = {one.device.type for one in tensors_in((args, kwargs or {})) if one.dim()}
        if len(devices) > 1 and func.overloadpacket.__name__ not in _MIXING:
            raise RuntimeError(
                f"tensors on the same device are expected, not on {' and '.join(sorted(devices))}: {func}"
            )
        return func(*args, **(kwargs or {}))


def call_on_device(model: torch.nn.Module, values: Sequence[Any]) -> None:
    """Call a model as if a GPU held its parameters, its buffers and the tensors among `values`; it is spoilt then.

    Raises:
        RuntimeError: its message matches `TWO_DEVICES` if tensors of two devices meet.
        Exception: whatever the reference raises.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def placed(value: Any) -> Any:
        is_tensor = isinstance(value, torch.Tensor)
        return FakeTensor(mode, value.detach().to("meta"), torch.device("cuda:0")) if is_tensor else value

    state = dict(chain(model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)))
    moved = {name: placed(value) for name, value in state.items()}
    with mode, torch.no_grad(), without_dynamo():
        torch.func.functional_call(model, moved, tuple(map(placed, values)), tie_weights=False)


def measure_cost(
    model: Callable[..., Any], values: Sequence[Any], budget: OperatorBudget, branches: Sequence[bool] = ()
) -> Cost:
    """The cost of one call of `model` on fake `values`, which takes `branches`; call it under `shapes_only`.

    Raises:
        Unscalable: too many operators, or no tensor comes back.
        Exception: whatever the reference raises.
    """
    inputs = sum(map(_bytes, tensors_in(values)))
    with TakeBranches(branches), _CostRecorder(budget) as recorder:
        outputs = tensors_in(model(*values))
    if not outputs or any(one.numel() == 0 for one in (*outputs, *tensors_in(values))):
        raise Unscalable("empty_output", "at other sizes it returns no elements")
    total = inputs + sum(map(_bytes, outputs)) + recorder.largest
    rows = tuple(len(one) if one.dim() else 0 for one in outputs)
    work = recorder.work + recorder.scanned
    return Cost(recorder.seconds, total, work, recorder.operators, rows, recorder.scanned, recorder.unread)
