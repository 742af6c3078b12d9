"""Writing evaluation mode into references whose results depend on the mode. Runs inside the sandbox.

Models are judged in the mode that their constructor leaves, as KernelBench's harness does: training mode, unless the
constructor says otherwise. Dropout draws random numbers there and batch norms take the batch's own statistics, so a
task's reference ends its constructor with `self.eval()` where that matters, and its candidates do the same.
"""

import ast
import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch

from musadata.tasks.operator_recording import GraphRecorder, TooLarge, tensors_in


def is_training(model: torch.nn.Module) -> bool:
    """Whether any part of the model is in training mode."""
    return any(part.training for part in model.modules())


def is_same_call(model: torch.nn.Module, other: torch.nn.Module, inputs: Sequence[Any], seed: int, limit: int) -> bool:
    """Whether two models dispatch the same operators and return the same bits for the same random numbers.

    Raises:
        TooLarge: a tensor has more than `limit` elements, or there are too many operators.
    """
    return _record(model, inputs, seed, limit) == _record(other, inputs, seed, limit)


def _record(
    model: torch.nn.Module, inputs: Sequence[Any], seed: int, limit: int
) -> tuple[list[str], list[bytes]] | None:
    """The operators that a call dispatches, and the bytes of what it returns; None if it fails."""
    given = copy.deepcopy(list(inputs))
    recorder = GraphRecorder(tensors_in(given), chain(model.parameters(), model.buffers()), limit)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # attention takes it in evaluation mode only, for the same result
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), recorder:
            torch.default_generator.manual_seed(seed)
            result = model(*given)
        tensors = (tensor.detach().contiguous() for tensor in tensors_in(result))
        return recorder.operators, [tensor.flatten().view(torch.uint8).numpy().tobytes() for tensor in tensors]
    except TooLarge:
        raise
    except Exception:  # the reference may raise anything
        return None
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def end_constructor_with(source: str, statement: str = "self.eval()") -> str:
    """The text with another last statement of `Model.__init__`, which is written if `Model` inherits it.

    A constructor on one line is left as it is.
    """
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    model = classes["Model"]
    lines = source.splitlines()
    own = _constructor(model)
    if own is None:
        signature, given = _inherited(model, classes)
        method = (f"def __init__({signature}):", f"    super().__init__({given})", f"    {statement}")
        documented = ast.get_docstring(model) is not None
        first = model.body[min(documented, len(model.body) - 1)]
        after = documented and len(model.body) == 1
        begins = [first.lineno, *(part.lineno for part in getattr(first, "decorator_list", []))]
        place = (first.end_lineno or 0) if after else min(begins) - 1
        blank = [""] if after or not documented else []
        lines[place:place] = [*blank, *(" " * first.col_offset + line for line in method), ""]
    elif own.body[-1].lineno > own.lineno:
        lines.insert(own.body[-1].end_lineno or 0, " " * own.body[0].col_offset + statement)
    return "\n".join(lines) + "\n"


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    return next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)


def _inherited(model: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> tuple[str, str]:
    """The parameters of the constructor that a class inherits, and how they are handed on to it."""
    pending = [model]
    while pending:
        node = pending.pop(0)
        found = _constructor(node)
        if found is not None:
            given = found.args
            names = [part.arg for part in (*given.posonlyargs, *given.args)][1:]
            names += [f"*{given.vararg.arg}"] if given.vararg else []
            names += [f"{part.arg}={part.arg}" for part in given.kwonlyargs]
            names += [f"**{given.kwarg.arg}"] if given.kwarg else []
            return ast.unparse(given), ", ".join(names)
        pending[:0] = [classes[name] for name in map(ast.unparse, node.bases) if name in classes]
    return "self, *args, **kwargs", "*args, **kwargs"
