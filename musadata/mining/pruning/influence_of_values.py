"""What inputs decide of the value of an expression."""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from musadata.mining.pruning.call_sites import CallSites
from musadata.mining.pruning.influence_cells import (
    ANY,
    ANY_VALUE,
    FIXED_VALUE,
    INVARIANT,
    KIND,
    NOTHING,
    Cells,
    Level,
    Place,
    argument_names,
    either,
    kind_of,
    made_of,
)  # fmt: skip
from musadata.mining.pruning.structure import KIND_ATTRIBUTES
from musadata.mining.pruning.survey import Function
from musadata.mining.reading.dotted_names import dotted_name
from musadata.mining.reading.known_conditions import known_answer


class Opaque(Exception):
    """Code of which the effects cannot be followed."""


Decide = Callable[[ast.expr, Level, Place], set[bool] | None]


class Values(ABC):
    """`decide`: the values of a condition that were seen; None if inputs decide it. Called for all that are met."""

    def __init__(self, cells: Cells, calls: CallSites, decide: Decide):
        self._cells, self._calls, self._decide = cells, calls, decide
        self._named: dict[str, list[Function]] = {}
        for item in cells.survey.functions:
            self._named.setdefault(item.name, []).append(item)
        self._finds_items = any(item.name == "__getitem__" for item in calls.unplaced)  # by its own code

    def of(self, node: ast.expr | None, place: Place) -> Level:
        if node is None:
            return Level(INVARIANT, "None")
        if isinstance(node, ast.Constant):
            return Level(INVARIANT, repr(node.value))
        if isinstance(node, ast.Name):
            return self._cells.variable(node.id, place.function)
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is not None:
            return method(node, place)  # type: ignore[no-any-return]
        parts = [item for item in ast.iter_child_nodes(node) if isinstance(item, ast.expr)]
        found = [self.of(item, place) for item in parts]
        return made_of(type(getattr(node, "op", node)).__name__, *found)

    def _of_Attribute(self, node: ast.Attribute, place: Place) -> Level:
        name = dotted_name(node)
        base = self.of(node.value, place)
        if node.attr == "__dict__":
            raise Opaque
        if base is NOTHING:
            return NOTHING
        is_stored = ("attribute", node.attr) in self._cells.levels
        if (
            name
            and base.level == INVARIANT
            and not is_stored
            and self._cells.key(name.partition(".")[0], place.function) is None
        ):
            return Level(INVARIANT, name)
        if known_answer(node, {}) is not None:
            return Level(INVARIANT, node.attr)
        if node.attr in KIND_ATTRIBUTES:
            return kind_of(base, node.attr)
        value = self._cells.attribute(node, base, place)
        if node.attr not in self._cells.properties:
            return value
        read = self._calls.entered.get(id(node), [])
        for function, _ in read:
            self._cells.reach(function, uncertain=place.uncertain)
            for parameter in argument_names(function)[:1]:
                self._cells.join((id(function), parameter), either(FIXED_VALUE, base))
        if not read and place.unseen:
            self._smash(self._named.get(node.attr, ()))
        return either(FIXED_VALUE, value, *(self._returned(function) for function, _ in read))

    def _of_Compare(self, node: ast.Compare, place: Place) -> Level:
        found = [self.of(item, place) for item in (node.left, *node.comparators)]
        about_none = all(isinstance(item, ast.Constant) and item.value is None for item in node.comparators)
        how = "".join(type(item).__name__ for item in node.ops)
        if about_none and all(isinstance(item, (ast.Is, ast.IsNot)) for item in node.ops):
            return kind_of(found[0], how)
        known = known_answer(node, {})
        return Level(INVARIANT, str(known)) if known is not None else made_of(how, *found)

    def _of_BoolOp(self, node: ast.BoolOp, place: Place) -> Level:
        decisive, found = isinstance(node.op, ast.Or), list[Level]()
        for item in node.values:
            found.append(self.of(item, place))
            seen = self._decide(item, found[-1], place)
            if seen == {decisive}:
                break
            if seen is None:
                place = place.doubtful()
        level = made_of(type(node.op).__name__, *found)
        return Level(ANY) if level.level == KIND else level

    def _of_UnaryOp(self, node: ast.UnaryOp, place: Place) -> Level:
        value = self.of(node.operand, place)
        self._decide(node.operand, value, place)
        return made_of(type(node.op).__name__, value)

    def _of_IfExp(self, node: ast.IfExp, place: Place) -> Level:
        test = self.of(node.test, place)
        seen = self._decide(node.test, test, place)
        sides = {True: node.body, False: node.orelse}
        if seen is not None:
            return either(*(self.of(sides[answer], place) for answer in seen or sides))
        for side in sides.values():
            self.of(side, place.doubtful())
        return ANY_VALUE

    def _of_Subscript(self, node: ast.Subscript, place: Place) -> Level:
        base, index = self.of(node.value, place), self.of(node.slice, place)
        if NOTHING in (base, index):
            return NOTHING
        if self._finds_items or (index.level >= KIND and not isinstance(node.slice, (ast.Slice, ast.Tuple))):
            return ANY_VALUE
        return (
            made_of("[]", base, index)
            if max(base.level, index.level) == INVARIANT
            else either(base, index, FIXED_VALUE)
        )

    def _of_Slice(self, node: ast.Slice, place: Place) -> Level:
        return made_of("slice", *(self.of(item, place) for item in (node.lower, node.upper, node.step)))

    def _of_Lambda(self, node: ast.Lambda, place: Place) -> Level:
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        rest = [item for item in (node.args.vararg, node.args.kwarg) if item is not None]
        for item in (*given, *rest):
            self._cells.store_name(item.arg, ANY_VALUE, place)
        inside = self.of(node.body, place.doubtful())
        return either(FIXED_VALUE, Level(KIND) if inside.level > KIND else inside)

    def _of_comprehension(self, node: ast.expr, place: Place) -> Level:
        parts, found = list(node.generators), list[Level]()  # type: ignore[attr-defined]
        for part in parts:
            found.append(self.of(part.iter, place))
            self.store_item(part.target, part.iter, found[-1], place)
            if found[-1].level >= KIND:
                place = replace(place, uncertain=True)
            for test in part.ifs:
                found.append(self.of(test, place))
                if found[-1].level >= KIND:
                    found.append(ANY_VALUE)
                    place = place.doubtful()
        values = [getattr(node, name, None) for name in ("elt", "key", "value")]
        return either(FIXED_VALUE, *found, *(self.of(item, place) for item in values if item is not None))

    _of_ListComp = _of_SetComp = _of_GeneratorExp = _of_DictComp = _of_comprehension

    def _of_NamedExpr(self, node: ast.NamedExpr, place: Place) -> Level:
        value = self.of(node.value, place)
        self.store(node.target, node.value, value, place)
        return value

    def _of_Yield(self, node: ast.Yield, place: Place) -> Level:
        self._cells.join((id(place.function), "return"), ANY_VALUE)
        self.of(node.value, place)
        return ANY_VALUE

    def _of_YieldFrom(self, node: ast.YieldFrom, place: Place) -> Level:
        return self._of_Yield(ast.Yield(node.value), place)

    def _of_Await(self, node: ast.Await, place: Place) -> Level:
        raise Opaque

    def _of_JoinedStr(self, node: ast.JoinedStr, place: Place) -> Level:
        return made_of(
            "f", *(self.of(item.value, place) for item in node.values if isinstance(item, ast.FormattedValue))
        )

    @abstractmethod
    def _of_Call(self, node: ast.Call, place: Place) -> Level:
        """What a call returns."""

    def _returned(self, function: Function) -> Level:
        return self._cells.levels.get((id(function), "return"), NOTHING)

    def _smash(self, functions: Sequence[Function]) -> None:
        for function in functions:
            self._cells.smash(function)

    def store(self, target: ast.expr, node: ast.expr, value: Level, place: Place) -> None:
        """An assignment of the value of `node`."""
        if isinstance(target, ast.Name):
            self._cells.store_name(target.id, value, place)
            self._cells.pass_on(self._cells.key(target.id, place.function), node, place)
        elif isinstance(target, ast.Attribute):
            self.of(target.value, place)
            own = isinstance(target.value, ast.Name) and target.value.id == "self" and not place.varying
            constructed = own and place.function.name == "__init__"
            self._cells.join(("attribute", target.attr), either(FIXED_VALUE, value) if constructed else ANY_VALUE)
            self._cells.pass_on(("attribute", target.attr), node, place)
        elif isinstance(target, ast.Subscript):
            index = self.of(target.slice, place)
            self._cells.change(target.value, either(FIXED_VALUE, index, value), place)
        elif isinstance(target, ast.Starred):
            self.store(target.value, node, either(FIXED_VALUE, value), place)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for number, item in enumerate(target.elts):
                part = self._element(node, number, len(target.elts))
                level = self.of(part, place) if part is not None else self._part(node, number, value, target, place)
                self.store(item, node if part is None else part, level, place)

    def _part(self, node: ast.expr, number: int, value: Level, target: ast.Tuple | ast.List, place: Place) -> Level:
        """One of the parts of a value that are assigned to several targets."""
        return either(FIXED_VALUE, value)

    def _element(self, node: ast.expr, number: int, count: int) -> ast.expr | None:
        if not isinstance(node, (ast.Tuple, ast.List)) or len(node.elts) != count:
            return None
        return None if any(isinstance(item, ast.Starred) for item in node.elts) else node.elts[number]

    def store_item(self, target: ast.expr, node: ast.expr, value: Level, place: Place) -> None:
        """A loop over the value of `node`."""
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        elements = target.elts if isinstance(target, ast.Tuple) else []
        if name == "zip" and len(elements) == len(node.args) and not node.keywords:  # type: ignore[attr-defined]
            for item, part in zip(elements, node.args, strict=True):  # type: ignore[attr-defined]
                self.store_item(item, part, self.of(part, place), place)
        elif name == "enumerate" and len(elements) == 2 and node.args:  # type: ignore[attr-defined]
            self.store(elements[0], node, either(FIXED_VALUE, value), place)
            part = node.args[0]  # type: ignore[attr-defined]
            self.store_item(elements[1], part, self.of(part, place), place)
        else:
            self.store(target, node, either(FIXED_VALUE, value), place)
