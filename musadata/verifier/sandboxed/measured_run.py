"""Inside the sandbox: a candidate at its measure size, on command of the trusted side.

This code shares its process with the candidate and is not trusted. Inputs are drawn here, on the device, from seeds
that the trusted side tells one at a time; outputs go through a window to the process that holds the expected results.
"""

from typing import Any

import torch

from musadata.verifier.protocol import measure_messages as measures
from musadata.verifier.protocol import messages
from musadata.verifier.protocol.pytree import flatten
from musadata.verifier.sandboxed.device_inputs import FEW_ROUNDS, draw_on, redraw
from musadata.verifier.sandboxed.device_models import construct_on, digest_state, find_problem, free_memory
from musadata.verifier.sandboxed.device_oracle import describe_tensor
from musadata.verifier.sandboxed.dispatch_watch import DispatchWatch, count_moved
from musadata.verifier.sandboxed.measure import Stopwatch, Turns, measure_share, serve_commands
from musadata.verifier.sandboxed.model_state import tensors_of
from musadata.verifier.sandboxed.plain_values import decode
from musadata.verifier.sandboxed.window import Window, attach_window, put_chunk, take_chunk

_COMMANDS = (measures.TakeState, measures.MakeOutput, measures.SendChunk, messages.MeasureTurn, messages.MeasureShare)


def serve_measured(
    kind: type[torch.nn.Module], model: torch.nn.Module | None, plan: measures.MeasurePlan, backend: Any
) -> object:
    """Carry out the trusted side's commands until it sends `Stop`. `model` is that of the proof sets, if there are any,
    and `backend` the backend's child module. Returns what holds the device's memory."""
    run = _MeasuredRun(kind, model, plan, backend)
    serve_commands(messages.TimingReady(), run.carry_out, *_COMMANDS)
    return run


class StateMismatch(ValueError):
    """The candidate has other parameters than the reference."""


class _MeasuredRun:
    """The candidate's model at the measure size; it is made by the first command, so that its failure is reported."""

    def __init__(
        self, kind: type[torch.nn.Module], model: torch.nn.Module | None, plan: measures.MeasurePlan, backend: Any
    ):
        self._kind, self._model, self._plan = kind, model, plan
        self._backend, self._device = backend, backend.DEVICE
        self._window: Window | None = None
        self._state: list[torch.Tensor] = []
        self._staged: list[tuple[torch.Tensor, torch.Tensor]] = []  # tensors in another memory format, and their values
        self._leaves: list[torch.Tensor] = []
        self._initial: messages.Json = None

    def carry_out(self, command: object) -> object:
        """The answer to one command."""
        if self._window is None:
            self._window = self._get_ready()
        match command:
            case measures.TakeState():
                take_chunk(self._window, self._state, command.start)
                with torch.no_grad():
                    for own, values in self._staged:
                        own.copy_(values)
                return messages.ModelReady(self._initial)
            case measures.MakeOutput():
                return self._make_output(command)
            case measures.SendChunk():
                put_chunk(self._window, self._leaves, command.start)
                return messages.Prepared()
            case messages.MeasureTurn():
                self._leaves = []
                return messages.TurnTimes(tuple(self._turns.measure(self._watch, command.count)))
        assert isinstance(command, messages.MeasureShare)
        return measure_share(
            self._turns, self._watch, lambda on: self._backend.configure(null_kernels=on), command.count
        )

    def _get_ready(self) -> Window:
        """Make the model and its inputs."""
        plan, device = self._plan, self._device
        window = attach_window(plan.window_kind, plan.window, plan.window_bytes)
        if plan.init is not None:
            init = decode(plan.init.value)
            self._model = None  # its memory is needed
            self._model = construct_on(device, lambda: self._kind(*init), plan.seed)
            self._initial = digest_state(self._model)
            self._state = [self._find_target(facts) for facts in plan.state]
        assert self._model is not None
        self._watch = Stopwatch(device, plan.flush_bytes)
        arguments = draw_on(device, plan.specs, plan.seed)

        def fill(call: int) -> None:
            redraw(plan.specs, plan.seed + call, arguments, rounds=FEW_ROUNDS)

        self._turns = Turns(self._model, arguments, fill)
        return window

    def _find_target(self, facts: messages.TensorFacts) -> torch.Tensor:
        """Where a value of the state goes: a tensor of the candidate, or nowhere if it has none and needs none."""
        assert self._model is not None
        own, dtype = tensors_of(self._model).get(facts.name), getattr(torch, facts.dtype)
        fits = own is not None and own.shape == facts.shape and own.dtype == dtype
        if not fits and (own is not None or facts.name in self._plan.parameters):
            what = f"ModelNew has no {facts.name} of shape {tuple(facts.shape)} and dtype {facts.dtype}"
            raise StateMismatch(what)
        if own is not None and own.is_contiguous():
            return own
        values = torch.empty(facts.shape, dtype=dtype, device=self._device)
        self._staged += [(own, values)] if own is not None else []
        return values

    def _make_output(self, command: measures.MakeOutput) -> messages.OutputMade:
        """One call like the timed ones, except that what it does is recorded."""
        self._leaves = []
        self._backend.poison_memory()  # else an output that is not written may hold the right values of the last call
        if not command.null_kernels:  # a replay gets the poisoned memory
            free_memory(self._device)
        redraw(self._plan.specs, command.seed, self._turns.arguments, command.variant)
        self._backend.configure(null_kernels=command.null_kernels)
        self._backend.take_records()
        dispatched = DispatchWatch()

        def forward() -> tuple[Any, list[Any]]:
            with dispatched:
                return flatten(self._turns.forward())

        try:
            milliseconds, (structure, leaves) = self._watch.time(forward)
        finally:
            self._backend.configure(null_kernels=False)
        records = self._backend.take_records()
        problems = [find_problem(leaf, self._device) for leaf in leaves]
        bad = tuple(f"Output {number} is {problem}." for number, problem in enumerate(problems) if problem)
        if not bad:
            self._leaves = [leaf.detach().resolve_conj().resolve_neg().contiguous() for leaf in leaves]
        return messages.OutputMade(
            structure,
            tuple(map(describe_tensor, self._leaves)),
            bad,
            tuple(sorted(dispatched.besides_counters(str(name).replace("::", ".") for name in records.operators))),
            sum(launch.count for launch in records.kernels if not launch.error),
            count_moved(records, dispatched),
            milliseconds,
        )
