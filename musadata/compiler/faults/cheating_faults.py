"""Faults against the rules: PyTorch computes what kernels should. The results are right, so only the rules tell."""

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.faults.catalogue import fault
from musadata.compiler.faults.derivation import Edit, Figures, derives
from musadata.compiler.faults.fault_context import FaultContext

_MOST_STATEMENTS = 4  # of the reference's forward: longer ones would make another program of it
_FUNCTIONAL = "import torch.nn.functional as F\n"


@dataclass(frozen=True)
class _Forward:
    """What the reference's forward does, as lines without indentation; the last one returns. `imports` are needed."""

    lines: tuple[str, ...]
    imports: str


@fault
def computed_by_pytorch(context: FaultContext) -> Candidate | None:
    return _rewrite(context, lambda call, lines: lines)


@fault
def decoy_kernel(context: FaultContext) -> Candidate | None:
    return _rewrite(context, lambda call, lines: [call, *lines])


@fault
def pytorch_fallback(context: FaultContext) -> Candidate | None:
    def guarded(call: str, lines: list[str]) -> list[str]:
        return ["try:", f"    return {call}", "except RuntimeError:", *(f"    {line}" for line in lines)]

    return _rewrite(context, guarded)


def _rewrite(context: FaultContext, make: Callable[[str, list[str]], list[str]]) -> Candidate | None:
    module = context.candidate.module
    is_plain = module.result == "return {}" and "\n" not in module.call
    forward = _read_forward(context) if is_plain else None
    if forward is None:
        return None
    lines = "\n".join(make(module.call, list(forward.lines))).replace("{", "{{").replace("}", "}}")
    return context.with_module(result=lines, torch_imports=forward.imports + module.torch_imports)


def _read_forward(context: FaultContext) -> _Forward | None:
    """None where it is long, or uses what the candidate does not have: attributes, other functions."""
    function = _find_forward(context.reference)
    if function is None:
        return None
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    if not body or len(body) > _MOST_STATEMENTS or not isinstance(body[-1], ast.Return):
        return None
    nodes = [node for statement in body for node in ast.walk(statement)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    known = {argument.arg for argument in function.args.args} | bound | set(dir(builtins)) | {"torch", "nn", "F"}
    attributes = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    if names - known or any(f"self.{name} =" not in context.candidate.module.head for name in attributes):
        return None
    lines = tuple(line for statement in body for line in ast.unparse(statement).splitlines())
    needs_import = "F" in names and _FUNCTIONAL not in context.candidate.module.torch_imports
    return _Forward(lines, _FUNCTIONAL if needs_import else "") if len(lines) <= _MOST_STATEMENTS else None


def _find_forward(reference: str) -> ast.FunctionDef | None:
    for node in ast.parse(reference).body if reference else ():
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "forward"), None)
    return None


@derives("computed_by_pytorch", "decoy_kernel", "pytorch_fallback")
def _by_pytorch(edit: Edit) -> Figures:
    lines = [line.strip() for line in edit.faulty.module.result.splitlines()]
    call = edit.honest.module.call
    does = {
        "try:": "A failure of the kernels is swallowed, and then PyTorch computes the result",
        call: "The kernels are called, but their result is dropped, and PyTorch computes what is returned",
    }.get(lines[0], "The kernels are never called, and PyTorch computes the result")
    return {"does": does, "line": lines[-1], "call": call}
