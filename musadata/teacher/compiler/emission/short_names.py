"""Kernels under short names: layers differ in the names of their tensors, the kernels that they share do not."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from musadata.teacher.compiler.ir.index_formulas import Index, Opaque, of
from musadata.teacher.compiler.ir.program import Contraction
from musadata.teacher.compiler.ir.scalar import Buffer, Local, Named, Scalar, free_name
from musadata.teacher.compiler.lowering.fusion import Kernel, Reduce, Scan, Stage
from musadata.teacher.compiler.lowering.rewriting import map_atoms

_LAST_TWO = re.compile(r"_(mean|var|[a-z]h|\w+\d+)$")  # of which the last word alone would say too little


def shorten(kernel: Kernel) -> Kernel:
    """The same kernel, whose tensors, values and registers have names without numbers and paths."""
    return _Shortening(kernel).kernel()


def kernel_buffers(kernel: Kernel) -> tuple[Buffer, ...]:
    """What a kernel is given: what it reads, then what it fills."""
    return (*(buffer for buffer in kernel.inputs if buffer not in kernel.outputs), *kernel.outputs)


class _Shortening:
    def __init__(self, kernel: Kernel):
        self._kernel = kernel
        self._taken = {axis.name for axis in (*kernel.axes, *(a for stage in kernel.stages for a in stage.axes))}
        self._buffers = {
            b: replace(b, name=self._fresh(_options(b, b in kernel.outputs))) for b in kernel_buffers(kernel)
        }
        locals_of = [stage.local for stage in kernel.stages if isinstance(stage, (Reduce, Scan))]
        self._locals = {name: self._fresh([_plain(name)]) for name in locals_of}
        self._done: dict[int, Scalar] = {}

    def kernel(self) -> Kernel:
        stages = tuple(map(self._stage, self._kernel.stages))
        name = f"{_plain(self._kernel.name.removesuffix('_kernel'))}_kernel"
        return replace(self._kernel, name=name, stages=stages)

    def _fresh(self, options: Iterable[str]) -> str:
        *others, last = options
        name = next((one for one in others if one not in self._taken), "") or free_name(self._taken, last)
        self._taken.add(name)
        return name

    def _stage(self, stage: Stage) -> Stage:
        changes: dict[str, Any] = {"value": self._value(stage.value, self._done)}
        if stage.buffer is not None:
            changes["buffer"] = self._buffers[stage.buffer]
        if isinstance(stage, (Reduce, Scan)):
            changes["local"] = self._locals[stage.local]
        if isinstance(stage, Reduce) and stage.contraction is not None:
            changes["contraction"] = self._contraction(stage.contraction)
        return replace(stage, **changes)

    def _contraction(self, contraction: Contraction) -> Contraction:
        """The same, whose functions give values under short names."""

        def renamed(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *index: self._part(function(*index), {})

        return replace(contraction, left=renamed(contraction.left), right=renamed(contraction.right))

    def _value(self, value: Scalar, done: dict[int, Scalar]) -> Scalar:
        """The same computation; shared nodes stay shared."""
        if id(value) not in done:
            fields = {name: self._part(getattr(value, name), done) for name in value.__dataclass_fields__}
            if isinstance(value, Named):
                fields["name"] = _plain(value.name)
            if isinstance(value, Local):
                fields["name"] = self._locals.get(value.name, value.name)
            done[id(value)] = replace(value, **fields)
        return done[id(value)]

    def _part(self, part: Any, done: dict[int, Scalar]) -> Any:
        if isinstance(part, Scalar):
            return self._value(part, done)
        if isinstance(part, Buffer):
            return self._buffers.get(part, part)
        if isinstance(part, tuple):
            return tuple(self._part(item, done) for item in part)
        return self._index(part, done) if isinstance(part, Index) else part

    def _index(self, index: Index, done: dict[int, Scalar]) -> Index:
        if not any(isinstance(atom, Opaque) for atom in index.atoms()):
            return index

        def new(atom: object) -> Index | None:
            if not isinstance(atom, Opaque):
                return None
            scalar = self._value(atom.scalar, done)
            return of(Opaque(scalar, scalar.variables))

        return map_atoms(index, new)


def _plain(name: str) -> str:
    """A node's name without its number: batch_norm for batch_norm12, conv_product for conv3_product."""
    plain = re.sub(r"(?<=[a-z])\d+(?=_|$)|(?<=\dd)_?\d+(?=_|$)", "", name).strip("_")
    return plain if plain.isidentifier() else name


def _options(buffer: Buffer, is_made: bool) -> list[str]:
    """Names for a tensor, best first. Which layer one comes from is of no matter to a kernel that others share."""
    if buffer.role != "state":
        return [_plain(buffer.name) if is_made else "input"]
    name = re.sub(r"_l\d+(_reverse)?$", "", buffer.name)  # a layer of a recurrent module
    parts = name.split("_")
    least = 2 if _LAST_TWO.search(name) else 1
    options = ["_".join(parts[-many:]) for many in range(least, len(parts) + 1)]
    return [option for option in options if option.isidentifier()] or [buffer.name]
