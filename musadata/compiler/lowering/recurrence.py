"""Lowering of recurrent layers: the host goes through the steps, and launches two kernels for each.

One multiplies the hidden state by the recurrent weights, the other makes the next states. States of all steps are kept.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from musadata.compiler.ir.captured_graph import TensorType
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index
from musadata.compiler.ir.program import TIME_STEP, Contraction, Indices, Reduction, Steps, fixed
from musadata.compiler.ir.scalar import (
    Buffer,
    Compare,
    Literal,
    Load,
    Named,
    Scalar,
    apply,
    cast,
    choose,
    literal,
    plain,
)
from musadata.compiler.lowering.rules import Call, Results, Value, rule

_AXES = ("row", "col")


class _Recurrence:
    """The steps of one direction of a layer."""

    def __init__(self, c: Call):
        self.c, self.gates, self.weight = c, c.operand("gates"), c.operand("weight")
        self.name = re.sub(r"_steps(\d*)$", r"\1", c.node.name)
        self.initial = {name: _in_memory(c, name) for name in ("hidden", "cell") if c.has(name)}
        self.size = self.weight.shape[1]
        self.steps = Steps(self.gates.shape[0])
        self.time = self.gates.shape[0] - 1 - TIME_STEP if c.number("reverse", False) else TIME_STEP
        self.before = self.time + 1 if c.number("reverse", False) else self.time - 1
        c.program.steps = self.steps

    def buffer(self, name: str) -> tuple[Buffer, Value, Callable[[Index, Index], Scalar]]:
        """A buffer for a state of all steps, its elements, and the state before the step at (row, col)."""
        buffer = self.c.program.new_buffer(f"{self.name}_{name}", self.c.type)
        earlier = replace(buffer, name=f"{buffer.name}_before", alias=buffer)
        initial, dtype = self.initial[name], self.c.dtype

        def previous(row: Index, col: Index) -> Scalar:
            known = Load(dtype, earlier, (self.before, row, col))
            return choose(Compare("bool", ">=", TIME_STEP, ONE), known, cast(initial.load((row, col)), dtype))

        return buffer, Value.stored(buffer.name, self.c.type, buffer), previous

    def product(self, previous: Callable[[Index, Index], Scalar]) -> Value:
        """The hidden state times the recurrent weights."""

        def left(axes: Indices, loops: Indices) -> Scalar:
            return previous(axes[0], loops[0])

        def right(axes: Indices, loops: Indices) -> Scalar:
            return cast(self.weight.load((axes[1], loops[0])), self.c.dtype)

        return self.c.program.reduce(
            f"{self.name}_product",
            TensorType((self.gates.shape[1], self.weight.shape[0]), self.c.dtype),
            _AXES,
            Reduction("sum", fixed((self.size,)), ("k",)),
            lambda axes, loops: left(axes, loops) * right(axes, loops),
            Contraction((), (0,), left, right),
        )

    def parts(self, product: Value, part: int, index: Indices) -> tuple[Scalar, Scalar]:
        """What input and hidden state add to one of the gates."""
        _, row, col = index
        place = self.size * part + col
        hidden = product.load((row, place))
        bias = self.c.optional("bias")
        if bias is not None:
            hidden = hidden + cast(bias.load((place,)), self.c.dtype)
        return cast(self.gates.load((self.time, row, place)), self.c.dtype), hidden

    def gate(self, name: str, activation: str, product: Value, part: int, index: Indices) -> Scalar:
        one, other = self.parts(product, part, index)
        return Named(self.c.dtype, name, apply(activation, one + other))

    def store(self, buffer: Buffer, body: Callable[[Indices], Scalar]) -> None:
        self.c.program.store_step(buffer, _AXES, self.time, body)


def _in_memory(c: Call, name: str) -> Value:
    """A state before the first step: a tensor of its own where layers shall share kernels or where it is computed; else
    it is read where it is passed, or is one number."""
    value = c.value(name)
    first = plain(value.load((ZERO, ZERO)))
    is_passed = isinstance(first, Load) and first.buffer.role == "argument" and not c.program.alike
    if not is_passed and not isinstance(first, Literal):
        c.program.materialize(value)
    return value


@rule("lstm_steps")
def _lstm(c: Call) -> Results:
    steps = _Recurrence(c)
    hidden, hiddens, hidden_before = steps.buffer("hidden")
    cell, cells, cell_before = steps.buffer("cell")
    product = steps.product(hidden_before)

    def next_cell(index: Indices) -> Scalar:
        input_gate = steps.gate("input_gate", "sigmoid", product, 0, index)
        forget_gate = steps.gate("forget_gate", "sigmoid", product, 1, index)
        candidate = steps.gate("candidate", "tanh", product, 2, index)
        return forget_gate * cell_before(index[1], index[2]) + input_gate * candidate

    steps.store(cell, next_cell)
    steps.store(
        hidden,
        lambda index: steps.gate("output_gate", "sigmoid", product, 3, index) * apply("tanh", cells.load(index)),
    )
    c.program.steps = None
    return hiddens, cells


@rule("gru_steps")
def _gru(c: Call) -> Results:
    steps = _Recurrence(c)
    hidden, hiddens, before = steps.buffer("hidden")
    product = steps.product(before)

    def next_hidden(index: Indices) -> Scalar:
        reset = steps.gate("reset_gate", "sigmoid", product, 0, index)
        update = steps.gate("update_gate", "sigmoid", product, 1, index)
        one, other = steps.parts(product, 2, index)
        candidate = Named(c.dtype, "candidate", apply("tanh", one + reset * other))
        return (literal(1, c.dtype) - update) * candidate + update * before(index[1], index[2])

    steps.store(hidden, next_hidden)
    c.program.steps = None
    return hiddens


@rule("rnn_steps")
def _rnn(c: Call) -> Results:
    steps = _Recurrence(c)
    hidden, hiddens, before = steps.buffer("hidden")
    product = steps.product(before)
    activation = str(c.node.arguments["activation"])

    def next_hidden(index: Indices) -> Scalar:
        one, other = steps.parts(product, 0, index)
        total = Named(c.dtype, "total", one + other)
        return apply("tanh", total) if activation == "tanh" else choose(total < 0, 0, total)

    steps.store(hidden, next_hidden)
    c.program.steps = None
    return hiddens
