"""Static legality of a candidate's Python: what it imports and reads, and what its forward computes with PyTorch.

Works on the syntax tree with resolved names. What that cannot decide is left to the run-time checks, which see every
operator that is dispatched.
"""

import ast
import math
from collections import Counter
from collections.abc import Iterator

from musadata.records import Finding
from musadata.syntax import parse
from musadata.verifier.rules import catalogue as rules
from musadata.verifier.rules.aten_operators import compute_operators
from musadata.verifier.rules.python.escapes import check_escapes
from musadata.verifier.rules.python.modules import NAMES
from musadata.verifier.rules.python.name_resolution import LOADERS, Names, collect_names
from musadata.verifier.rules.python.reach import Program, reachable_functions, read_program

_COMPUTE_SPACES = NAMES["compute_spaces"]
_PASSIVE_MODULES = frozenset(NAMES["passive_modules"])
_BLOB_CHARACTERS = 1024
_SHOWN_OF_BLOB = 24
_BLOB_BITS = 4.8  # per character: base64 of compressed data has 6, code and prose under 4.7


def check_legality(source: str) -> tuple[Finding, ...]:
    """Findings about a candidate's Python source, by line; none if it breaks no static rule. The source must parse."""
    tree = parse(source)
    names = collect_names(tree)
    program = read_program(tree)
    findings = [*check_escapes(tree, names), *_check_blobs(tree), *_check_model(program)]
    reached = reachable_functions(program, names)
    for function in reached:
        findings += _check_fallback(function)
        findings += _check_compute(function, names)
    findings += _check_load_fallback(tree, names)
    if not _loads_native_code(tree, names):
        findings.append(rules.LEGALITY_NO_KERNEL.finding("CUDA source (load_inline or load)"))
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: (finding.line, finding.rule)))


def _check_blobs(tree: ast.Module) -> Iterator[Finding]:
    """Strings that may hold compiled code or data: long and dense words, which no program's text has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            long = (word for word in text.split() if len(word) >= _BLOB_CHARACTERS)
            blob = next((word for word in long if _bits_per_character(word) > _BLOB_BITS), "")
            if blob:
                yield rules.LEGALITY_BLOB.finding(len(blob), blob[:_SHOWN_OF_BLOB], line=node.lineno)


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
            yield rules.LEGALITY_INHERITS.finding("inherits", line=model.lineno)
    for node in ast.walk(model):
        if isinstance(node, ast.Call) and _is_super_forward(node.func):
            yield rules.LEGALITY_INHERITS.finding("calls", line=node.lineno)
    forward = program.method("forward")
    if forward is None:
        yield rules.LEGALITY_NO_FORWARD.finding(line=model.lineno)
    elif _is_empty(forward):
        yield rules.LEGALITY_EMPTY.finding(line=forward.lineno)


def _is_super_forward(node: ast.expr) -> bool:
    if not isinstance(node, ast.Attribute) or node.attr != "forward":
        return False
    owner = node.value.func if isinstance(node.value, ast.Call) else node.value
    return isinstance(owner, ast.Name) and owner.id in ("super", "Model")


def _is_empty(function: ast.FunctionDef) -> bool:
    """Whether a body holds nothing but docstrings, pass, and returns of names or constants."""
    return all(map(_does_nothing, function.body))


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None | ast.Name() | ast.Constant()):
            return True
    return False


def _check_fallback(function: ast.FunctionDef) -> Iterator[Finding]:
    for node in ast.walk(function):
        if isinstance(node, ast.Try) and any(not _ends_in_raise(handler.body) for handler in node.handlers):
            yield rules.LEGALITY_FALLBACK.finding("An exception in the forward", line=node.lineno)


def _check_load_fallback(tree: ast.Module, names: Names) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(not _ends_in_raise(handler.body) for handler in node.handlers):
            for inner in ast.walk(ast.Module(node.body, [])):
                if isinstance(inner, ast.Call) and names.resolve(inner.func) & set(LOADERS):
                    yield rules.LEGALITY_FALLBACK.finding("A failed compilation", line=node.lineno)
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
            yield _compute("@", node, "matmul")
        elif isinstance(node, ast.Call):
            yield from _check_compute_call(node, names, tensors)


def _tensor_names(function: ast.FunctionDef, names: Names) -> set[str]:
    """Names that certainly hold tensors: those annotated as such, those with attributes that only tensors have, and
    the arguments of `forward` without annotation."""
    found = set()
    for argument in [*function.args.args, *function.args.kwonlyargs]:
        if argument.annotation is not None and "torch.Tensor" in names.resolve(argument.annotation):
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
            yield rules.LEGALITY_CLOCK.finding(path, line=node.lineno)
        if path.startswith("torch.nn.") and path.endswith("()"):
            if path.removesuffix("()").rsplit(".", 1)[-1] not in _PASSIVE_MODULES:
                called = path.removesuffix("()")
                yield rules.LEGALITY_MODULE_CALL.finding(called, line=node.lineno, operator=called)
        elif path.startswith(_COMPUTE_SPACES) or (
            path.startswith(("torch.", "operator.")) and path.count(".") <= 2 and name in compute_operators()
        ):
            yield _compute(path, node, name)
    method = node.func
    if isinstance(method, ast.Attribute) and "extension" not in names.resolve(method.value) and _moves_to_host(node):
        yield rules.LEGALITY_HOST.finding(f".{method.attr}()", line=node.lineno)
        return
    if paths or not isinstance(method, ast.Attribute):
        return
    receiver = _root(method.value)
    if receiver in tensors and method.attr in compute_operators():
        yield _compute(f".{method.attr}()", node, method.attr)


def _compute(what: str, node: ast.expr, operator: str) -> Finding:
    return rules.LEGALITY_COMPUTE.finding(what, line=node.lineno, operator=f"aten.{operator}")


def _moves_to_host(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in ("tolist", "numpy", "cpu", "__array__"):
        return True
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return name == "to" and any(isinstance(value, ast.Constant) and value.value == "cpu" for value in values)


def _root(node: ast.expr) -> str:
    """The name that a chain of method calls starts from, x in x.view(-1).t(); empty if it yields no tensor."""
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
