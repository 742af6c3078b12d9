"""The reachable parts of a reference, given its constant conditions."""

import ast
from collections import Counter
from collections.abc import Iterable

from musadata.mining.pruning.class_use import ClassUse
from musadata.mining.pruning.constant_conditions import Observations, has_effect
from musadata.mining.pruning.mentions import References, mentions_of
from musadata.mining.pruning.survey import FUNCTIONS, Function, defined_names, entries

ENDINGS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Delete, ast.Pass)


class Reachability:
    """The code that stays.

    `dropped`: ids of the functions, classes and constants that nothing needs.
    """

    def __init__(self, seen: Observations):
        self._seen = seen
        self._mentions: dict[int, References] = {}
        self._wanted: set[int] = set()  # methods that were never entered, but may be
        self.dropped: set[int] = set()
        self._classes = ClassUse(seen)
        self.dropped = self._unneeded()

    def is_gone(self, statement: ast.stmt) -> bool:
        """Whether a statement is removed completely."""
        if isinstance(statement, ast.If):
            answer = self._seen.answer(statement.test)
            if answer is not None:
                return all(map(self.is_gone, statement.body if answer else statement.orelse))
            both = [*statement.body, *statement.orelse]
            return all(map(self.is_gone, both)) and not has_effect(statement.test)
        if isinstance(statement, (ast.For, ast.While)):
            if isinstance(statement, ast.For) and not statement.orelse and not has_effect(statement.iter):
                return self._seen.never_loops(statement) or all(map(self.is_gone, statement.body))
            return self._seen.never_loops(statement)
        return id(statement) in self.dropped

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block up to the first that always exits it."""
        for number, statement in enumerate(statements):
            if self._ends(statement):
                return statements[: number + 1]
        return statements

    def unread_entries(self, node: ast.Assign) -> list[int]:
        """Positions of the entries of a table that are never looked up."""
        keys = self._seen.keys(node)
        if keys is None:
            return []
        return [place for place, (key, _, _) in enumerate(entries(node.value)) if key not in keys]

    def _ends(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.If):
            answer = self._seen.answer(statement.test)
            if answer is not None:
                return any(map(self._ends, statement.body if answer else statement.orelse))
            return any(map(self._ends, statement.body)) and any(map(self._ends, statement.orelse))
        return isinstance(statement, ENDINGS)

    def _unneeded(self) -> set[int]:
        """Definitions that `Model` does not need, and methods that were never entered and that nothing may call."""
        definitions = {name: node for node in self._seen.tree.body for name in defined_names(node)}
        self._wanted = set()
        while True:
            found, done = self._needed(definitions)
            unneeded, wanted = set[int](), set[int]()
            for node in self._seen.tree.body:
                if isinstance(node, ast.ClassDef) and id(node) in done:
                    for method in self._classes.doubtful_methods(node, found):
                        may_enter = self._classes.may_enter(method, node, found)
                        (wanted if may_enter else unneeded).add(id(method))
                    wanted |= self._classes.special_methods(node, found)
            if wanted <= self._wanted:
                return (unneeded - self._wanted) | {id(node) for node in definitions.values() if id(node) not in done}
            self._wanted |= wanted  # what they refer to stays as well

    def _needed(self, definitions: dict[str, ast.stmt]) -> tuple[References, set[int]]:
        """The names that `Model` refers to, directly or indirectly, and their definitions."""
        found, done = References(), set[int]()
        waiting = [node for node in self._seen.tree.body if "Model" in (defined_names(node) or ["Model"])]
        while waiting:
            for node in waiting:
                done.add(id(node))
                self._collect(node, found, True, "")
            needed = {id(node): node for name, node in definitions.items() if name in found.variables}
            waiting = [node for number, node in needed.items() if number not in done]
        return found, done

    def _collect(self, node: ast.AST, found: References, ran: bool, owner: str) -> None:
        """Collect the names in the reachable part of a node."""
        if id(node) in self.dropped:
            return
        unread = self.unread_entries(node) if isinstance(node, ast.Assign) and not owner else []
        if isinstance(node, ast.Assign) and unread:
            kept = [value for place, (_, _, value) in enumerate(entries(node.value)) if place not in unread]
            self._collect_all(kept, found, ran, owner)
        elif isinstance(node, SIMPLE):
            self._collect_header(node, [node], found, ran, owner)
        elif isinstance(node, (ast.If, ast.IfExp)):
            self._collect_choice(node, found, ran, owner)
        elif isinstance(node, ast.For):
            if not self._seen.never_loops(node):
                self._collect_header(node, [node.target, node.iter], found, ran, owner)
                self._collect_block(node.body, found, ran and True in self._seen.outcomes(node), owner)
                self._collect_block(node.orelse, found, ran, owner)
        elif isinstance(node, ast.While):
            if not self._seen.never_loops(node):
                self._collect_header(node, [node.test], found, ran, owner)
                self._collect_block(node.body, found, ran and True in self._seen.outcomes(node.test), owner)
                self._collect_block(node.orelse, found, ran, owner)
        elif isinstance(node, ast.Try):
            self._collect_block(node.body, found, ran, owner)
            if not self._seen.never_fails(node):
                self._collect_all(node.handlers, found, ran, owner)
            self._collect_block([*node.orelse, *node.finalbody], found, ran, owner)
        elif isinstance(node, FUNCTIONS):
            self._collect_function(node, found, owner)
        else:
            self._collect_parts(node, found, ran, owner)

    def _collect_header(
        self, statement: ast.stmt, parts: Iterable[ast.AST], found: References, ran: bool, owner: str
    ) -> None:
        """Collect the names of a statement's expressions; cached if they hold no conditional expression."""
        choosing = id(statement) in self._seen.survey.choosing
        for part in parts:
            if choosing:
                self._collect_parts(part, found, ran, owner)
                continue
            if id(part) not in self._mentions:
                self._mentions[id(part)] = mentions_of(part)
            found.add(self._mentions[id(part)], ran, owner)

    def _collect_all(self, nodes: Iterable[ast.AST], found: References, ran: bool, owner: str) -> None:
        for node in nodes:
            self._collect(node, found, ran, owner)

    def _collect_parts(self, node: ast.AST, found: References, ran: bool, owner: str) -> None:
        found.mention(node, ran, owner)
        if isinstance(node, ast.ClassDef):
            owner = node.name
        handler = isinstance(node, ast.ExceptHandler)
        ran = ran and not isinstance(node, ast.Lambda) and not (handler and not self._seen.outcomes(node))
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse") and isinstance(value, list) and not isinstance(node, ast.ClassDef):
                self._collect_block(value, found, ran, owner)
                continue
            for place, child in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(child, ast.AST):
                    self._collect(child, found, ran and not (isinstance(node, ast.BoolOp) and place), owner)

    def _collect_function(self, node: Function, found: References, owner: str) -> None:
        header = (*node.decorator_list, node.args, *([node.returns] if node.returns else []))
        self._collect_header(node, header, found, True, owner)
        entered = self._seen.entered(node)
        if entered or not owner or id(node) in self._wanted:
            self._collect_body(node, found, entered, owner)

    def _collect_body(self, node: Function, found: References, ran: bool, owner: str) -> None:
        """Collect the names in a function's body, without its local names."""
        inner, bound = References(of_self=found.of_self), self._seen.locals(node)
        self._collect_block(node.body, inner, ran, owner)
        found.names |= inner.names
        found.unsure |= inner.unsure
        inner.uses = Counter({name: count for name, count in inner.uses.items() if name == "cls" or name not in bound})
        found.add_uses(inner)
        found.variables.update(name for name in inner.variables if name not in bound)

    def _collect_block(self, statements: list[ast.stmt], found: References, ran: bool, owner: str) -> None:
        for statement in self.block(statements):
            self._collect(statement, found, ran, owner)
            ran = ran and not self._was_left(statement)

    def _was_left(self, statement: ast.stmt) -> bool:
        """Whether every observed outcome of a condition that is not constant exited the block."""
        if not isinstance(statement, ast.If) or self._seen.answer(statement.test) is not None:
            return False
        outcomes = self._seen.outcomes(statement.test)
        taken = [block for answer, block in ((True, statement.body), (False, statement.orelse)) if answer in outcomes]
        return all(any(map(self._ends, block)) for block in taken)

    def _collect_choice(self, node: ast.If | ast.IfExp, found: References, ran: bool, owner: str) -> None:
        answer, outcomes = self._seen.answer(node.test), self._seen.outcomes(node.test)
        for operand in self.doubtful_operands(node.test) if answer is None else ():
            may_run = ran and bool(self._seen.outcomes(operand))
            if isinstance(node, ast.If):
                self._collect_header(node, [operand], found, may_run, owner)
            else:
                self._collect(operand, found, may_run, owner)
        for value, part in ((True, node.body), (False, node.orelse)):
            if answer in (value, None):
                collect = self._collect_block if isinstance(part, list) else self._collect
                collect(part, found, ran and value in outcomes, owner)  # type: ignore[arg-type]

    def doubtful_operands(self, test: ast.expr) -> list[ast.expr]:
        """The innermost operands of a condition that are not constant."""
        if isinstance(test, ast.BoolOp):
            left = [value for value in test.values if self._seen.answer(value) is None]
            return [item for value in left for item in self.doubtful_operands(value)]
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.doubtful_operands(test.operand)
        return [test]
