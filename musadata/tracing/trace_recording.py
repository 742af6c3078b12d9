"""Recording every aten operator and every tensor of a reference's execution. Runs inside the sandbox."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any

import torch

from musadata.errors import Rejection
from musadata.records import InputSpec, TensorFact, Trace
from musadata.tasks.operator_recording import OperatorCall, OperatorRecorder, tensors_in
from musadata.tasks.reference_loading import build_model
from musadata.tasks.sizing.fake_execution import TakeBranches, record_branches, shapes_only
from musadata.tracing.cost import operator_flops
from musadata.tracing.inputs import draw, parse_literal
from musadata.tracing.roofline import classify, traffic, unit_of

_PLUMBING = frozenset({"layout", "device", "pin_memory", "memory_format", "generator", "non_blocking", "requires_grad"})


_VALUE_DRAWS = 3
_VISIBLE = 1e-4  # of the output's largest value; a smaller change is rounding, which no test can check


class Untraceable(Rejection):
    """A reference that runs, but whose trace would not describe what it computes."""


class TraceRecorder(OperatorRecorder):
    """Records facts about every tensor that an operator makes, by name, and counts FLOPs. Keeps every tensor alive."""

    def __init__(self, named: Mapping[str, tuple[str, torch.Tensor]]):
        """`named`: name -> (role, tensor) of everything that exists before the run."""
        super().__init__()
        self.flops = 0
        self.made: list[TensorFact] = []
        self.read: set[str] = set()
        self.before = dict(named)
        self._names = {id(tensor): name for name, (_, tensor) in named.items()}
        self._alive: list[torch.Tensor] = []
        self._taken = {name.replace(".", "_") for name in named}
        self._numbers: dict[str, Iterator[int]] = {}  # that names with the same beginning have not had yet

    def name_operand(self, tensor: torch.Tensor) -> str:
        """Its name; a tensor never seen before is a constant that the module or its globals hold."""
        if id(tensor) not in self._names:
            name = self._name(tensor, "constant")
            self.before[name] = ("buffer", tensor)
        return self._names[id(tensor)]

    def record(self, call: OperatorCall) -> None:
        function, operands = call.function, tuple(call.names)
        self.flops += operator_flops(function, call.arguments, call.keywords, call.result)
        self.read.update(operands)
        arguments = _describe_arguments(function, call.arguments, call.keywords)
        for tensor in call.produced:
            if id(tensor) not in self._names or function._schema.is_mutable:  # written in place: it gets a new name
                name = self._name(tensor, _plain_name(function.overloadpacket.__name__))
                self.made.append(_fact(name, "intermediate", tensor, str(function), operands, arguments))

    def name_of(self, tensor: torch.Tensor) -> str | None:
        return self._names.get(id(tensor))

    def _name(self, tensor: torch.Tensor, base: str) -> str:
        """Give a tensor a name that no other has."""
        name, numbers = base, self._numbers.setdefault(base, count(1))
        while name in self._taken:
            name = f"{base}_{next(numbers)}"
        self._taken.add(name)
        self._names[id(tensor)] = name
        self._alive.append(tensor)
        return name


def _plain_name(packet: str) -> str:
    """An operator's name as its users know it: `_scaled_dot_product_flash_attention_for_cpu` is PyTorch's choice."""
    return packet.strip("_").removesuffix("_for_cpu").replace("_flash_attention", "_attention")


def record(reference: ModuleType, specs: Sequence[InputSpec], seed: int, values: Sequence[Any] | None = None) -> Trace:
    """Build the model anew, run it once without gradients and state the facts.

    Raises:
        Untraceable: an output is missing, empty, not finite or not a plain tensor.
        Exception: whatever the reference raises.
    """
    model = build_model(reference, seed)
    values = list(draw(specs, seed) if values is None else values)
    with torch.no_grad(), _plain_dispatch():
        trace, outputs = _run(model, specs, values)
    _check_outputs(outputs)
    return trace


def record_without_memory(reference: ModuleType, specs: Sequence[InputSpec], seed: int, own: Trace) -> Trace:
    """The facts of one run on inputs of any size, which hold no values. `own`: those of a run with values,
    whose branches it takes.

    Tensors on the meta device are tried first. Where these meet others, or PyTorch has other operators for them, fake
    ones follow, which are ten times as slow.

    Raises:
        Unscalable: what it does depends on values.
        Exception: whatever the reference raises.
    """
    branches = record_branches(build_model(reference, seed), draw(own.inputs, seed))
    with suppress(Exception):
        trace = _record_unfilled(build_model(reference, seed).to("meta"), specs, branches, with_devices=False)
        if trace.operators == own.operators:
            return trace
    return _record_unfilled(build_model(reference, seed), specs, branches, with_devices=True)


def _record_unfilled(
    model: torch.nn.Module, specs: Sequence[InputSpec], branches: Sequence[bool], *, with_devices: bool
) -> Trace:
    with shapes_only(with_devices), TakeBranches(branches):
        return _run(model, specs, [_unfilled(spec) for spec in specs])[0]


def _unfilled(spec: InputSpec) -> Any:
    if spec.kind == "literal":
        return parse_literal(spec.literal)
    return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))


def _run(model: torch.nn.Module, specs: Sequence[InputSpec], values: Sequence[Any]) -> tuple[Trace, list[torch.Tensor]]:
    """The facts of a run, and its outputs."""
    recorder = TraceRecorder(_named_tensors(model, specs, values))
    before = {name: _fact(name, role, tensor) for name, (role, tensor) in recorder.before.items()}
    with recorder:
        result = model(*values)
    for name, (role, tensor) in recorder.before.items():
        before.setdefault(name, _fact(name, role, tensor))
    outputs = tensors_in(result)
    facts = [fact for fact in before.values() if fact.role == "input" or fact.name in recorder.read]
    facts += _with_outputs(recorder, outputs)
    moved = traffic(facts)
    intensity, bound = classify(recorder.flops, moved, unit_of(facts))
    trace = Trace(
        inputs=tuple(specs),
        tensors=tuple(facts),
        operators=tuple(name for name in recorder.operators if not name.startswith("prim.")),  # asked of fakes
        flops=recorder.flops,
        bytes=moved,
        intensity=round(intensity, 4),
        bound=bound,
    )
    return trace, outputs


def check_values_matter(reference: ModuleType, specs: Sequence[InputSpec], seed: int) -> None:
    """Refuse a reference whose output does not change with the described inputs: no test could tell kernels apart.

    Raises:
        Untraceable: an output stays the same, but for rounding, whatever values the inputs take.
        Exception: whatever the reference raises.
    """
    model = build_model(reference, seed)
    with torch.no_grad():
        runs = [tensors_in(model(*draw(specs, seed + further))) for further in range(_VALUE_DRAWS)]
    for number, (first, *others) in enumerate(zip(*runs, strict=True)):
        if not any(_differs(first, other) for other in others):
            raise Untraceable("values_do_not_matter", f"output {number} is the same for all inputs as described")


def _differs(first: torch.Tensor, other: torch.Tensor) -> bool:
    if first.shape != other.shape:
        return True
    one, two = first.double(), other.double()
    return bool(((one - two).abs().max() > _VISIBLE * one.abs().max()).item())


@contextmanager
def _plain_dispatch() -> Iterator[None]:
    """Disable fused operators that torch selects by machine, so that traces are the same everywhere."""
    fast, onednn = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)  # `backends.mkldnn.flags` does more, and warns about it
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(onednn)
        torch.backends.mha.set_fastpath_enabled(fast)


def _named_tensors(
    model: torch.nn.Module, specs: Sequence[InputSpec], values: Sequence[Any]
) -> dict[str, tuple[str, torch.Tensor]]:
    named = {
        spec.name: ("input", value)
        for spec, value in zip(specs, values, strict=True)
        if isinstance(value, torch.Tensor)
    }
    for role, tensors in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in tensors:
            named.setdefault(name if name not in named else f"self.{name}", (role, tensor))
    return named


def _with_outputs(recorder: TraceRecorder, outputs: Sequence[torch.Tensor]) -> list[TensorFact]:
    """The tensors that were made, with returned ones marked as outputs. A returned input gets a fact of its own."""
    names = {recorder.name_of(tensor) for tensor in outputs}
    facts = [replace(fact, role="output") if fact.name in names else fact for fact in recorder.made]
    made = {fact.name for fact in facts}
    for index, tensor in enumerate(outputs):
        name = recorder.name_of(tensor)
        if name not in made:
            operands = () if name is None else (name,)
            facts.append(_fact(f"output_{index}", "output", tensor, "", operands))
    return facts


def _check_outputs(outputs: Sequence[torch.Tensor]) -> None:
    if not outputs:
        raise Untraceable("no_tensor_output", "forward returns no tensor")
    for tensor in outputs:
        if tensor.layout != torch.strided:
            raise Untraceable("sparse_output", f"layout {tensor.layout}")
        if tensor.numel() == 0:
            raise Untraceable("empty_output", f"shape {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise Untraceable("not_finite", f"shape {tuple(tensor.shape)}")


def _fact(
    name: str, role: str, tensor: torch.Tensor, operator: str = "", operands: tuple[str, ...] = (), arguments: str = ""
) -> TensorFact:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorFact(name, role, operator, tuple(tensor.shape), tuple(tensor.stride()), dtype, operands, arguments)


def _describe_arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The arguments that are no tensors, by their name in the operator's schema."""
    schema = func._schema.arguments
    given = {schema[index].name: value for index, value in enumerate(args)} | dict(kwargs)
    texts = [
        f"{name}={_describe(value)}"
        for name, value in given.items()
        if name not in _PLUMBING and value is not None and not tensors_in(value)
    ]
    return ", ".join(texts)


def _describe(value: Any) -> str:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_describe(item) for item in value)}]"
    if isinstance(value, float) and math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return f"{value:.1f}"
    return str(value) if isinstance(value, (bool, int, float, complex, str)) else type(value).__name__
