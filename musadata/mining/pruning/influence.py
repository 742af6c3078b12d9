"""Which conditions of a reference cannot depend on its inputs' sizes and values.

What inputs decide is followed through variables, attributes, arguments and returned values, along the calls that were
seen, and through the conditions under which code runs. A condition that was seen to have one value has it for all
inputs if they decide nothing that it reads. Where they decide whether code runs at all, not all of its runs were seen:
there a condition has to read what has one value in the whole program.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from musadata.mining.pruning.call_sites import CallSites
from musadata.mining.pruning.influence_cells import (
    ANY_VALUE,
    FIXED,
    FIXED_VALUE,
    INVARIANT,
    KIND,
    KIND_VALUE,
    NOTHING,
    Cells,
    Level,
    Place,
    argument_names,
    either,
)  # fmt: skip
from musadata.mining.pruning.influence_of_calls import CallValues, defaults_of
from musadata.mining.pruning.influence_of_values import Opaque
from musadata.mining.pruning.survey import FUNCTIONS, Function

MAX_ROUNDS = 30
# Of the methods that Python calls by itself: those that are called where it shows, and those that find something.
FOLLOWED = frozenset({"__init__", "__call__", "__post_init__", "__getattr__", "__setattr__", "__getitem__"})
ENDINGS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
LEAVING = (ast.Return, ast.Continue, ast.Break)
LOOPS = (ast.For, ast.While)


class Influence:
    """`outcomes`: the values that a condition was seen to have. `ran`: whether a function ran with the inputs.
    `is_plain`: whether an argument always had one flag, text or None as its value. `decided`: the value of a condition
    that is known otherwise.
    """

    def __init__(
        self,
        cells: Cells,
        calls: CallSites,
        outcomes: Callable[[ast.AST], set[bool]],
        ran: Callable[[Function], bool],
        is_plain: Callable[[Function, str], bool],
        decided: Callable[[ast.expr], bool | None],
    ):
        self._cells, self._outcomes, self._ran, self._decided = cells, outcomes, ran, decided
        self._values = CallValues(cells, calls, self._decide)
        self._met: dict[int, tuple[Level, bool]] = {}
        self._left: set[int] = set()  # loops that inputs may leave early
        self._loops: list[ast.stmt] = []
        self._start(calls, is_plain)
        self._settled = self._solve()

    def is_fixed(self, site: ast.AST) -> bool:
        """Whether a condition, or what a loop runs over, is the same for all inputs, whenever it is computed."""
        if not self._settled or id(site) not in self._met:
            return False
        level, uncertain = self._met[id(site)]
        return level is not NOTHING and (level.level == INVARIANT or (level.level == FIXED and not uncertain))

    def _start(self, calls: CallSites, is_plain: Callable[[Function, str], bool]) -> None:
        for function in calls.unplaced:
            self._cells.smash(function)
        for function in calls.roots:
            if function.name != "forward":
                self._cells.smash(function)
                continue
            self._cells.reach(function, uncertain=False)
            for number, name in enumerate(argument_names(function)):
                plain = FIXED_VALUE if is_plain(function, name) or not number else KIND_VALUE
                self._cells.join((id(function), name), plain)

    def _solve(self) -> bool:
        """Whether all rounds but the last changed something, and nothing is opaque."""
        functions = self._cells.survey.functions
        special = [item for item in functions if item.name.startswith("__") and item.name not in FOLLOWED]
        if any(map(self._ran, special)):
            return False
        try:
            for _ in range(MAX_ROUNDS):
                self._cells.moved = False
                self._met.clear()
                for function in functions:
                    if id(function) in self._cells.reached:
                        self._function(function)
                if not self._cells.moved:
                    return True
        except Opaque:
            pass
        return False

    def _function(self, function: Function) -> None:
        uncertain = id(function) in self._cells.uncertain
        place = Place(function, uncertain=uncertain, unseen=not self._ran(function))
        self._loops = []
        if self._block(function.body, place) is not None:
            self._cells.join((id(function), "return"), Level(INVARIANT, "None"))

    def _decide(self, test: ast.expr, level: Level, place: Place) -> set[bool] | None:
        if id(test) not in self._cells.survey.number:
            return None if level.level >= KIND else set()
        outcomes = self._outcomes(test)
        self._met[id(test)] = level, place.uncertain
        guard = self._cells.survey.guards.get(id(test))
        answer = guard if outcomes == {guard} else self._decided(test)
        if answer is not None:
            return {answer}
        if level is NOTHING or level.level == INVARIANT or (level.level == FIXED and not place.uncertain):
            return set(outcomes)
        return {True, False} if level.level == FIXED else None

    def _block(self, statements: Sequence[ast.stmt], place: Place) -> Place | None:
        """The place after a block; None if control never comes there."""
        for node in statements:
            after = self._statement(node, place)
            if after is None:
                return None
            place = after
        return place

    def _statement(self, node: ast.stmt, place: Place) -> Place | None:
        of = self._values.of
        if isinstance(node, ast.If):
            return self._if(node, place)
        if isinstance(node, LOOPS):
            return self._loop(node, place)
        if isinstance(node, ast.Try):
            return self._try(node, place)
        if isinstance(node, ast.With):
            for item in node.items:
                value = of(item.context_expr, place)
                if item.optional_vars is not None:
                    self._values.store(item.optional_vars, item.context_expr, either(KIND_VALUE, value), place)
            return self._block(node.body, place)
        if isinstance(node, ENDINGS):
            self._end(node, place)
            return None
        if isinstance(node, (ast.Match, ast.AsyncFor, ast.AsyncWith, ast.ClassDef)):
            raise Opaque
        self._simple(node, place)
        return place

    def _simple(self, node: ast.stmt, place: Place) -> None:
        of = self._values.of
        if isinstance(node, ast.Assign):
            value = of(node.value, place)
            for target in node.targets:
                self._values.store(target, node.value, value, place)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._values.store(node.target, node.value, of(node.value, place), place)
        elif isinstance(node, ast.AugAssign):
            changed = ast.BinOp(node.target, node.op, node.value)
            self._values.store(node.target, node.target, of(changed, place), place)
            if not isinstance(node.target, ast.Attribute):
                self._cells.change(node.target, of(node.value, place), place)
        elif isinstance(node, FUNCTIONS):
            for item in node.decorator_list:
                of(item, place)
            for name, default in defaults_of(node).items():
                self._cells.join((id(node), name), of(default, place))
            self._cells.store_name(node.name, FIXED_VALUE, place)
        elif isinstance(node, (ast.Expr, ast.Assert)):
            of(node.value if isinstance(node, ast.Expr) else node.test, place)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                self._cells.store_name(name, Level(INVARIANT, name), place)

    def _end(self, node: ast.stmt, place: Place) -> None:
        if isinstance(node, ast.Return):
            value = self._values.of(node.value, place)
            key = (id(place.function), "return")
            self._cells.join(key, ANY_VALUE if place.varying else value)
            for number, item in enumerate(node.value.elts if isinstance(node.value, ast.Tuple) else ()):
                part = ANY_VALUE if place.varying else self._values.of(item, place)
                self._cells.join((id(place.function), f"return {number}"), part)
            if node.value is not None:
                self._cells.pass_on(key, node.value, place)
        elif isinstance(node, (ast.Break, ast.Continue)) and place.varying and self._loops:
            loop = id(self._loops[-1])
            if loop not in self._left:
                self._left.add(loop)
                self._cells.moved = True

    def _if(self, node: ast.If, place: Place) -> Place | None:
        level = self._values.of(node.test, place)
        seen, outcomes = self._decide(node.test, level, place), self._outcomes(node.test)
        sides = {True: node.body, False: node.orelse}
        after = []
        for answer in seen or sides:
            unseen = answer not in outcomes and self._decided(node.test) is None
            inside = place.doubtful(unseen=unseen) if seen is None else replace(place, unseen=place.unseen or unseen)
            after.append((unseen, self._block(sides[answer], inside)))
        left = [(unseen, item) for unseen, item in after if item is not None]
        if not left:
            return None
        if seen is None:
            uncertain = place.uncertain or any(isinstance(item, LEAVING) for item in ast.walk(node))
        else:
            uncertain = any(item.uncertain for _, item in left)
        return replace(place, uncertain=uncertain, unseen=place.unseen or all(unseen for unseen, _ in left))

    def _loop(self, node: ast.For | ast.While, place: Place) -> Place:
        level = self._values.of(node.iter if isinstance(node, ast.For) else node.test, place)
        if isinstance(node, ast.For):
            self._met[id(node)] = level, place.uncertain
            outcomes = self._outcomes(node)
            seen = None if level.level >= KIND else outcomes
        else:
            seen, outcomes = self._decide(node.test, level, place), self._outcomes(node.test)
        if seen == {False} and (level.level == INVARIANT or not place.uncertain):
            return self._block(node.orelse, place) or place
        inside = replace(place, unseen=place.unseen or True not in outcomes)
        if seen is None or id(node) in self._left:
            inside = inside.doubtful()
        if isinstance(node, ast.For):
            self._values.store_item(node.target, node.iter, level, inside)
        self._loops.append(node)
        after = self._block(node.body, inside)
        self._loops.pop()
        returned = any(isinstance(item, ast.Return) for part in node.body for item in ast.walk(part))
        after = replace(
            place, uncertain=place.uncertain or (returned and (inside.varying or after is None or after.uncertain))
        )
        return self._block(node.orelse, after) or after

    def _try(self, node: ast.Try, place: Place) -> Place | None:
        never_fails = bool(self._outcomes(node)) and not any(map(self._outcomes, node.handlers))
        if never_fails:
            return self._block([*node.body, *node.orelse, *node.finalbody], place)
        place = place.doubtful()
        self._block(node.body, place)
        for handler in node.handlers:
            if handler.name:
                self._cells.store_name(handler.name, ANY_VALUE, place)
            self._block(handler.body, replace(place, unseen=place.unseen or not self._outcomes(handler)))
        self._block([*node.orelse, *node.finalbody], place)
        return place
