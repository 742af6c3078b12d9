"""Which inputs of a reference are more than independent random values: only `get_inputs` itself can draw these."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from musadata.dispatch import DispatchMode
from musadata.tasks.reference_loading import set_seed

_INTEGERS = (torch.int32, torch.int64)
_RANDOM = ["normal", "uniform", "random", "bernoulli", "exponential", "randn", "rand", "randint"]
_FILLS = frozenset([*_RANDOM, "zeros", "ones", "full", "empty"])
# What keeps independent values independent, of one tensor and numbers, and makes no value as frequent as zeros of ReLU.
_SCALAR = ["mul", "add", "sub", "rsub", "div", "neg", "abs", "floor", "ceil", "round", "sign", "sqrt", "square", "exp"]
_COMPARED = ["gt", "ge", "lt", "le", "eq", "ne", "logical_not", "bitwise_not", "remainder", "floor_divide", "pow"]
_CURVES = ["log", "sigmoid", "tanh", "tril", "triu"]
_MOVED = ["view", "_unsafe_view", "_reshape_alias", "reshape", "t", "transpose", "permute", "unsqueeze", "squeeze"]
_COPIED = ["_to_copy", "clone", "copy", "alias", "detach", "contiguous"]
_KEEPS = frozenset([*_SCALAR, *_COMPARED, *_CURVES, *_MOVED, *_COPIED])


def find_made(get_inputs: Callable[[], Sequence[Any]], draws: Sequence[Sequence[Any]]) -> list[bool]:
    """For each argument whether it differs between the `draws` of `get_inputs` and is made of other tensors (boxes of
    corners and sizes, lengths of rows, normalised weights, masks), or of what another argument is made of, or is not
    finite; or is a few constant integers, as sizes and offsets are."""
    watch = _Sources()
    set_seed(0)
    with watch:
        values = list(get_inputs())
    sources = [watch.sources(value) if isinstance(value, torch.Tensor) else set() for value in values]
    found = []
    for at, (first, own) in enumerate(zip(draws[0], sources, strict=True)):
        others = [one for one in (*sources[:at], *sources[at + 1 :]) if one]
        is_constant = not isinstance(first, torch.Tensor) or all(_is_same(first, draw[at]) for draw in draws[1:])
        is_bound = own is None or any(own & other for other in others)
        found.append(_are_sizes(first) if is_constant else is_bound or not bool(torch.isfinite(first).all()))
    return found


def find_unread(text: str) -> set[str]:
    """The arguments of `Model.forward` that it never names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    named = {one.id for line in method.body for one in ast.walk(line) if isinstance(one, ast.Name)}
                    return {argument.arg for argument in method.args.args} - named - {"self"}
    return set()


def _is_same(one: torch.Tensor, other: Any) -> bool:
    return isinstance(other, torch.Tensor) and one.shape == other.shape and torch.equal(one, other)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _INTEGERS and value.dim() == 1 and value.numel() in (2, 3)


class _Sources(DispatchMode):
    """For each memory the random fills that its values come from one by one; None where they are made otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, set[int] | None] = {}
        self._kept: list[torch.Tensor] = []  # or memory of theirs would be another tensor's
        self._fills = 0

    def sources(self, tensor: torch.Tensor) -> set[int] | None:
        return self._known.get(tensor.untyped_storage()._cdata)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[1].removesuffix("_like")
        name = name.rstrip("_") if func._schema.is_mutable else name
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor) and one.dim()]
        for result in (one for one in tree_leaves(found) if isinstance(one, torch.Tensor)):
            self._kept.append(result)
            self._known[result.untyped_storage()._cdata] = self._of(name, given, result)
        return found

    def _of(self, name: str, given: Sequence[torch.Tensor], result: torch.Tensor) -> set[int] | None:
        is_whole = result.numel() * result.element_size() == result.untyped_storage().nbytes()
        if name in _FILLS and is_whole:
            self._fills += 1
            return {self._fills}
        if name not in _KEEPS or not is_whole or any(one.numel() != result.numel() for one in given):
            return None
        sources = [self.sources(one) for one in given]
        return None if any(one is None for one in sources) else set().union(*(one or () for one in sources))
