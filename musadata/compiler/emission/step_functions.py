"""Host functions that go through the steps of a recurrent layer, one for all layers whose steps are alike."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import EmittedKernel, allocation, line_of, results_text
from musadata.compiler.emission.repeated_launches import Launch
from musadata.compiler.emission.shared_kernels import SharedLaunch
from musadata.compiler.ir.program import TIME_STEP
from musadata.compiler.ir.scalar import Buffer, free_name

STEP_NAME = Printer().index(TIME_STEP).text  # what kernels of a recurrent layer call the step


class StepFunctions:
    """The functions so far: their texts, and the names under which they are called."""

    def __init__(self, sizes: Collection[str]):
        self._sizes = sizes
        self._names: dict[str, str] = {}

    @property
    def texts(self) -> list[str]:
        return [text.replace("@", name) for text, name in self._names.items()]

    def call(
        self,
        members: Sequence[tuple[EmittedKernel, SharedLaunch]],
        listed: Mapping[Buffer, str],
        read_later: Collection[Buffer],
    ) -> Launch:
        """The call that goes through the steps with these kernels, whose launches are functions already."""
        kernels = [emitted.kernel for emitted, _ in members]
        made = [buffer for kernel in kernels for buffer in kernel.outputs]
        given = [buffer for kernel in kernels for buffer in kernel.inputs if buffer not in made]
        names = _short_names([*dict.fromkeys(given), *made])
        read = [buffer for buffer in dict.fromkeys(given) if buffer.alias is None]
        first = read[0]
        lines = [line_of(allocation(replace(b, name=names[b]), names[first], first.dtype)) for b in made]
        before = {b: names[b.alias] for b in dict.fromkeys(given) if b.alias is not None}
        lines += [f"const auto {names[b]} = {text};  // as earlier steps leave it" for b, text in before.items()]
        steps = kernels[0].steps
        assert steps is not None
        lines.append(f"for (int {STEP_NAME} = 0; {STEP_NAME} < {Printer().index(steps.count)}; ++{STEP_NAME}) {{")
        for _, launch in members:
            arguments = (*(names[buffer] for buffer in launch.tensors), *launch.values)
            lines += [f"    {line}" for line in Launch(launch.function, arguments, ()).text.splitlines()]
        results = [buffer for buffer in made if buffer in read_later]
        kind, result = results_text([names[buffer] for buffer in results])
        lines += ["}", f"return {result};"]
        sizes = [size for size in self._sizes if re.search(rf"\b{size}\b", "\n".join(lines)) and size != STEP_NAME]
        parameters = [*(f"const Tensor& {names[b]}" for b in read), *(f"int {size}" for size in sizes)]
        body = "".join(f"    {line}\n" for line in lines)
        text = f"{kind} @(\n    {', '.join(parameters)}) {{\n{body}}}\n"
        if text not in self._names:
            base = f"run_{kernels[0].name.split('_')[0].rstrip('0123456789')}"
            self._names[text] = free_name(self._names.values(), base)
        arguments = (*(listed.get(buffer, buffer.name) for buffer in read), *sizes)
        return Launch(self._names[text], arguments, tuple(buffer.name for buffer in results))


def _short_names(buffers: Sequence[Buffer]) -> dict[Buffer, str]:
    names: dict[Buffer, str] = {}
    for buffer in buffers:
        plain = re.sub(r"\d+", "", buffer.name)
        if buffer.role == "state":
            plain = "_".join(re.sub(r"_l\d+(_reverse)?$", "", buffer.name).split("_")[-2:])
        elif buffer.name.endswith("_before") or buffer in buffers[-2:]:
            plain = re.sub(r"\d+", "", buffer.name)
        names[buffer] = free_name(names.values(), plain)
    return names
