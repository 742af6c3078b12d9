"""Static legality of a candidate's Python: what it imports, reaches for, and computes with PyTorch in its forward.

Cheap and name-resolving, but not the last word: what it cannot decide is seen in the record of dispatched operators.
"""

import ast
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from musadata.records import Finding
from musadata.verifier.rules.aten_operators import compute_operators
from musadata.verifier.rules.python.escapes import check_escapes
from musadata.verifier.rules.python.names import LOADERS, Names, collect_names
from musadata.verifier.rules.python.reach import Program, reachable_functions, read_program

_COMPUTE_SPACES = (
    "torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.", "torch.ops.aten.", "torch.ops.prims.",
    "torch.nn.utils.", "torch.signal.",
)  # fmt: skip
_PASSIVE_MODULES = frozenset({
    "Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "Flatten", "Unflatten",
    "Parameter", "ParameterList", "ParameterDict", "ModuleList", "ModuleDict", "Buffer",
})  # fmt: skip
_BLOB_CHARACTERS = 1024
_BLOB_BITS = 4.8  # per character: base64 of compressed data has 6, code and prose under 4.7


@dataclass(frozen=True)
class Legality:
    """`findings` is empty for a candidate that nothing static speaks against."""

    findings: tuple[Finding, ...]


def check_legality(source: str, strict: bool = True) -> Legality:
    """Static findings about a candidate's Python source, in the order of its lines. The source must parse."""
    tree = ast.parse(source)
    names = collect_names(tree)
    program = read_program(tree)
    findings = [*check_escapes(tree, names), *_check_blobs(tree), *_check_model(program)]
    reached = reachable_functions(program, names)
    for function in reached:
        findings += _check_fallback(function)
        if strict:
            findings += _check_compute(function, names)
    findings += _check_load_fallback(tree, names)
    if not _loads_native_code(tree, names):
        findings.append(Finding("legality.no_kernel", "The program compiles no CUDA source (load_inline or load)."))
    return Legality(tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.line, finding.rule))))


def _check_blobs(tree: ast.Module) -> Iterator[Finding]:
    """Compiled code or data hidden in a string: long, dense, and without the spaces of a program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if any(len(word) >= _BLOB_CHARACTERS and _bits_per_character(word) > _BLOB_BITS for word in text.split()):
                yield Finding("legality.blob", "A string holds what looks like embedded binary data.", node.lineno)


def _bits_per_character(word: str) -> float:
    counts = Counter(word).values()
    return -sum(count / len(word) * math.log2(count / len(word)) for count in counts)


def _check_model(program: Program) -> Iterator[Finding]:
    model = program.model
    if model is None:
        return
    own = any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in model.body)
    for base in model.bases:
        name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
        if name == "Model" and not own:
            yield Finding("legality.inherits", "ModelNew inherits the reference's forward.", model.lineno)
    for node in ast.walk(model):
        if isinstance(node, ast.Call) and _is_super_forward(node.func):
            yield Finding("legality.inherits", "ModelNew calls the forward that it inherits.", node.lineno)
    forward = program.method("forward")
    if forward is None:
        yield Finding("legality.no_forward", "ModelNew defines no forward.", model.lineno)
    elif _is_empty(forward):
        yield Finding("legality.empty", "ModelNew.forward computes nothing.", forward.lineno)


def _is_super_forward(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "forward":
        return False
    owner = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(owner, ast.Name) and owner.id in ("super", "Model")


def _is_empty(function: ast.FunctionDef) -> bool:
    """Only docstrings, pass, constants, or the arguments handed back."""
    for statement in function.body:
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Return) and (
            statement.value is None or isinstance(statement.value, (ast.Name, ast.Constant))
        ):
            continue
        return False
    return True


def _check_fallback(function: ast.FunctionDef) -> Iterator[Finding]:
    for node in ast.walk(function):
        if isinstance(node, ast.Try) and any(not _ends_in_raise(handler.body) for handler in node.handlers):
            yield Finding("legality.fallback", "An exception in the forward is swallowed: a fallback.", node.lineno)


def _check_load_fallback(tree: ast.Module, names: Names) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(not _ends_in_raise(handler.body) for handler in node.handlers):
            for inner in ast.walk(ast.Module(node.body, [])):
                if isinstance(inner, ast.Call) and names.resolve(inner.func) & set(LOADERS):
                    message = "A failed compilation is swallowed: a fallback."
                    yield Finding("legality.fallback", message, node.lineno)
                    break


def _ends_in_raise(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends_in_raise(last.body) and _ends_in_raise(last.orelse)
    return isinstance(last, ast.Raise)


def _check_compute(function: ast.FunctionDef, names: Names) -> Iterator[Finding]:
    tensors = _tensor_names(function, names)
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield Finding("legality.compute", "@ multiplies matrices with PyTorch.", node.lineno, "aten.matmul")
        elif isinstance(node, ast.Call):
            yield from _check_compute_call(node, names, tensors)


def _tensor_names(function: ast.FunctionDef, names: Names) -> set[str]:
    """Names that surely hold tensors: annotated arguments, and arguments and results on which only tensors' methods
    are used."""
    found = set()
    for argument in [*function.args.args, *function.args.kwonlyargs]:
        if argument.annotation is not None and any(
            path in ("torch.Tensor",) for path in names.resolve(argument.annotation)
        ):
            found.add(argument.arg)
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _TENSOR_ATTRIBUTES:
            found.add(node.value.id)
    if function.name == "forward":
        found |= {argument.arg for argument in function.args.args[1:] if argument.annotation is None}
    return found


_TENSOR_ATTRIBUTES = {"contiguous", "is_contiguous", "is_cuda", "requires_grad", "data_ptr", "numel", "dtype"}


def _check_compute_call(node: ast.Call, names: Names, tensors: set[str]) -> Iterator[Finding]:
    paths = sorted(names.resolve(node.func))
    for path in paths:
        name = path.rsplit(".", 1)[-1]
        if path.startswith("time."):
            yield Finding(
                "legality.clock", f"The forward asks {path} for the time, which no result depends on.", node.lineno
            )
        if path.startswith("torch.nn.") and path.endswith("()"):
            if path.removesuffix("()").rsplit(".", 1)[-1] not in _PASSIVE_MODULES:
                called = path.removesuffix("()")
                yield Finding(
                    "legality.module_call", f"The forward calls {called}, a PyTorch layer.", node.lineno, called
                )
        elif path.startswith(_COMPUTE_SPACES) or (
            path.startswith(("torch.", "operator.")) and path.count(".") <= 2 and name in compute_operators()
        ):
            yield Finding("legality.compute", f"{path} computes with PyTorch.", node.lineno, f"aten.{name}")
    method = node.func
    if isinstance(method, ast.Attribute) and "extension" not in names.resolve(method.value) and _moves_to_host(node):
        message = f".{method.attr}() moves data to the host; the work must be done by kernels."
        yield Finding("legality.host", message, node.lineno)
        return
    if paths or not isinstance(method, ast.Attribute):
        return
    receiver = _root(method.value)
    if receiver in tensors and method.attr in compute_operators():
        message = f".{method.attr}() computes with PyTorch."
        yield Finding("legality.compute", message, node.lineno, f"aten.{method.attr}")


def _moves_to_host(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in ("tolist", "numpy", "cpu", "__array__"):
        return True
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return name == "to" and any(isinstance(value, ast.Constant) and value.value == "cpu" for value in values)


def _root(node: ast.expr) -> str:
    """The name that a chain of method calls starts from: x in x.view(-1).t()."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("size", "dim", "stride", "item", "numel", "data_ptr"):
                return ""  # a number, not a tensor
            node = node.func.value
        elif isinstance(node, ast.Name):
            return node.id
        else:
            return ""


def _loads_native_code(tree: ast.Module, names: Names) -> bool:
    return any(isinstance(node, ast.Call) and names.resolve(node.func) & set(LOADERS) for node in ast.walk(tree))
