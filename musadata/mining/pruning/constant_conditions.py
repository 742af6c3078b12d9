"""Conditions of a reference that have the same value for all shapes and values of its inputs.

Construction depends on the constructor's arguments alone, which a reference fixes: conditions observed there are
constant. Code that runs with the inputs may depend on them: there a condition is constant only if it reads nothing but
values that the constructor has fixed, such as attributes, omitted arguments and flags.
"""

import ast
import re
from collections import Counter
from functools import cached_property
from typing import Any

from musadata.mining.pruning.call_sites import CallSites
from musadata.mining.pruning.execution_watch import Log
from musadata.mining.pruning.influence import Influence
from musadata.mining.pruning.influence_cells import Cells
from musadata.mining.pruning.mentions import may_be_module
from musadata.mining.pruning.stores import LOOPS, Position, Store, Stores, end_of
from musadata.mining.pruning.survey import CHANGING, FUNCTIONS, Function, Survey
from musadata.mining.reading.dotted_names import last_name
from musadata.mining.reading.known_conditions import known_answer

ASKING = frozenset({"isinstance", "issubclass", "hasattr", "getattr", "callable", "len", "type", "bool", "any", "all"})
COUNTING = frozenset({"range", "enumerate", "zip", "reversed"})
ABOUT_PROCESSES = re.compile(r"(\w+\.)*(is_available|is_initialized|get_world_size|get_rank)$")
TYPES = frozenset({"int", "float", "str", "bool", "tuple", "list", "dict"})


class Observations:
    """The observations of one run, in terms of the reference's syntax tree."""

    def __init__(self, tree: ast.Module, survey: Survey, log: Log):
        self.tree, self.survey = tree, survey
        self.functions = survey.functions
        self._log = log
        self._locals: dict[int, Locals] = {}
        self._stores: dict[int, Stores] = {}
        self._influence: Influence | None = None

    def is_fixed(self, site: ast.AST, reach: frozenset[str]) -> bool:
        """Whether inputs decide nothing that a condition reads, or a loop runs over."""
        if self._influence is None:
            known = ConstantConditions(self, reach, follow=False)
            cells = Cells(self.tree, self.survey, self._binds, self._log.own, self._log.classes)
            calls = CallSites(self.tree, self._log.text, self.survey, self._log.calls, cells.properties)
            self._influence = Influence(cells, calls, self.outcomes, self.ran, self.constant, known.answer)
        return self._influence.is_fixed(site)

    def _binds(self, function: Function, name: str) -> bool:
        return self.locals(function).binds(name)

    def outcomes(self, node: ast.AST) -> set[bool]:
        """The observed values of a site; empty if it was never reached."""
        return self._log.outcomes.get(self.survey.number.get(id(node), -1), set())

    def entered(self, function: Function) -> bool:
        return bool(self.outcomes(function))

    def ran(self, function: Function) -> bool:
        """Whether it was entered with the inputs, not only during construction."""
        return self.survey.number[id(function)] in self._log.ran

    def constant(self, function: Function, name: str) -> bool:
        """Whether an argument always had the same flag, string or None as its value."""
        return bool(self._log.constants.get((self.survey.number[id(function)], name)))

    def keys(self, table: ast.Assign) -> set[Any] | None:
        """The keys that were looked up in a table; None if all entries count as read."""
        return self._log.tables.get(self.survey.number.get(id(table), -1))

    def owner(self, function: Function) -> ast.AST | None:
        """The innermost function or class around a function."""
        around = self.survey.around[id(function)]
        return around[-1] if around else None

    def tells_processes(self, name: str) -> bool:
        """Whether a function calls nothing but what says how many processes there are; a reference runs in one."""
        found = [node for node in self.tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        calls = [ast.unparse(node.func) for item in found for node in ast.walk(item) if isinstance(node, ast.Call)]
        return bool(calls) and all(map(ABOUT_PROCESSES.match, calls))

    def is_structural(self, node: ast.expr) -> bool:
        """Whether a condition was seen to read nothing that may depend on sizes and values of inputs."""
        number = self.survey.number.get(id(node), -1)
        return number in self._log.paths and number not in self._log.loose

    def locals(self, function: Function) -> "Locals":
        if id(function) not in self._locals:
            self._locals[id(function)] = Locals(function)
        return self._locals[id(function)]

    def stores(self, function: Function) -> "Stores":
        """The assignments of a function, each with the conditions around it."""
        if id(function) not in self._stores:
            self._stores[id(function)] = Stores(function)
        return self._stores[id(function)]

    @cached_property
    def names(self) -> frozenset[str]:
        """Top-level names."""
        found = set[str]()
        for node in self.tree.body:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {alias.asname or alias.name for alias in node.names}
            else:
                found |= {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
        return frozenset(found)


class Locals:
    """Names that a function binds; `inner`: arguments of functions inside it."""

    def __init__(self, function: Function):
        given = function.args
        self.arguments = {item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        self.assigned: Counter[str] = Counter()
        self.inner: set[str] = set()
        self._values: dict[str, ast.expr] = {}
        self._stores: dict[str, list[Position]] = {}  # where an assignment of a variable ends
        self._loops: list[tuple[Position, Position]] = []
        for item in ast.walk(function):
            self._note_place(item)
            if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load):
                self.assigned[item.id] += 1
            elif isinstance(item, ast.Assign) and len(item.targets) == 1 and isinstance(item.targets[0], ast.Name):
                self._values[item.targets[0].id] = item.value
            elif isinstance(item, (*FUNCTIONS, ast.ClassDef)) and item is not function:
                self.assigned[item.name] += 1
            elif isinstance(item, (ast.Import, ast.ImportFrom)):
                self.assigned.update(alias.asname or alias.name.partition(".")[0] for alias in item.names)
            elif isinstance(item, ast.ExceptHandler) and item.name:
                self.assigned[item.name] += 1
            elif isinstance(item, ast.arg):
                self.inner.add(item.arg)

    def _note_place(self, item: ast.AST) -> None:
        if isinstance(item, LOOPS):
            self._loops.append(((item.lineno, item.col_offset), end_of(item)))
        elif isinstance(item, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            for name in (part for target in targets for part in ast.walk(target)):
                if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load):
                    self._stores.setdefault(name.id, []).append(end_of(item))

    def is_still_given(self, name: str, node: ast.expr) -> bool:
        """Whether an argument has the value that the call gave, wherever control comes from to an expression."""
        if name not in self.arguments or self.assigned[name] > len(self._stores.get(name, ())):
            return False
        place = (node.lineno, node.col_offset)
        around = [(first, last) for first, last in self._loops if first <= place < last]
        return all(
            place < store and not any(first <= store <= last for first, last in around)
            for store in self._stores.get(name, ())
        )

    def value(self, name: str) -> ast.expr | None:
        """The expression of a variable that is assigned exactly once."""
        return self._values.get(name) if self.assigned[name] == 1 and name not in self.inner else None

    def binds(self, name: str) -> bool:
        return name in self.assigned or name in self.inner


class ConstantConditions:
    """The constant values of conditions, by `answer`."""

    def __init__(self, seen: Observations, reach: frozenset[str], *, follow: bool = True):
        """`reach`: every name in code that may run with the inputs. `follow`: ask `Observations.is_fixed`, too."""
        self._follow = follow
        self._seen = seen
        self._reach = reach
        self._remembered: dict[int, bool | None] = {}
        self._running = {id(function) for function in seen.functions if self._may_run(function)}
        # Attributes that such code changes: the constructor does not fix conditions on them.
        changing = [seen.survey.changes[number] for number in self._running]
        self._changing = frozenset[str]().union(*changing, (function.name for function in seen.functions))
        self._has_flags = True  # whether any flag that a call passes on may depend on inputs
        self._has_flags = any(
            function is not None and self._hands_on(called) and self.may_run(function)
            and not self._is_fixed(value, function)
            for value, called, function in seen.survey.comparisons
        )  # fmt: skip

    def _hands_on(self, called: ast.expr) -> bool:
        """Whether a call may enter a function of the reference: `torch.sum(x > 0)` enters none."""
        return may_be_module(called) or last_name(called) in {item.name for item in self._seen.functions}

    def may_run(self, function: Function) -> bool:
        """Whether a function may be entered with the inputs."""
        return id(function) in self._running

    def _may_run(self, function: Function) -> bool:
        owner = self._seen.owner(function)
        if self._seen.ran(function) or isinstance(owner, FUNCTIONS):
            return True
        if isinstance(owner, ast.ClassDef) and function.name.startswith("__"):
            return owner.name in self._reach
        return function.name in self._reach

    def answer(self, test: ast.expr) -> bool | None:
        """The constant value of a condition; None if it is not constant."""
        if id(test) not in self._remembered:
            self._remembered[id(test)] = None  # for conditions that hang on each other, in a loop
            self._remembered[id(test)] = self._answer(test)
        return self._remembered[id(test)]

    def _answer(self, test: ast.expr) -> bool | None:
        if has_effect(test):
            return None
        if isinstance(test, ast.BoolOp):
            answers = [self.answer(value) for value in test.values]
            decisive = isinstance(test.op, ast.Or)
            if decisive in answers:
                return decisive
            if None not in answers:
                return not decisive
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.answer(test.operand)
            return None if inner is None else not inner
        outcomes = self._seen.outcomes(test)
        if len(outcomes) != 1:
            return None
        answer = next(iter(outcomes))
        if self._seen.survey.guards.get(id(test)) is answer:  # no inputs of a task are refused
            return answer
        settled = self.is_settled(test, test) or (self._seen.is_structural(test) and self._reads_steady_names(test))
        return answer if settled or known_answer(test, {}) is answer or self._is_followed(test) else None

    def _is_followed(self, site: ast.AST) -> bool:
        return self._follow and id(site) not in self._seen.survey.deferred and self._seen.is_fixed(site, self._reach)

    def _reads_steady_names(self, test: ast.expr) -> bool:
        """Whether no name in a condition was assigned under another one that may depend on inputs."""
        function = self._seen.survey.inside[id(test)]
        if id(test) in self._seen.survey.deferred or function is None:
            return False
        around = [item for item in self._seen.survey.around[id(function)] if isinstance(item, FUNCTIONS)]
        names = {item.id for item in ast.walk(test) if isinstance(item, ast.Name)}
        stores = [
            store
            for item in (*around, function)
            for name in names
            for store in self._seen.stores(item).before(name, test)
        ]
        return all(self._is_steady(store, test) for store in stores)

    def _is_steady(self, store: Store, asked: ast.expr) -> bool:
        """Whether an assignment is always made, or never, and of a value that no condition chooses.

        `asked`: the condition that reads the variable, which has one value if nothing else changes it.
        """
        own = next(iter(self._seen.outcomes(asked)))
        function = self._seen.survey.inside[id(asked)]
        around = self._seen.stores(function).around(asked) if function is not None else ()
        doubtful = [item for item in store.conditions if item not in around]  # the others are met where it is asked
        answers = [(own if test is asked else self.answer(test), branch) for test, branch in doubtful]
        if any(answer is not None and answer is not branch for answer, branch in answers):
            return True
        chosen = [item for item in ast.walk(store.value) if isinstance(item, (ast.IfExp, ast.BoolOp))]
        settled = all(isinstance(item, ast.IfExp) and self.answer(item.test) is not None for item in chosen)
        return settled and all(answer is not None for answer, _ in answers)

    def never_loops(self, loop: ast.For | ast.While) -> bool:
        if isinstance(loop, ast.While):
            return not loop.orelse and self.answer(loop.test) is False
        if loop.orelse or self._seen.outcomes(loop) != {False} or has_effect(loop.iter):
            return False
        return self.is_settled(loop, loop.iter) or self._is_followed(loop)

    def never_fails(self, node: ast.Try) -> bool:
        """Whether none of its handlers runs."""
        tried = bool(self._seen.outcomes(node)) and not node.finalbody
        return tried and not any(map(self._seen.outcomes, node.handlers))

    def is_settled(self, site: ast.AST, node: ast.expr | None) -> bool:
        """Whether the value of an expression at a site does not depend on inputs."""
        if id(site) in self._seen.survey.deferred:
            return False
        function = self._seen.survey.inside[id(site)]
        if function is None or not self.may_run(function):
            return True
        return node is not None and self._is_fixed(node, function)

    def _is_fixed(self, node: ast.expr, function: Function) -> bool:
        if isinstance(node, ast.Constant) or known_answer(node, {}) is not None:
            return True
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            return node.attr not in self._changing and (own or self._is_fixed(node.value, function))
        if isinstance(node, ast.Name):
            return self._is_fixed_name(node, function)
        if isinstance(node, ast.Compare):
            if _asks_for_none(node) and isinstance(node.left, ast.Name):
                return self._is_argument(node.left, function) or self._is_fixed(node.left, function)
            return all(self._is_fixed(item, function) for item in (node.left, *node.comparators))
        if isinstance(node, ast.Call):
            return self._is_fixed_call(node, function)
        if isinstance(node, (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.List, ast.Set, ast.Subscript)):
            children = [item for item in ast.iter_child_nodes(node) if isinstance(item, ast.expr)]
            return all(self._is_fixed(item, function) for item in children)
        return False

    def _is_fixed_call(self, node: ast.Call, function: Function) -> bool:
        if not isinstance(node.func, ast.Name) or node.keywords:
            return False
        if not node.args and self._seen.tells_processes(node.func.id):
            return True
        if node.func.id in COUNTING:
            return all(self._is_fixed(item, function) for item in node.args)
        if node.func.id not in ASKING:
            return False
        first, rest = node.args[0] if node.args else node.func, node.args[1:]
        if isinstance(first, ast.Name) and node.func.id in ("isinstance", "callable"):
            of_argument = first.id == "self" or self._is_argument(first, function)
            return (of_argument or self._is_fixed(first, function)) and all(self._is_type(item) for item in rest)
        of_self = isinstance(first, ast.Name) and first.id == "self"
        return (of_self or self._is_fixed(first, function)) and all(self._is_fixed(item, function) for item in rest)

    def _is_type(self, node: ast.expr) -> bool:
        return all(isinstance(item, (ast.Name, ast.Attribute, ast.Tuple, ast.expr_context)) for item in ast.walk(node))

    def _is_fixed_name(self, node: ast.Name, function: Function) -> bool:
        name = node.id
        around = [item for item in self._seen.survey.around[id(function)] if isinstance(item, FUNCTIONS)]
        if not any(self._seen.locals(item).binds(name) for item in (*around, function)):
            return name in self._seen.names or name in TYPES
        value = self._seen.locals(function).value(name)
        if value is not None:
            return self._is_fixed(value, function)
        if not self._is_argument(node, function) or not self._seen.constant(function, name):
            return False
        return not self._has_flags

    def _is_argument(self, node: ast.Name, function: Function) -> bool:
        """Whether a name is an argument that still has the value that the call gave."""
        return self._seen.locals(function).is_still_given(node.id, node)


def _asks_for_none(node: ast.Compare) -> bool:
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(None)]):
            return True
    return False


def has_effect(node: ast.expr) -> bool:
    """Whether evaluating an expression may change something."""
    for item in ast.walk(node):
        if isinstance(item, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(item, ast.Call):
            name = last_name(item.func)
            if name in CHANGING or name.endswith("_"):
                return True
    return False
