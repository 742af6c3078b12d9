"""All references between names in a text, found in one walk over its syntax tree."""

import ast
import re
from collections import Counter
from dataclasses import dataclass, field

from musadata.mining.pruning.survey import FUNCTIONS, Function

WORD = re.compile(r"[^\W\d]\w*")


@dataclass
class Scope:
    """A function with everything inside of it."""

    function: Function
    owner: ast.ClassDef | None  # the class that it is a method of
    blocks: list[list[ast.stmt]] = field(default_factory=list)
    loaded: set[str] = field(default_factory=set)  # variables that are read there, or declared global or nonlocal
    bound: set[str] = field(default_factory=set)  # variables that it, or a function inside it, binds


class Uses:
    """Attributes:
    names, attributes: how often each is referred to, in whatever way.
    read: attributes that are read, or named in a text.
    calls: of each name; own_calls: of each attribute of `self`.
    methods: how many classes define a method of this name.
    below: the names from outside that each statement on top level refers to.
    """

    def __init__(self, tree: ast.Module):
        self.names: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.read: set[str] = set()
        self.calls: dict[str, list[ast.Call]] = {}
        self.own_calls: dict[str, list[ast.Call]] = {}
        self.methods: Counter[str] = Counter()
        self.scopes: list[Scope] = []
        self.below: list[set[str]] = []
        self._texts = 0
        for statement in tree.body:
            self._mentioned: set[str] = set()
            self._walk(statement, (), None)
            self.below.append(self._mentioned)

    def _walk(self, node: ast.AST, scopes: tuple[Scope, ...], owner: ast.ClassDef | None) -> None:
        kind = type(node)
        if kind is ast.Name:
            self._name(node, scopes)  # type: ignore[arg-type]
            return
        if kind is ast.Constant:
            if type(node.value) is str:  # type: ignore[attr-defined]
                self.read.update(WORD.findall(node.value))  # type: ignore[attr-defined]
            return
        if kind is ast.arg:
            for scope in scopes:
                scope.bound.add(node.arg)  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute):
            self.attributes[node.attr] += 1
            if isinstance(node.ctx, ast.Load):
                self.read.add(node.attr)
        elif isinstance(node, ast.Call):
            if not self._texts:  # positions in f-strings are wrong before Python 3.12: these calls stay
                self._call(node)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            self.read.add(node.target.attr)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for scope in scopes:
                scope.loaded.update(node.names)
        elif isinstance(node, FUNCTIONS):
            self.methods[node.name] += owner is not None
            scopes, owner = (*scopes, Scope(node, owner)), None
            self.scopes.append(scopes[-1])
        elif isinstance(node, ast.ClassDef):
            owner = node
        self._texts += kind is ast.JoinedStr
        for name in kind._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                if scopes and owner is None and value and isinstance(value[0], ast.stmt):
                    scopes[-1].blocks.append(value)
                for item in value:
                    if isinstance(item, ast.AST):
                        self._walk(item, scopes, owner)
            elif isinstance(value, ast.AST) and name not in ("ctx", "op"):
                self._walk(value, scopes, owner)
        self._texts -= kind is ast.JoinedStr
        if isinstance(node, FUNCTIONS):
            headers = {
                item.id
                for part in (*node.decorator_list, node.args)
                for item in ast.walk(part)
                if isinstance(item, ast.Name)
            }
            self._mentioned |= (scopes[-1].loaded - scopes[-1].bound) | headers

    def _name(self, node: ast.Name, scopes: tuple[Scope, ...]) -> None:
        self.names[node.id] += 1
        for scope in scopes:
            (scope.bound if isinstance(node.ctx, ast.Store) else scope.loaded).add(node.id)
        if not scopes:
            self._mentioned.add(node.id)

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            self.calls.setdefault(function.id, []).append(node)
        elif isinstance(function, ast.Attribute) and getattr(function.value, "id", "") == "self":
            self.own_calls.setdefault(function.attr, []).append(node)
