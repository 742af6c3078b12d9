"""Which functions of a candidate's program its forward can call, by name."""

import ast
from dataclasses import dataclass, field

from musadata.verifier.rules.python.name_resolution import Names


@dataclass
class Program:
    """The functions and classes of one program. `model` is the class `ModelNew`, or the one that it is an alias of."""

    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    model: ast.ClassDef | None = None

    def method(self, name: str, owner: ast.ClassDef | None = None) -> ast.FunctionDef | None:
        """A method of the model (or `owner`), looked up through those of its bases that are in the program."""
        owner = owner or self.model
        seen: set[str] = set()
        while owner is not None and owner.name not in seen:
            seen.add(owner.name)
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return node
            bases = [base.id for base in owner.bases if isinstance(base, ast.Name) and base.id in self.classes]
            owner = self.classes[bases[0]] if bases else None
        return None


def read_program(tree: ast.Module) -> Program:
    """All functions and classes, nested ones included; a later definition replaces an earlier one."""
    program = Program()
    methods = {id(item) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for item in node.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            program.classes[node.name] = node
        elif isinstance(node, ast.FunctionDef) and id(node) not in methods:
            program.functions[node.name] = node
    program.model = program.classes.get("ModelNew") or _aliased_model(tree, program)
    return program


def _aliased_model(tree: ast.Module, program: Program) -> ast.ClassDef | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == "ModelNew":
                    return program.classes.get(node.value.id)
    return None


def reachable_functions(program: Program, names: Names) -> list[ast.FunctionDef]:
    """The model's forward and everything of the program that it may call, in the order of the source."""
    start = program.method("forward")
    waiting = [start] if start else []
    if program.model is not None:
        waiting += [
            node
            for node in program.model.body
            if isinstance(node, ast.FunctionDef) and node.name in ("__call__", "_call_impl", "__getattr__")
        ]
    held = _held_classes(program)
    reached: dict[int, ast.FunctionDef] = {}
    while waiting:
        function = waiting.pop()
        if id(function) in reached:
            continue
        reached[id(function)] = function
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                waiting += _called(node, program, held)
    return sorted(reached.values(), key=lambda function: function.lineno)


def _called(node: ast.Call, program: Program, held: dict[str, set[str]]) -> list[ast.FunctionDef]:
    target = node.func
    found: list[ast.FunctionDef | None] = []
    if isinstance(target, ast.Name):
        found.append(program.functions.get(target.id))
        if target.id in program.classes:
            found += _forwards(program, target.id)
    elif isinstance(target, ast.Attribute):
        if isinstance(target.value, ast.Name) and target.value.id == "self":
            found.append(program.method(target.attr))
            for name in sorted(held.get(target.attr, ())):
                found += _forwards(program, name)
        elif isinstance(target.value, ast.Name) and target.value.id in program.classes:
            found += _forwards(program, target.value.id)  # Function.apply(...)
    return [function for function in found if function is not None]


def _forwards(program: Program, name: str) -> list[ast.FunctionDef | None]:
    owner = program.classes[name]
    return [program.method(method, owner) for method in ("forward", "__call__")]


def _held_classes(program: Program) -> dict[str, set[str]]:
    """The program's own classes by the attribute of self that holds an instance of them."""
    held: dict[str, set[str]] = {}
    for owner in program.classes.values():
        for node in ast.walk(owner):
            if not isinstance(node, ast.Assign):
                continue
            made = {
                call.func.id
                for call in ast.walk(node.value)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in program.classes
            }
            for target in node.targets:
                if made and isinstance(target, ast.Attribute):
                    held.setdefault(target.attr, set()).update(made)
    return held
