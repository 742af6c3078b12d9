"""Conditions of a reference that have one value in all its runs, and read nothing that inputs change.

A run is made for several sizes of the inputs. A condition is constant if it had one value, and whatever it reads (a
variable, an attribute, a length) was the same at all sizes: see `execution_watch`. This is observed, not proved: a
reference defines its task by itself, and the proof is that it behaves alike without the code.
"""

import ast

from musadata.mining.pruning.execution_watch import Log
from musadata.mining.pruning.survey import CHANGING, Survey
from musadata.mining.reading.dotted_names import last_name


class Observations:
    """The observations of all runs, in terms of the reference's syntax tree."""

    def __init__(self, tree: ast.Module, survey: Survey, log: Log):
        self.tree, self.survey = tree, survey
        self._log = log

    def outcomes(self, node: ast.AST) -> set[bool]:
        """The observed values of a site; empty if it was never reached."""
        return self._log.outcomes.get(self.survey.number.get(id(node), -1), set())

    def keys(self, table: ast.Assign) -> set[object] | None:
        """The keys that were looked up in a table; None if all entries count as read."""
        return self._log.tables.get(self.survey.number.get(id(table), -1))

    def answer(self, test: ast.expr) -> bool | None:
        """The constant value of a condition; None if it is not constant."""
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
        outcomes = self.outcomes(test)
        if len(outcomes) != 1:
            return None
        answer = next(iter(outcomes))
        refuses_nothing = self.survey.guards.get(id(test)) is answer  # no inputs of a task are refused
        return answer if refuses_nothing or self._log.is_steady(self.survey.number[id(test)]) else None

    def never_loops(self, loop: ast.For | ast.While) -> bool:
        if isinstance(loop, ast.While):
            return not loop.orelse and self.answer(loop.test) is False
        if loop.orelse or self.outcomes(loop) != {False} or has_effect(loop.iter):
            return False
        return self._log.is_steady(self.survey.number[id(loop)])


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
