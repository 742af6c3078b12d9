"""Capturing a reference whose constructor has other sizes in each of its forms: kernels take those as arguments too.

Sizes of parameters and buffers that differ between the forms become symbols, as those of inputs do, and so do those
attributes of the model that are such a size, or a share of one. Runs untrusted code: call inside the sandbox only.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import torch

from musadata.compiler.capturing import capture as capturing
from musadata.compiler.capturing.constructor import recording_functions, slice_constructor
from musadata.compiler.capturing.integer_attributes import IntegerAttribute
from musadata.compiler.ir.lowering_errors import Unsupported
from musadata.records import InputSpec
from musadata.rows import restore
from musadata.tasks.reference_loading import build_model, load_reference
from musadata.tasks.sizing.fake_execution import shapes_only
from musadata.tracing.inputs import parse_literal

_MOST_PARTS = 8  # of a size, in an attribute
Form = tuple[str, list[InputSpec]]


def capture_sizes(forms: Sequence[tuple[str, list[dict[str, Any]]]], seed: int) -> dict[str, Any]:
    """What `capture.capture` returns, for forms of one reference: its text with other sizes, and the specs of its
    inputs. The first is the one that candidates are for; it may be of any size, as inputs are not filled."""

    def find() -> dict[str, Any]:
        restored = [(text, [restore(InputSpec, spec) for spec in specs]) for text, specs in forms]
        if len(restored) > 1:
            with suppress(Unsupported):
                return _capture_generic(restored, seed)
        return _capture(restored, 0, seed)  # small sizes may differ in kind: a group of one channel

    return capturing.explained(find)


def _capture_generic(forms: list[Form], seed: int) -> dict[str, Any]:
    """The graph, traced on the last form, and on the one before to see that it is the same: what a model asks about
    its attributes, and how many layers it makes, need not be known."""
    graph = _capture(forms, -1, seed)
    if len(forms) > 2 or any("attribute" in size for size in graph["sizes"]):
        other = _capture(forms, -2, seed)
        if any(graph[part] != other[part] for part in ("nodes", "outputs", "conditions", "result")):
            raise Unsupported("the graph depends on the constructor's sizes")
    return graph


def _capture(forms: list[Form], traced: int, seed: int) -> dict[str, Any]:
    """The graph, traced on one of the forms."""
    first = forms[traced]
    with recording_functions() as called:
        reference = load_reference(first[0])
        model = build_model(reference, seed)
    others = [form for form in forms if form is not first]
    models = [model, *(_build_shapes(text) for text, _ in others)]
    shape_sets = [specs for _, specs in (first, *others)]
    sized = capturing.SizedState([_specs(one) for one in models], _Attributes(models))
    return {
        "arguments": capturing.arguments_of(reference.Model, shape_sets[0]),
        "options": capturing.options_of(reference.Model, len(shape_sets[0])),
        "constructor": slice_constructor(forms[0][0], called),
        "fixed": {},
        "shaped": [],
        **capturing.trace(model, shape_sets, _unfilled(shape_sets[0]), sized),
    }


def _unfilled(specs: Sequence[InputSpec]) -> list[Any]:
    """Inputs that are allocated and never touched: tracing needs their sizes only."""
    return [
        parse_literal(spec.literal)
        if spec.kind == "literal"
        else torch.empty(spec.shape, dtype=getattr(torch, spec.dtype))
        for spec in specs
    ]


def _build_shapes(text: str) -> torch.nn.Module:
    """The model without memory."""
    try:
        with shapes_only():
            return build_model(load_reference(text), 0)
    except Exception:  # its constructor needs values
        with shapes_only(with_devices=True):
            return build_model(load_reference(text), 0)


def _specs(model: torch.nn.Module) -> list[InputSpec]:
    """The state as if it were inputs."""
    return [
        InputSpec(entry["name"], "state", entry["dtype"], tuple(entry["shape"])) for entry in capturing.state_of(model)
    ]


class _Attributes:
    """Numbers that models of several sizes keep beside their tensors."""

    def __init__(self, models: Sequence[torch.nn.Module]):
        held = [dict(_numbers(model)) for model in models]
        self._columns = {
            path: tuple(one[path] for one in held) for path in held[0] if all(path in one for one in held[1:])
        }

    def become(
        self, model: torch.nn.Module, fakes: Sequence[torch.Tensor], shape_sets: list[list[InputSpec]]
    ) -> list[IntegerAttribute]:
        """Put symbols in place of those that vary as a size of `fakes` does; of the state's sizes rather than of the
        inputs'. Those that vary in a way of their own, such as a number of groups, are returned."""
        own = []
        symbols = {
            tuple(specs[index].shape[dim] for specs in shape_sets): size
            for index, fake in enumerate(fakes)
            for dim, size in enumerate(fake.shape)
            if isinstance(size, torch.SymInt)
        }
        for (prefix, name, place), values in self._columns.items():
            if len(set(values)) == 1:
                continue
            symbol = _find(values, symbols)
            if symbol is None and min(values) < 1:
                raise Unsupported("an attribute that varies with sizes in a way of its own")
            if symbol is None:
                path = f"{prefix}.{name}".lstrip(".")
                own.append(IntegerAttribute(path if place < 0 else f"{path}[{place}]", 1, values))
                continue
            module = model.get_submodule(prefix)
            old = getattr(module, name)
            setattr(module, name, symbol if place < 0 else (*old[:place], symbol, *old[place + 1 :]))
        return own


def _find(values: tuple[int, ...], symbols: dict[tuple[int, ...], Any]) -> Any:
    """The size that has these values, or a multiple or a share of one."""
    if values in symbols:
        return symbols[values]
    for sizes, symbol in symbols.items():
        ratios = {Fraction(value, size) for value, size in zip(values, sizes, strict=True)}
        ratio = ratios.pop()
        if not ratios and max(ratio.numerator, ratio.denominator) <= _MOST_PARTS and ratio > 0:
            return symbol * ratio.numerator // ratio.denominator if ratio.denominator > 1 else symbol * ratio.numerator
    return None


def _numbers(model: torch.nn.Module) -> Iterator[tuple[tuple[str, str, int], int]]:
    """Integers among the attributes: (module, name, place in a tuple or -1) and value."""
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            if type(value) is int:
                yield (prefix, name, -1), value
            elif isinstance(value, tuple):
                yield from (((prefix, name, place), item) for place, item in enumerate(value) if type(item) is int)
