"""Functions with a derivative of their own, called for their result alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.autograd import Function


class _Context:
    """What `forward` may ask of its context; what it keeps there is for a derivative that nobody asks for."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None: ...

    save_for_forward = mark_dirty = mark_non_differentiable = save_for_backward

    def set_materialize_grads(self, value: bool) -> None: ...


@contextmanager
def called_directly() -> Iterator[None]:
    """`apply` of every `autograd.Function` calls its `forward`: functionalization refuses those that save tensors
    there, as most do."""

    def apply(cls: type[Function], *arguments: Any, **named: Any) -> Any:
        context = _Context()
        context.needs_input_grad = (False,) * len(arguments)
        own_setup = cls.setup_context is not Function.setup_context  # then `forward` takes no context
        return cls.forward(*(() if own_setup else (context,)), *arguments, **named)

    with patch.object(Function, "apply", classmethod(apply)):
        yield
