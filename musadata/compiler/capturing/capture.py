"""Capturing a reference as a flat aten graph of plain JSON values. Runs untrusted code: call inside the sandbox only.

Sizes that vary over a task's sets of input shapes stay symbolic, all others are numbers. The graph is functional and
decomposed to core aten operators, except for those in `UNDECOMPOSED`, for which the lowering has rules of its own.
"""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext
from torch.utils import _pytree as pytree

from musadata.compiler.capturing.asked_conditions import AskedShapes
from musadata.compiler.capturing.autograd_functions import called_directly
from musadata.compiler.capturing.constructor import recording_functions, slice_constructor
from musadata.compiler.capturing.constructor_arguments import find_constructor_arguments
from musadata.compiler.capturing.encoding import GraphEncoder
from musadata.compiler.capturing.held_tensors import copied_attributes, refuse_held_values
from musadata.compiler.capturing.integer_attributes import IntegerAttribute, symbolic
from musadata.compiler.capturing.undecomposed_operators import UNDECOMPOSED, undecomposed_operators
from musadata.compiler.capturing.written_parts import read_written_parts
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.records import InputSpec
from musadata.rows import restore
from musadata.sandbox.child import is_of_environment
from musadata.tasks.reference_loading import build_model, load_reference
from musadata.tracing.inputs import draw


def capture(source: str, shape_sets: Sequence[Sequence[dict[str, Any]]], seed: int) -> dict[str, Any]:
    """The graph of a reference as plain JSON values; `{"unsupported": reason}` where there is none.

    `shape_sets` are plain `InputSpec`s, one list per set; all must agree in everything but sizes.
    """
    return explained(lambda: _capture(source, [[restore(InputSpec, spec) for spec in one] for one in shape_sets], seed))


def explained(find_graph: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The graph, or why there is none."""
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # its fused operators have no decomposition
    try:
        with undecomposed_operators():
            return find_graph()
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:  # a decomposition or a fake kernel may raise anything; the task is then out of reach
        if is_of_environment(error):
            raise
        return {"unsupported": f"tracing failed: {type(error).__name__}", "detail": str(error)[:500]}


def _capture(source: str, shape_sets: list[list[InputSpec]], seed: int) -> dict[str, Any]:
    with recording_functions() as called:
        reference = load_reference(source)
        model = build_model(reference, seed)
    shape_sets = sorted(shape_sets, key=lambda specs: _tracing_penalty(specs, shape_sets))
    values = draw(shape_sets[0], seed)
    found = find_constructor_arguments(
        reference.Model,
        list(reference.get_init_inputs()),
        model,
        lambda model, integers: trace(model, shape_sets, values, integers=integers),
        lambda model: trace(model, shape_sets[:1], values),
        lambda model: _returns_elements(model, values),
    )
    return {
        "arguments": arguments_of(reference.Model, shape_sets[0]),
        "options": options_of(reference.Model, len(shape_sets[0])),
        "constructor": slice_constructor(source, called),
        "fixed": found.fixed,
        "shaped": found.shaped,
        **found.graph,
    }


def _returns_elements(model: torch.nn.Module, values: list[Any]) -> bool:
    """Whether the model takes the inputs, and has a result that is not empty for them."""
    try:
        with torch.no_grad():
            leaves = pytree.tree_leaves(model(*(value.clone() if _is_tensor(value) else value for value in values)))
    except Exception:  # the model's own code may raise anything
        return False
    return all(leaf.numel() > 0 for leaf in leaves if _is_tensor(leaf))


@dataclass(frozen=True)
class SizedState:
    """The state of a model whose own sizes vary: its specs for each set of shapes; `attributes` of the model `become`
    symbols as well, and are returned where they are symbols of their own."""

    specs: list[list[InputSpec]]
    attributes: Any


def trace(
    model: torch.nn.Module,
    shape_sets: list[list[InputSpec]],
    values: list[Any],
    sized: SizedState | None = None,
    integers: tuple[IntegerAttribute, ...] = (),
) -> dict[str, Any]:
    """The graph of one model; `values` are inputs of the first set of shapes, `integers` become symbols."""
    environment = AskedShapes()
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    state = state_of(model)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    weights = [tensors[entry["name"]] for entry in state]
    if sized is None:
        fakes, symbols = _fake_inputs(mode, values, shape_sets)
        fake_state: list[torch.Tensor] = [mode.from_tensor(tensor, static_shapes=True) for tensor in weights]
    else:
        shape_sets = [[*specs, *more] for specs, more in zip(shape_sets, sized.specs, strict=True)]
        fakes, symbols = _fake_inputs(mode, [*values, *weights], shape_sets)
        varying = [[spec for spec in specs if spec.kind != "literal"] for specs in shape_sets]
        integers = (*integers, *sized.attributes.become(model, fakes, varying))
        fakes, fake_state = fakes[: len(fakes) - len(weights)], fakes[len(fakes) - len(weights) :]
    call = _Call(model, [entry["name"] for entry in state], values)
    with (
        symbolic(model, integers, environment) as (given, attributes),
        enable_python_dispatcher(),
        mode,
        torch.backends.mkldnn.flags(enabled=False),
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        undecomposed_operators(),
        called_directly(),
    ):
        try:
            traced = _traced(call, fake_state, fakes, given)
        except RuntimeError as error:
            if "mutating a non-functional tensor" not in str(error):
                raise
            call.writes_attributes = True
            traced = _traced(call, fake_state, fakes, given)
        if _writes_in_place(traced):  # a decomposition wrote in place, below functionalization: trace its result again
            traced = _traced(traced, fake_state, fakes, given)
    if _writes_in_place(traced):
        raise Unsupported("writes in place")
    read_written_parts(traced)
    if call.writes_attributes:
        refuse_held_values(model, traced)
    encoder = GraphEncoder(traced, environment, symbols, attributes)
    encoder.check_guards(shape_sets)
    roles = [("state", entry["name"]) for entry in state]
    roles += [("argument", spec.name) for spec, value in zip(shape_sets[0], values, strict=False) if _is_tensor(value)]
    return {
        "state": state,
        "sizes": encoder.sizes(shape_sets),
        "conditions": encoder.conditions(),
        **encoder.graph(roles),
        "result": call.result(),
    }


def _traced(function: Callable[..., Any], *arguments: Any) -> GraphModule:
    """The functional graph of a function over core aten operators."""
    functional = torch.func.functionalize(function, remove="mutations")
    traced = make_fx(functional, decomposition_table=_decompositions(), _allow_non_fake_inputs=True)(*arguments)
    _drop_updates(traced, len(pytree.tree_leaves(arguments[0])))
    return traced


def _drop_updates(traced: GraphModule, state: int) -> None:
    """Remove what is written into the first `state` placeholders when all is computed: running statistics, which a
    training-mode batch norm updates beside its result. Verdicts are about results."""
    held = [node for node in traced.graph.nodes if node.op == "placeholder"][:state]
    for node in [node for node in traced.graph.nodes if node.target is torch.ops.aten.copy_.default]:
        if node.args[0] in held and not node.users:
            traced.graph.erase_node(node)
    traced.graph.eliminate_dead_code()


def _writes_in_place(traced: GraphModule) -> bool:
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    return any(isinstance(target, OpOverload) and target._schema.is_mutable for target in targets)


def _tracing_penalty(specs: Sequence[InputSpec], shape_sets: Sequence[Sequence[InputSpec]]) -> tuple[int, int]:
    """Sort key of sets of shapes, best for tracing first: torch takes varying sizes of 0 and 1 for constants; then the
    largest set is best."""
    small = sum(
        size < 2 and any(other[i].shape[d] != size for other in shape_sets if d < len(other[i].shape))
        for i, spec in enumerate(specs)
        for d, size in enumerate(spec.shape)
    )
    return small, -sum(math.prod(spec.shape) for spec in specs)


class _Call:
    """The reference's forward as a function of its state and tensor arguments. Records the nesting of the result."""

    def __init__(self, model: torch.nn.Module, names: list[str], values: list[Any]):
        self._model, self._names, self._values = model, names, values
        self.writes_attributes = False
        self._spec: Any = None
        self._leaves: list[Any] = []

    def __call__(
        self, weights: list[torch.Tensor], arguments: list[torch.Tensor], integers: list[torch.SymInt]
    ) -> list[torch.Tensor]:
        """`integers` are those that attributes of the model hold already."""
        tensors = iter(arguments)
        positional = tuple(next(tensors) if _is_tensor(value) else value for value in self._values)
        with torch.no_grad(), copied_attributes(self._model) if self.writes_attributes else nullcontext():
            state = dict(zip(self._names, weights, strict=True))
            result = torch.func.functional_call(self._model, state, positional)
        self._leaves, self._spec = pytree.tree_flatten(result)
        return [leaf for leaf in self._leaves if _is_tensor(leaf)]

    def result(self) -> Any:
        """The nesting of the result: `{"tensor": i}`, `{"value": v}`, `{"tuple"|"list": […]}`, `{"dict": {…}}`."""
        count = iter(range(len(self._leaves)))
        plain: list[Any] = []
        for leaf in self._leaves:
            if not _is_tensor(leaf) and not isinstance(leaf, (int, float, bool, str, type(None))):
                raise Unsupported(f"returns a {type(leaf).__name__}")
            plain.append({"tensor": next(count)} if _is_tensor(leaf) else {"value": leaf})
        return _nesting(pytree.tree_unflatten(plain, self._spec))


def _nesting(value: Any) -> Any:
    if type(value) is dict and set(value) in ({"tensor"}, {"value"}):
        return value
    if isinstance(value, (tuple, list)) and (type(value) in (tuple, list) or hasattr(value, "n_fields")):
        kind = "list" if isinstance(value, list) else "tuple"  # PyTorch's named results are tuples
        return {kind: [_nesting(item) for item in value]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: _nesting(item) for key, item in value.items()}}
    raise Unsupported(f"returns a {type(value).__name__}")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


@functools.cache
def _decompositions() -> dict[Any, Any]:
    table = core_aten_decompositions()
    return {
        op: rule
        for op, rule in table.items()
        if getattr(op, "overloadpacket", None) is None or op.overloadpacket.__name__ not in UNDECOMPOSED
    }


def _fake_inputs(
    mode: FakeTensorMode, values: list[Any], shape_sets: list[list[InputSpec]]
) -> tuple[list[torch.Tensor], dict[Any, tuple[int, int]]]:
    """Fake tensors whose varying sizes are symbols, and where each symbol stands: (argument, dimension)."""
    fakes: list[torch.Tensor] = []
    symbols: dict[Any, tuple[int, int]] = {}
    for index, value in enumerate(values):
        kinds = {(specs[index].dtype, len(specs[index].shape), specs[index].literal) for specs in shape_sets}
        if len(kinds) > 1:
            raise Unsupported("shape sets differ in more than sizes")
        if not _is_tensor(value):
            continue
        varying = [len({specs[index].shape[d] for specs in shape_sets}) > 1 for d in range(value.dim())]
        context: Any = StatelessSymbolicContext(
            dynamic_sizes=[DimDynamic.DYNAMIC if varies else DimDynamic.STATIC for varies in varying],
            constraint_sizes=[None] * value.dim(),
        )
        fake = mode.from_tensor(value, symbolic_context=context, source=ConstantSource(f"argument{index}"))
        for dimension, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt):
                symbols[size.node.expr] = (index, dimension)
            elif varying[dimension]:
                raise Unsupported("a varying size of 1 in every set of shapes")
        fakes.append(fake)
    return fakes, symbols


def state_of(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Every parameter and buffer under its state-dict name; shared ones once, under the first name."""
    kept = set(model.state_dict())
    entries = []
    for role, tensors in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
        for name, tensor in tensors:
            if hasattr(tensor, "materialize"):
                raise Unsupported("lazy parameters")
            dtype = str(tensor.dtype).removeprefix("torch.")
            entry = {"name": name, "role": role, "shape": list(tensor.shape), "dtype": dtype}
            entries.append({**entry, "persistent": name in kept, "trains": tensor.requires_grad})
    return entries


def arguments_of(model: type, specs: Sequence[InputSpec]) -> list[dict[str, Any]]:
    """Forward's arguments in call order: the name that its signature gives, and the tensor's dtype and rank."""
    positional = [name for name, parameter in _parameters(model).items() if parameter.kind != parameter.KEYWORD_ONLY]
    names = [positional[i] if i < len(positional) else f"argument{i}" for i in range(len(specs))]
    return [
        {"name": name, "spec": spec.name, "dtype": spec.dtype, "rank": len(spec.shape), "literal": spec.literal}
        for name, spec in zip(names, specs, strict=True)
    ]


def options_of(model: type, given: int) -> list[dict[str, Any]]:
    """Forward's further arguments, which have defaults: `given` of them are passed."""
    parameters = list(_parameters(model).values())[given:]
    return [
        {"name": p.name, "default": repr(p.default), "keyword": p.kind == p.KEYWORD_ONLY}
        for p in parameters
        if isinstance(p.default, (int, float, bool, str, type(None), tuple))
    ]


def _parameters(model: type) -> dict[str, inspect.Parameter]:
    """The named parameters of forward."""
    parameters = list(inspect.signature(model.forward).parameters.values())[1:]  # type: ignore[attr-defined]
    return {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
