"""Finding equivalents inside wrappers: code that calls a kernel on a device, and PyTorch's operators on a CPU."""

import ast
import re
from collections.abc import Iterator

from musadata.mining.kernels.equivalents import Equivalent, arguments_of
from musadata.mining.kernels.repository import Definition, Repository, wrapper_kind
from musadata.mining.reading.known_conditions import known_answer

TOLD = re.compile(r"\bis_cuda\b|\bdevice\.type\b")  # in every condition that is decided by the device alone
MAX_USERS = 40  # functions and modules of one repository that use such code


def find_dispatched(repository: Repository) -> list[Equivalent]:
    """Functions and modules whose own branches are wrapper and plain version, and modules that use them."""
    texts = {path: repository.text(path) for path in repository.python_paths}
    found = [
        _equivalent(path, node)
        for path in texts
        if TOLD.search(texts[path]) and (repository.aliases(path) or "import" in texts[path])
        for node in _defined(repository.module(path))
        if _dispatches(node)
    ]
    kept = [item for item in found if item is not None]
    names = {item.wrapper.name for item in kept}
    if not names:
        return []
    uses = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(names))) + r")\b")
    users = [
        item
        for path in texts
        if uses.search(texts[path])
        for node in _defined(repository.module(path))
        if wrapper_kind(node) == "module" and node.name not in names and uses.search(ast.unparse(node))
        if (item := _equivalent(path, node)) is not None
    ]
    return [*kept, *users[:MAX_USERS]]


def _defined(module: ast.Module | None) -> Iterator[Definition]:
    for node in module.body if module else ():
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.ClassDef) and wrapper_kind(node) == "module"):
            yield node


def _dispatches(node: Definition) -> bool:
    """Whether a condition has one answer on a device and another one on a CPU, and more than a check depends on it."""
    for item in ast.walk(node):
        if isinstance(item, ast.If) and known_answer(item.test, {}, on_device=True) is not None:
            differs = known_answer(item.test, {}, on_device=True) is not known_answer(item.test, {})
            if differs and not all(isinstance(statement, ast.Raise) for statement in item.body):
                return True
    return False


def _equivalent(path: str, node: Definition) -> Equivalent | None:
    known = arguments_of(node)
    needed = tuple(name for name, required in known or () if required)
    if not needed:
        return None
    return Equivalent(node, path, node, path, needed, f"the branch of {node.name} for the CPU")
