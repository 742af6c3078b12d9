"""Host functions that go through the steps of a recurrent layer, one for all layers whose steps are alike."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import EmittedKernel, allocation, returning
from musadata.compiler.emission.shared_kernels import SharedLaunch
from musadata.compiler.emission.short_names import options_of
from musadata.compiler.ir.code import (
    Binary,
    Body,
    Declare,
    Element,
    Expression,
    Function,
    Invoke,
    Loop,
    Name,
    Parameter,
    Statement,
    code,
    names_of,
)
from musadata.compiler.ir.program import TIME_STEP
from musadata.compiler.ir.scalar import Buffer, free_name
from musadata.compiler.lowering.fusion import Kernel

STEP = Name(Printer().index(TIME_STEP).text)  # what kernels of a recurrent layer call the step


def over_steps(kernel: Kernel, body: Sequence[Statement]) -> Loop:
    """The loop over the steps of a layer."""
    assert kernel.steps is not None
    return Loop("int", ((STEP, code(0)),), Binary(STEP, "<", Printer().index(kernel.steps.count)), None, tuple(body))


def as_left(name: Name, before: Expression) -> Declare:
    """A name for what a step reads of those before it."""
    return Declare("auto", ((name, before),), note="as earlier steps leave it")


class StepFunctions:
    """The functions so far, and the names under which they are called."""

    def __init__(self, sizes: Collection[str]):
        self._sizes = sizes
        self._names: dict[tuple[str, tuple[Parameter, ...], Body], str] = {}  # by result, parameters and body

    @property
    def routines(self) -> list[Function]:
        return [Function(f"{kind} ", Name(name), given, body) for (kind, given, body), name in self._names.items()]

    def call(
        self,
        members: Sequence[tuple[EmittedKernel, SharedLaunch]],
        listed: Mapping[Buffer, Element],
        read_later: Collection[Buffer],
    ) -> Invoke:
        """The call that goes through the steps with these kernels, whose launches are functions already."""
        kernels = [emitted.kernel for emitted, _ in members]
        made = [buffer for kernel in kernels for buffer in kernel.outputs]
        given = dict.fromkeys(buffer for kernel in kernels for buffer in kernel.inputs if buffer not in made)
        names = _short_names([*given, *made])
        read = [buffer for buffer in given if buffer.alias is None]
        first = read[0]
        inside = [
            Invoke(launch.function, (*(names[buffer] for buffer in launch.tensors), *launch.values))
            for _, launch in members
        ]
        results = [buffer for buffer in made if buffer in read_later]
        kind, result = returning([names[buffer].name for buffer in results])
        body = (
            *(allocation(replace(b, name=names[b].name), names[first], first.dtype) for b in made),
            *(as_left(names[b], names[b.alias]) for b in given if b.alias is not None),
            over_steps(kernels[0], inside),
            result,
        )
        mentioned = names_of(body)
        sizes = [size for size in self._sizes if size in mentioned and size != STEP.name]
        tensors = (Parameter("const Tensor&", names[b]) for b in read)
        key = (kind, (*tensors, *(Parameter("int", Name(size)) for size in sizes)), body)
        if key not in self._names:
            base = f"run_{kernels[0].name.split('_')[0].rstrip('0123456789')}"
            self._names[key] = free_name(self._names.values(), base)
        arguments = (*(listed.get(buffer, Name(buffer.name)) for buffer in read), *map(Name, sizes))
        return Invoke(self._names[key], arguments, tuple(Name(buffer.name) for buffer in results))


def _short_names(buffers: Sequence[Buffer]) -> dict[Buffer, Name]:
    names: dict[Buffer, Name] = {}
    for buffer in buffers:
        names[buffer] = Name(free_name([name.name for name in names.values()], options_of(buffer, True)[0]))
    return names
