"""What inputs decide of the value of a call, and what it hands on to the functions that it was seen to enter."""

import ast
from collections.abc import Iterator, Sequence

from musadata.mining.pruning.call_sites import CallSites
from musadata.mining.pruning.idle_methods import family
from musadata.mining.pruning.influence_cells import (
    ANY_VALUE,
    FIXED_VALUE,
    INVARIANT,
    KIND,
    KIND_VALUE,
    NOTHING,
    Cells,
    Level,
    Place,
    argument_names,
    constant,
    either,
    kind_of,
    made_of,
)  # fmt: skip
from musadata.mining.pruning.influence_of_values import Decide, Opaque, Values
from musadata.mining.pruning.mentions import may_be_module
from musadata.mining.pruning.structure import ABOUT_KIND, KIND_METHODS, is_shape
from musadata.mining.pruning.survey import CHANGING, Function
from musadata.mining.reading.dotted_names import dotted_name, last_name
from musadata.mining.reading.known_conditions import known_answer

PURE = frozenset(
    {
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "frozenset",
        "int",
        "len",
        "list",
        "max",
        "min",
    }
) | frozenset({"pow", "range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip", "super"})
PURE_METHODS = frozenset(
    {"items", "keys", "values", "get", "lower", "upper", "startswith", "endswith", "split", "format", "strip", "join"}
) | frozenset({"replace", "index", "count", "size", "numel", "dim"})
CHANGES = CHANGING | {"extend", "sort", "reverse", "clear", "__setitem__"}
OPAQUE = frozenset({"eval", "exec", "globals", "locals", "vars", "delattr", "setattr"})
PARTIAL = "partial"
MAKERS = ("__new__", "__init__", "__post_init__")
Given = tuple[str, list[ast.expr], bool]  # parameter, its possible arguments, whether its default is possible


class CallValues(Values):
    def __init__(self, cells: Cells, calls: CallSites, decide: Decide):
        super().__init__(cells, calls, decide)
        nodes = [node for node in ast.walk(cells.tree) if isinstance(node, (ast.Call, ast.Name, ast.Attribute))]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        handed = {last_name(node) for node in nodes if not isinstance(node, ast.Call) and id(node) not in called}
        entry = {"forward", "__call__"}
        self._escaped = [item for item in cells.survey.functions if item.name in handed or item.name in entry]
        self._classes = {node.name: node for node in cells.tree.body if isinstance(node, ast.ClassDef)}

    def _owner(self, function: Function) -> ast.ClassDef | None:
        around = self._cells.survey.around[id(function)]
        return around[-1] if around and isinstance(around[-1], ast.ClassDef) else None

    def _of_Call(self, node: ast.Call, place: Place) -> Level:
        name = last_name(node.func)
        plain = isinstance(node.func, ast.Name) and self._cells.key(name, place.function) is None
        if plain and name in OPAQUE:
            return self._set_attribute(node, place) if name == "setattr" else self._fail()
        arguments = [*node.args, *(item.value for item in node.keywords)]
        given = [self.of(item.value if isinstance(item, ast.Starred) else item, place) for item in arguments]
        base = self.of(node.func.value, place) if isinstance(node.func, ast.Attribute) else Level(INVARIANT, name)
        entered = self._calls.entered.get(id(node), [])
        if name == PARTIAL:
            return self._hand_on(node, place)
        if isinstance(node.func, ast.Attribute):
            self._note_change(node, base, given, place)
        if entered:
            return self._of_entered(node, entered, given, base, place)
        if place.unseen:
            self._smash(self._candidates(node, place))
        if known_answer(node, {}) is not None:
            return Level(INVARIANT, ast.unparse(node))
        return self._of_foreign(node, name, plain, base, given)

    def _fail(self) -> Level:
        raise Opaque

    def _set_attribute(self, node: ast.Call, place: Place) -> Level:
        if len(node.args) != 3 or not isinstance(node.args[1], ast.Constant):
            raise Opaque
        self._cells.join(("attribute", str(node.args[1].value)), ANY_VALUE)
        return made_of("setattr", *(self.of(item, place) for item in node.args))

    def _hand_on(self, node: ast.Call, place: Place) -> Level:
        """What `partial` fixes may come to any function that is handed on."""
        if len(node.args) > 1 or any(item.arg is None for item in node.keywords):
            raise Opaque
        for function in self._escaped:
            for item in node.keywords:
                if item.arg in argument_names(function):
                    self._cells.join((id(function), item.arg or ""), self.of(item.value, place))
        return either(FIXED_VALUE, *(self.of(item, place) for item in node.args))

    def _note_change(self, node: ast.Call, base: Level, given: Sequence[Level], place: Place) -> None:
        name = last_name(node.func)
        if name in CHANGES or (name.endswith("_") and not name.startswith("_")):
            self._cells.change(node.func.value, either(base, *given), place)  # type: ignore[attr-defined]
        for item in node.keywords:
            if item.arg == "out":
                self._cells.change(item.value, ANY_VALUE, place)

    def _of_entered(
        self,
        node: ast.Call,
        entered: Sequence[tuple[Function, bool]],
        given: Sequence[Level],
        base: Level,
        place: Place,
    ) -> Level:
        """A call that was seen to enter functions of the reference."""
        called = base if isinstance(node.func, ast.Attribute) else self.of(node.func, place)
        if called.level >= KIND and not self._is_own_method(node, entered):
            self._smash([*self._candidates(node, place), *(function for function, _ in entered)])
            return ANY_VALUE
        returned = [self._returned(function) for function, _ in entered]
        is_foreign = self._is_foreign(node, place)
        for function, is_direct in entered:
            self._cells.reach(function, uncertain=place.uncertain)
            if is_direct and (not is_foreign or function.name == last_name(node.func)):
                self._bind(node, function, base, place)
            else:
                for parameter in argument_names(function):
                    self._cells.join((id(function), parameter), either(KIND_VALUE, base, *given, *returned))
        made = [function for function, _ in entered if function.name in ("__init__", "__post_init__")]
        if made:
            return either(FIXED_VALUE, *given)
        if all(is_direct and self._is_plain(function) for function, is_direct in entered):
            return either(*returned)
        return either(KIND_VALUE, *returned)

    def _part(self, node: ast.expr, number: int, value: Level, target: ast.Tuple | ast.List, place: Place) -> Level:
        """What a function of the file returns at this place, where all that it returns are tuples of that length."""
        called = node.func if isinstance(node, ast.Call) else None
        is_fixed = isinstance(called, ast.Name) and self._cells.key(called.id, place.function) is None
        entered = self._calls.entered.get(id(node), []) if is_fixed else []
        if entered and all(own and returned_parts(function) == len(target.elts) for function, own in entered):
            keys = [(id(function), f"return {number}") for function, _ in entered]
            return either(FIXED_VALUE, *(self._cells.levels.get(key, NOTHING) for key in keys))
        return super()._part(node, number, value, target, place)

    def _is_foreign(self, node: ast.Call, place: Place) -> bool:
        """Whether a call is one of `map`, `reduce` and the like, which call what they are given."""
        first = dotted_name(node.func).partition(".")[0]
        is_class = isinstance(node.func, ast.Name) and first in self._classes
        return bool(first) and not is_class and self._cells.key(first, place.function) is None

    def _is_own_method(self, node: ast.Call, entered: Sequence[tuple[Function, bool]]) -> bool:
        return all(function.name == last_name(node.func) for function, _ in entered)

    def _is_plain(self, function: Function) -> bool:
        """Whether the value of a call is what the function returns: that of a module may go through hooks."""
        return function.name not in ("forward", "__call__")

    def _bind(self, node: ast.Call, function: Function, base: Level, place: Place) -> None:
        skipped = self._skipped(node, function)
        if skipped:
            own = FIXED_VALUE if function.name == "__init__" else either(FIXED_VALUE, base)
            self._cells.join((id(function), argument_names(function)[0]), own)
        defaults = defaults_of(function)
        for parameter, values, may_default in bind(node, function, skipped):
            key = (id(function), parameter)
            levels = [self.of(item, place) for item in values]
            if may_default and parameter in defaults:
                levels.append(constant(defaults[parameter]))
            if len(values) > 1 or (may_default and values):
                levels.append(FIXED_VALUE)
            if may_default and not values:
                self._cells.join(key, either(*levels) if levels else NOTHING)
                continue
            self._cells.join(key, either(*levels))
            for item in values:
                self._cells.pass_on(key, item, place)

    def _skipped(self, node: ast.Call, function: Function) -> int:
        """How many parameters a call gives no argument for: `self`."""
        owner = self._owner(function)
        if owner is None or any(ast.unparse(item) == "staticmethod" for item in function.decorator_list):
            return 0
        explicit = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        of_class = explicit and node.func.value.id in self._classes and not _is_class_method(function)  # type: ignore[attr-defined]
        return 0 if of_class and function.name not in ("__call__",) else 1

    def _of_foreign(self, node: ast.Call, name: str, plain: bool, base: Level, given: Sequence[Level]) -> Level:
        """A call that entered none of the reference's functions."""
        how = f"{dotted_name(node.func)}({','.join(item.arg or '*' for item in node.keywords)})"
        if (plain and name in ABOUT_KIND) or (plain and name == "type" and len(given) == 1):
            return kind_of(made_of(how, *given), how)
        if plain and name == "len" and node.args and is_shape(node.args[0]):
            return kind_of(given[0], how)
        if plain and name == "getattr":
            return self._of_getattr(node, given)
        if plain and name in PURE:
            return made_of(how, *given)
        if isinstance(node.func, ast.Attribute):
            if name in KIND_METHODS and not given:
                return kind_of(base, how)
            of_module = base.level == INVARIANT and dotted_name(node.func).startswith(("math.", "operator."))
            if of_module or (name in PURE_METHODS and base.level <= 1):
                return made_of(how, base, *given)
        return either(KIND_VALUE, base, *given)

    def _of_getattr(self, node: ast.Call, given: Sequence[Level]) -> Level:
        names = node.args[1:2]
        if not names or not isinstance(names[0], ast.Constant):
            known = [value for key, value in self._cells.levels.items() if key[0] == "attribute"]
            return either(FIXED_VALUE, *given, *known)
        stored = self._cells.levels.get(("attribute", str(names[0].value)), NOTHING)
        return either(FIXED_VALUE, *given, stored)

    def _candidates(self, node: ast.Call, place: Place) -> list[Function]:
        """The functions that a call may enter that was not seen to run."""
        name = last_name(node.func)
        found = list(self._named.get(name, ()))
        if name in self._classes:
            makers = [item for own in MAKERS for item in self._named.get(own, ())]
            is_it = isinstance(node.func, ast.Name) and self._cells.key(name, place.function) is None
            known = {name, *family(name, self._classes)} if is_it else self._classes.keys()
            return [item for item in makers if (owner := self._owner(item)) is None or owner.name in known]
        return found or (self._escaped if may_be_module(node.func) else [])


def _is_class_method(function: Function) -> bool:
    return any(ast.unparse(item) == "classmethod" for item in function.decorator_list)


def returned_parts(function: Function) -> int:
    """The length of the tuples that a function returns; 0 if it returns anything else, or what is decorated."""
    counts = {
        len(item.value.elts) if isinstance(item.value, ast.Tuple) else 0
        for item in ast.walk(function)
        if isinstance(item, ast.Return)
    }
    nested = any(isinstance(item, (ast.Starred, ast.Lambda, ast.Yield)) for item in ast.walk(function))
    return counts.pop() if len(counts) == 1 and not nested and not function.decorator_list else 0


def bind(call: ast.Call, function: Function, skipped: int) -> Iterator[Given]:
    """Every parameter after the first `skipped`, which the call does not name."""
    given = function.args
    places = [*given.posonlyargs, *given.args][skipped:]
    starred = [item.value for item in call.args if isinstance(item, ast.Starred)]
    first = next((n for n, item in enumerate(call.args) if isinstance(item, ast.Starred)), len(call.args))
    plain, unsure = call.args[:first], [item for item in call.args[first:] if not isinstance(item, ast.Starred)]
    named = {item.arg: item.value for item in call.keywords if item.arg}
    words = [item.value for item in call.keywords if not item.arg]
    for number, parameter in enumerate(places):
        if number < len(plain):
            yield parameter.arg, [plain[number]], False
        elif parameter.arg in named:
            yield parameter.arg, [named[parameter.arg]], False
        else:
            yield parameter.arg, [*starred, *unsure, *words], True
    for parameter in given.kwonlyargs:
        exact = parameter.arg in named
        yield parameter.arg, [named[parameter.arg]] if exact else words, not exact
    if given.vararg is not None:
        yield given.vararg.arg, [*plain[len(places) :], *starred, *unsure], False
    if given.kwarg is not None:
        known = {item.arg for item in (*places, *given.kwonlyargs)}
        yield given.kwarg.arg, [*(value for name, value in named.items() if name not in known), *words], False


def defaults_of(function: Function) -> dict[str, ast.expr]:
    """The defaults of parameters that have one."""
    given = function.args
    places = [*given.posonlyargs, *given.args]
    found = dict(zip([item.arg for item in places[len(places) - len(given.defaults) :]], given.defaults, strict=True))
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return found | {item.arg: value for item, value in named if value is not None}
