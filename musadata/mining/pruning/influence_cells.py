"""What inputs decide of each variable, attribute and returned value of a reference."""

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from musadata.mining.pruning.mentions import BUILTIN
from musadata.mining.pruning.survey import FUNCTIONS, Function, Survey, defined_names

INVARIANT, FIXED, KIND, ANY = range(4)


class Level(NamedTuple):
    """INVARIANT: one value in the whole program, which `text` names. FIXED: the same value for all inputs, each time
    that it is computed. KIND: inputs decide the value, not whether it is None or of which type. ANY: all of it.
    """

    level: int
    text: str = ""

    @property
    def fixed(self) -> bool:
        return self.level <= FIXED


NOTHING = Level(-1)  # not known yet
FIXED_VALUE, KIND_VALUE, ANY_VALUE = Level(FIXED), Level(KIND), Level(ANY)


def either(*values: Level) -> Level:
    """The level of what is one of some values, or holds them; INVARIANT if they are all the same."""
    known = [value for value in values if value is not NOTHING]
    if not known:
        return NOTHING
    if all(value == known[0] for value in known):
        return known[0]
    return Level(max(FIXED, *(value.level for value in known)))


def made_of(how: str, *values: Level) -> Level:
    """The level of what is computed from some values alone."""
    if any(value is NOTHING for value in values):
        return NOTHING
    level = max((value.level for value in values), default=INVARIANT)
    text = f"{how}({','.join(value.text for value in values)})"
    return Level(level, text) if level == INVARIANT and len(text) < 400 else Level(max(FIXED, level))


def kind_of(value: Level, how: str) -> Level:
    """The level of a question about the kind of a value: `x is None`."""
    if value is NOTHING or value.level == INVARIANT:
        return made_of(how, value)
    return FIXED_VALUE if value.level <= KIND else KIND_VALUE


def constant(node: ast.expr) -> Level:
    """The level of an expression that is evaluated when a function is defined."""
    plain = all(isinstance(item, (ast.Constant, ast.UnaryOp, ast.unaryop)) for item in ast.walk(node))
    return Level(INVARIANT, ast.unparse(node)) if plain else FIXED_VALUE


Key = tuple[object, str]  # id of the function, "global", "attribute" or "returned"; and the name


@dataclass(frozen=True)
class Place:
    """Where code is.

    `uncertain`: inputs decide whether it runs; `varying`: also whether the code after it sees what it assigns.
    `unseen`: it was not seen to run.
    """

    function: Function
    uncertain: bool = False
    varying: bool = False
    unseen: bool = False

    def doubtful(self, *, unseen: bool = False) -> "Place":
        return replace(self, uncertain=True, varying=True, unseen=self.unseen or unseen)


@dataclass
class Cells:
    """`binds`: whether a function binds a name. `own`: attributes that have one plain value in all modules.

    `classes`: names of the modules' classes. `changed`: cells of values that are changed in place. `moved`: whether a
    cell rose since it was last set to False. `reached`: functions that may run with the inputs; `uncertain`: those of
    which inputs may decide whether they run.
    """

    tree: ast.Module
    survey: Survey
    binds: Callable[[Function, str], bool]
    own: Collection[str]
    classes: Collection[str]
    levels: dict[Key, Level] = field(default_factory=dict)
    changed: dict[Key, Level] = field(default_factory=dict)
    moved: bool = False
    reached: set[int] = field(default_factory=set)
    uncertain: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.changes_attributes = False  # in place, by other code than `__setattr__`
        self._has_hidden = any(item.name == "__getattr__" for item in self.survey.functions)
        self.properties = {
            item.name
            for item in self.survey.functions
            if any(ast.unparse(one) in ("property", "cached_property") for one in item.decorator_list)
        }
        self._definitions = {
            name for node in self.tree.body if not isinstance(node, ast.Assign) for name in defined_names(node)
        }
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._definitions |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        self._outer = {
            (id(function), name)
            for function in self.survey.functions
            for item in ast.walk(function)
            if isinstance(item, (ast.Global, ast.Nonlocal))
            for name in item.names
        }

    def join(self, key: Key, value: Level) -> None:
        before = self.levels.get(key, NOTHING)
        after = either(before, value)
        if after != before:
            self.levels[key], self.moved = after, True

    def reach(self, function: Function, *, uncertain: bool) -> None:
        for found, is_new in ((self.reached, True), (self.uncertain, uncertain)):
            if is_new and id(function) not in found:
                found.add(id(function))
                self.moved = True

    def smash(self, function: Function) -> None:
        """A function is called with arguments that are not followed."""
        self.reach(function, uncertain=True)
        for name in argument_names(function):
            self.join((id(function), name), ANY_VALUE)

    def key(self, name: str, function: Function) -> Key | None:
        """The cell of a name; None for definitions, imports and built-in names."""
        around = [item for item in self.survey.around[id(function)] if isinstance(item, FUNCTIONS)]
        for item in (function, *reversed(around)):
            if (id(item), name) not in self._outer and self.binds(item, name):
                return id(item), name
        return None if name in self._definitions or name in BUILTIN else ("global", name)

    def variable(self, name: str, function: Function) -> Level:
        key = self.key(name, function)
        if key is None:
            return Level(INVARIANT, name)
        if key[0] == "global":  # the top of the file gave it one value
            return either(Level(INVARIANT, name), self.levels.get(key, NOTHING))
        return self.levels.get(key, NOTHING)

    def attribute(self, node: ast.Attribute, base: Level, place: Place) -> Level:
        value = self.levels.get(("attribute", node.attr), NOTHING)
        if value is NOTHING and node.attr in self.own and self._is_module(node.value, place):
            return Level(INVARIANT, f"self.{node.attr}")
        if self._has_hidden and self.changes_attributes:
            return ANY_VALUE
        return either(FIXED_VALUE, value, Level(base.level))

    def _is_module(self, node: ast.expr, place: Place) -> bool:
        around = [item for item in self.survey.around[id(place.function)] if isinstance(item, ast.ClassDef)]
        return (
            isinstance(node, ast.Name)
            and node.id in ("self", "cls")
            and bool(around)
            and around[-1].name in self.classes
        )

    def store_name(self, name: str, value: Level, place: Place) -> None:
        key = self.key(name, place.function)
        if key is not None:
            outer = key[0] != id(place.function)
            self.join(key, ANY_VALUE if outer or place.varying else value)

    def change(self, node: ast.expr, value: Level, place: Place) -> None:
        """A value is changed in place, and so is whatever it may be a part or another name of."""
        if isinstance(node, ast.Name):
            key = self.key(node.id, place.function)
            if key is None or node.id == "self":
                return
            lasting = place.uncertain or place.varying or key[0] == "global"
            value = ANY_VALUE if lasting else either(FIXED_VALUE, value)
            self._note_change(key, value)
        elif isinstance(node, ast.Attribute):
            if not self.changes_attributes and not place.function.name.startswith("__"):
                self.changes_attributes = self.moved = True
            self._note_change(("attribute", node.attr), ANY_VALUE)  # it is so in the next call, too
        elif isinstance(node, ast.Subscript):
            self.change(node.value, value, place)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                self.change(node.func.value, value, place)
        elif isinstance(node, (ast.Tuple, ast.List, ast.IfExp, ast.BoolOp, ast.Starred)):
            for item in ast.iter_child_nodes(node):
                if isinstance(item, ast.expr):
                    self.change(item, value, place)

    def _note_change(self, key: Key, value: Level) -> None:
        self.join(key, value)
        before = self.changed.get(key, NOTHING)
        if either(before, value) != before:
            self.changed[key], self.moved = either(before, value), True

    def pass_on(self, key: Key | None, node: ast.expr, place: Place) -> None:
        """A cell gets the value of an expression: where the cell is changed in place, so is that."""
        if key is not None and key in self.changed:
            self.change(node, self.changed[key], place)


def argument_names(function: Function) -> list[str]:
    given = function.args
    rest = [item for item in (given.vararg, given.kwarg) if item is not None]
    return [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs, *rest)]
