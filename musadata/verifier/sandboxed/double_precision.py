"""Inside the sandbox: a reference in double precision, with the tables that its constructor and its forward build."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from musadata.verifier.sandboxed.model_state import tensors_of

Tables = dict[tuple[str, str], torch.Tensor]  # by module and attribute
_WIDE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
_REINTERPRET = (torch.Tensor.view,)
_NEAR = 0.05  # on average: a table that is the same but for rounding, which is large for a cosine of large angles


def widest(leaf: torch.Tensor) -> torch.dtype:
    """The dtype of an oracle of these results."""
    if leaf.is_complex():
        return torch.complex128
    return torch.float64 if leaf.is_floating_point() else torch.int64


@contextmanager
def double_precision() -> Iterator[None]:
    """What a program would make in single precision is made in double: tables in `forward`, and `x.float()` as well.
    What is narrower stays so: it is meant."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening():
            yield
    finally:
        torch.set_default_dtype(before)


class _Widening(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _REINTERPRET:
            return func(*args, **(kwargs or {}))
        func = torch.Tensor.double if func is torch.Tensor.float else func
        kept = args[:1] if getattr(func, "__name__", "").endswith("_") else ()  # is written in place
        wide = (*kept, *map(_widened, args[len(kept) :]))
        return func(*wide, **{name: _widened(value) for name, value in (kwargs or {}).items()})


def _widened(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDE.get(value, value)
    if isinstance(value, torch.Tensor) and type(value) is torch.Tensor and value.dtype in _WIDE:
        return value.to(_WIDE[value.dtype])
    return value


def call_in_double(model: torch.nn.Module, values: list[Any], tables: Tables, updated: Sequence[str] = ()) -> Any:
    """The result for these values, with buffers that are `updated`. `model` stays as it is; `tables` see
    `find_tables`."""
    wide = copy.deepcopy(model).double()
    for (path, name), table in tables.items():
        setattr(wide.get_submodule(path), name, table.clone())
    given = [
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in values
    ]
    with torch.no_grad(), double_precision():
        result = wide(*given)
    return (result, [tensors_of(wide)[name] for name in updated]) if updated else result


def find_tables(model: torch.nn.Module, make: Callable[[], torch.nn.Module]) -> Tables:
    """The tensors that the constructor computes and keeps, neither parameters nor buffers, in double precision. `make`
    constructs the model once more; it is only called where there are such."""
    plain = {key: value for key, value in _plain_tensors(model).items() if value.dtype in _WIDE}
    if not plain:
        return {}
    try:
        with double_precision():
            again = _plain_tensors(make())
    except Exception:  # whatever the reference raises in double precision
        return {}
    return {
        key: again[key].to(value.device)
        for key, value in plain.items()
        if key in again and _is_near(again[key].to(value.device), value)
    }


def _plain_tensors(model: torch.nn.Module) -> Tables:
    return {
        (path, name): value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if type(value) is torch.Tensor
    }


def _is_near(wide: torch.Tensor, value: torch.Tensor) -> bool:
    if wide.dtype is not _WIDE[value.dtype] or wide.shape != value.shape:
        return False
    far = (wide - value).abs().mean() > _NEAR * value.abs().mean()
    return not bool(far)
