"""The task of a backward kernel: the gradient of what its wrapper and the plain version compute."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Gradient:
    """What a gradient is of: the inputs that have one, and the outputs that lead to them, by place.

    `whole`: the module returns one tensor. `draws`: expressions of the outputs' gradients.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    draws: tuple[str, ...]
    whole: bool


def write_gradient(source: str, gradient: Gradient, name: str) -> str:
    """The definitions of a module, and its gradient as a module of the same name.

    The latter takes the inputs of the former and the gradients of its outputs.
    """
    found = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    methods = {node.name: node for node in found[name].body if isinstance(node, ast.FunctionDef)}
    names = [item.arg for item in methods["forward"].args.args[1:]]
    wanted = [names[place] for place in gradient.inputs]
    drawn = [f"grad_output_{place}" for place in gradient.outputs] if len(gradient.outputs) > 1 else ["grad_output"]
    outputs = ["output"] if gradient.whole else [f"output[{place}]" for place in gradient.outputs]
    first = "[0]" if len(wanted) == 1 else ""
    renamed = re.sub(rf"\b{name}\b", "Forward", source).rstrip()
    head = "" if re.search(r"^import torch$", renamed, re.MULTILINE) else "import torch\n"
    return (
        f"{head}{renamed}\n\n\nclass {name}(torch.nn.Module):\n"
        "    def __init__(self, *arguments):\n        super().__init__()\n"
        "        self.function = Forward(*arguments)\n\n"
        f"    def forward(self, {', '.join([*names, *drawn])}):\n"
        + "".join(f"        {item} = {item}.detach().requires_grad_()\n" for item in wanted)
        + f"        with torch.enable_grad():\n            output = self.function({', '.join(names)})\n"
        f"        return torch.autograd.grad({_listed(outputs)}, {_listed(wanted)}, {_listed(drawn)}){first}\n"
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"
