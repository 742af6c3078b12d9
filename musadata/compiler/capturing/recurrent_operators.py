"""Recurrent layers as one operator for all steps of a direction, where PyTorch would unroll them.

Runs inside the sandbox. Importing this module registers the operators.
"""

from collections.abc import Callable
from typing import Any

import torch

from musadata.compiler.ir.lowering_errors import Unsupported

Tensor = torch.Tensor


@torch.library.custom_op("musadata::lstm_steps", mutates_args=())
def lstm_steps(
    gates: Tensor, hidden: Tensor, cell: Tensor, weight: Tensor, bias: Tensor | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Hidden and cell states of all steps; `gates` is the part of the gates that the inputs make."""
    hiddens, cells = [torch.empty(0)] * len(gates), [torch.empty(0)] * len(gates)
    for step in reversed(range(len(gates))) if reverse else range(len(gates)):
        taken, kept, new, given = (gates[step] + torch.nn.functional.linear(hidden, weight, bias)).chunk(4, 1)
        cell = kept.sigmoid() * cell + taken.sigmoid() * new.tanh()
        hidden = given.sigmoid() * cell.tanh()
        hiddens[step], cells[step] = hidden, cell
    return torch.stack(hiddens), torch.stack(cells)


@torch.library.custom_op("musadata::gru_steps", mutates_args=())
def gru_steps(gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, reverse: bool) -> Tensor:
    """Hidden states of all steps."""
    hiddens = [torch.empty(0)] * len(gates)
    for step in reversed(range(len(gates))) if reverse else range(len(gates)):
        one, other = gates[step].chunk(3, 1), torch.nn.functional.linear(hidden, weight, bias).chunk(3, 1)
        reset, update = (one[0] + other[0]).sigmoid(), (one[1] + other[1]).sigmoid()
        hidden = (1 - update) * (one[2] + reset * other[2]).tanh() + update * hidden
        hiddens[step] = hidden
    return torch.stack(hiddens)


@torch.library.custom_op("musadata::rnn_steps", mutates_args=())
def rnn_steps(
    gates: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None, reverse: bool, activation: str
) -> Tensor:
    """Hidden states of all steps; the activation is `tanh` or `relu`."""
    hiddens = [torch.empty(0)] * len(gates)
    for step in reversed(range(len(gates))) if reverse else range(len(gates)):
        hidden = getattr(torch, activation)(gates[step] + torch.nn.functional.linear(hidden, weight, bias))
        hiddens[step] = hidden
    return torch.stack(hiddens)


def _states(gates: Tensor, weight: Tensor) -> Tensor:
    return gates.new_empty([*gates.shape[:2], weight.shape[1]])


lstm_steps.register_fake(lambda gates, hidden, cell, weight, *_: (_states(gates, weight), _states(gates, weight)))
for _steps in (gru_steps, rnn_steps):
    _steps.register_fake(lambda gates, hidden, weight, *_: _states(gates, weight))


def _layers(kind: str) -> Callable[..., Any]:
    """A function with the arguments of `torch._VF.lstm` and its like."""

    def call(
        input: Tensor,
        states: Any,
        weights: Any,
        biases: Any,
        layers: Any = 1,
        dropout: float = 0.0,
        train: bool = False,
        bidirectional: Any = False,
        batch_first: bool = False,
    ) -> Any:
        if not isinstance(biases, bool):
            raise Unsupported("packed sequences")
        if train and dropout > 0 and layers > 1:
            raise Unsupported("a recurrent layer with dropout")
        directions, each = 2 if bidirectional else 1, 4 if biases else 2
        if len(weights) != layers * directions * each:
            raise Unsupported("a recurrent layer with projections")
        given = list(states) if kind == "lstm" else [states]
        last: list[list[Tensor]] = [[] for _ in given]
        value = input.transpose(0, 1) if batch_first else input
        for layer in range(layers):
            results = []
            for direction in range(directions):
                number = layer * directions + direction
                inner, recurrent, *both = weights[number * each : (number + 1) * each]
                gates = torch.nn.functional.linear(value, inner, both[0] if both else None)
                steps = _run(kind, gates, [state[number] for state in given], recurrent, both[1:], direction == 1)
                results.append(steps[0])
                for ends, one in zip(last, steps, strict=True):
                    ends.append(one[0] if direction else one[-1])
            value = torch.cat(results, 2) if directions > 1 else results[0]
        return value.transpose(0, 1) if batch_first else value, *(torch.stack(ends) for ends in last)

    return call


def _run(
    kind: str, gates: Tensor, states: list[Tensor], weight: Tensor, bias: Any, reverse: bool
) -> tuple[Tensor, ...]:
    """The states of all steps of a layer in one direction."""
    arguments = (*states, weight, bias[0] if bias else None, reverse)
    if kind == "lstm":
        return tuple(torch.ops.musadata.lstm_steps(gates, *arguments))
    if kind == "gru":
        return (torch.ops.musadata.gru_steps(gates, *arguments),)
    return (torch.ops.musadata.rnn_steps(gates, *arguments, kind.removeprefix("rnn_")),)


RECURRENT_REPLACEMENTS: tuple[tuple[Any, str, Callable[..., Any]], ...] = tuple(
    (owner, kind, _layers(kind)) for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for owner in (torch._VF, torch)
)
