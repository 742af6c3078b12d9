"""Kernels under short names: layers differ in the names of their tensors, the kernels that they share do not."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from musadata.compiler.ir.program import Contraction
from musadata.compiler.ir.scalar import RESERVED_NAMES, Buffer, Local, Named, Scalar, free_name
from musadata.compiler.lowering.fusion import Kernel, Reduce, Scan, Stage
from musadata.compiler.lowering.rewriting import Rewriting

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
            b: replace(b, name=self._fresh(options_of(b, b in kernel.outputs))) for b in kernel_buffers(kernel)
        }
        locals_of = [stage.local for stage in kernel.stages if isinstance(stage, (Reduce, Scan))]
        self._locals = {name: self._fresh([_plain(name)]) for name in locals_of}
        self._renaming = _Renaming(self._buffers, self._locals, {})

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
        changes: dict[str, Any] = {"value": self._renaming.value(stage.value)}
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
            return lambda *index: _Renaming(self._buffers, self._locals, {}).value(function(*index))

        return replace(contraction, left=renamed(contraction.left), right=renamed(contraction.right))


class _Renaming(Rewriting):
    """The same computation under short names."""

    def __init__(self, buffers: Mapping[Buffer, Buffer], registers: Mapping[str, str], done: dict[Scalar, Scalar]):
        super().__init__(self._renamed, lambda _: None, done)
        self._buffers, self._registers = buffers, registers

    def _renamed(self, node: Scalar) -> Scalar | None:
        match node:
            case Named():
                return replace(node, name=_plain(node.name), value=self.value(node.value))
            case Local():
                return replace(node, name=self._registers.get(node.name, node.name))
        return None

    def part(self, part: Any) -> Any:
        return self._buffers.get(part, part) if isinstance(part, Buffer) else super().part(part)


def _plain(name: str) -> str:
    """A node's name without its number: batch_norm for batch_norm12, conv_product for conv3_product."""
    plain = re.sub(r"(?<=[a-z])\d+(?=_|$)|(?<=\dd)_?\d+(?=_|$)", "", name).strip("_")
    if not plain.isidentifier():
        return name
    return f"{plain}_data" if plain in RESERVED_NAMES else plain  # as `Program.fresh` has it


def options_of(buffer: Buffer, is_made: bool) -> list[str]:
    """Short names for a tensor, best first: which layer it comes from is of no matter to what layers share."""
    if buffer.role != "state":
        return [_plain(buffer.name) if is_made else "input"]
    name = re.sub(r"_l\d+(_reverse)?$", "", buffer.name)  # a layer of a recurrent module
    parts = name.split("_")
    least = 2 if _LAST_TWO.search(name) else 1
    options = ["_".join(parts[-many:]) for many in range(least, len(parts) + 1)]
    return [option for option in options if option.isidentifier()] or [buffer.name]
