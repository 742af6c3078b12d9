"""Mechanical disguises of a task: what somebody does to a benchmark's task, knowingly or not, before training on it.

Each takes the source of a task in KernelBench's form and a generator, and gives the source of the same computation.
"""

import ast
import random
from collections.abc import Callable

_FIXED = frozenset({"Model", "get_inputs", "get_init_inputs", "forward", "__init__", "self", "super"})

Disguise = Callable[[str, random.Random], str]


def rename(source: str, generator: random.Random) -> str:
    """Other names for arguments, local variables, attributes of self, constants, methods and helper classes."""
    tree = ast.parse(source)
    return ast.unparse(_Renamer(_own_names(tree), generator).visit(tree))


def reformat(source: str, generator: random.Random) -> str:
    """No comments, docstrings, annotations or blank lines; other quotes and indentation."""
    tree = _Plain().visit(ast.parse(source))
    lines = ast.unparse(ast.fix_missing_locations(tree)).splitlines()
    width = generator.choice([2, 3, 8])
    plain = [line for line in lines if line.strip()]
    return "\n".join(" " * (width * ((len(line) - len(line.lstrip())) // 4)) + line.lstrip() for line in plain) + "\n"


def reorder(source: str, generator: random.Random) -> str:
    """Independent statements in another order."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in ("forward", "__init__"):
            node.body = _shuffle(node.body, generator)
    return ast.unparse(tree)


def nest(source: str, generator: random.Random) -> str:
    """The whole model as a submodule of another one, which is what inlining a submodule undoes."""
    inner = f"Block{generator.randrange(10, 99)}"
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            node.name = inner
        elif isinstance(node, ast.Name) and node.id == "Model":
            node.id = inner
    return ast.unparse(tree) + _WRAPPER.format(inner=inner)


_WRAPPER = """

class Model(nn.Module):
    def __init__(self, *arguments, **named):
        super().__init__()
        self.body = {inner}(*arguments, **named)

    def forward(self, *arguments, **named):
        return self.body(*arguments, **named)
"""


def resize(source: str, generator: random.Random) -> str:
    """Other numbers for the constants at the top of the file whose names speak of batches."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int):
            name = ast.unparse(node.targets[0]).lower()
            if "batch" in name and node.value.value > 1:
                node.value = ast.Constant(generator.choice([2, 3, 5, 6, 7]))
    return ast.unparse(tree)


DISGUISES: dict[str, Disguise] = {
    "rename": rename,
    "reformat": reformat,
    "reorder": reorder,
    "nest": nest,
    "resize": resize,
}


def disguise(source: str, generator: random.Random) -> str:
    """All of them, one after the other."""
    for change in (resize, reorder, nest, rename, reformat):
        source = change(source, generator)
    return source


def _own_names(tree: ast.Module) -> set[str]:
    """Names that the author chose: bound in the file, and not by an import."""
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            own.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            own.add(node.attr)
    return {name for name in own if name not in _FIXED and not name.startswith("__")}


class _Renamer(ast.NodeTransformer):
    """Renames own names wherever they stand for themselves; keywords of calls to own functions follow."""

    def __init__(self, names: set[str], generator: random.Random):
        order = sorted(names)
        generator.shuffle(order)
        self._new = {name: f"{generator.choice('abcdefg')}{index}_" for index, name in enumerate(order)}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._new.get(node.id, node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._new.get(node.arg, node.arg)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if ast.unparse(node.value) == "self":
            node.attr = self._new.get(node.attr, node.attr)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._new.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._new.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in self._new:
            for keyword in node.keywords:
                keyword.arg = self._new.get(keyword.arg or "", keyword.arg)
        return self.generic_visit(node)


class _Plain(ast.NodeTransformer):
    """Without docstrings and annotations."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._strip(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._strip(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def _strip(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1:
            node.body = node.body[1:]
        return self.generic_visit(node)


def _shuffle(body: list[ast.stmt], generator: random.Random) -> list[ast.stmt]:
    """Neighbours change places where neither writes what the other reads or writes."""
    body = list(body)
    for _ in range(3):
        for index in range(len(body) - 1):
            if generator.random() < 0.5 and _independent(body[index], body[index + 1]):
                body[index], body[index + 1] = body[index + 1], body[index]
    return body


def _independent(left: ast.stmt, right: ast.stmt) -> bool:
    if not all(isinstance(one, ast.Assign) for one in (left, right)):
        return False
    reads_left, writes_left = _touched(left)
    reads_right, writes_right = _touched(right)
    return not (writes_left & (reads_right | writes_right) or writes_right & reads_left)


def _touched(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """What a statement reads and writes: names, and attributes of self."""
    reads, writes = set[str](), set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and node.id != "self":
            (writes if isinstance(node.ctx, ast.Store) else reads).add(node.id)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            (writes if isinstance(node.ctx, ast.Store) else reads).add(f"self.{node.attr}")
    return reads, writes
