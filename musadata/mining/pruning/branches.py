"""Removing code that a reference's own arguments never execute.

A pure function of the text and of the observations of one run. Code that inputs of other shapes or values might execute
stays: see `musadata.mining.pruning.constant_conditions`.
"""

import ast

from musadata.mining.pruning.constant_conditions import Observations, has_effect
from musadata.mining.pruning.cutting import Cutter
from musadata.mining.pruning.survey import FUNCTIONS, entries
from musadata.mining.reading.parsing import first_line

ENDINGS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def prune(source: str, seen: Observations) -> str:
    """The definitions without branches and loops that never run."""
    return _Pruner(source, seen).text()


class _Pruner:
    def __init__(self, source: str, seen: Observations):
        self._conditions = seen
        self._tree = seen.tree
        self._cutter = Cutter(source, seen.survey.texts)

    def text(self) -> str:
        self._block(self._tree.body, None)
        return self._cutter.text()

    def _block(self, statements: list[ast.stmt], owner: ast.stmt | None) -> None:
        """Remove unreachable statements of a block; a block that would be empty gets `pass`."""
        end = next((number for number, item in enumerate(statements, 1) if self._ends(item)), len(statements))
        gone = [number for number, item in enumerate(statements) if number >= end or self._is_gone(item)]
        empty = owner is not None and len(gone) == len(statements)
        for number, statement in enumerate(statements):
            if empty and not number:
                self._cutter.blank(statement)
            elif number in gone:
                self._cutter.drop_statement(statement)
            else:
                self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If):
            self._if(node, is_head=True)
            return
        if isinstance(node, ast.Assign) and self._unread_entries(node):
            self._table(node)
            return
        for _, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if children and all(isinstance(item, ast.stmt) for item in children):
                self._block(children, node)
                continue
            for child in children:
                if isinstance(child, (ast.ExceptHandler, ast.match_case)):
                    self._block(child.body, node)
                elif isinstance(child, ast.AST):
                    self._expressions(child)

    def _is_gone(self, statement: ast.stmt) -> bool:
        """Whether a statement is removed completely."""
        if isinstance(statement, ast.If):
            answer = self._conditions.answer(statement.test)
            if answer is not None:
                return all(map(self._is_gone, statement.body if answer else statement.orelse))
            both = [*statement.body, *statement.orelse]
            return all(map(self._is_gone, both)) and not has_effect(statement.test)
        if isinstance(statement, ast.For) and not statement.orelse and not has_effect(statement.iter):
            return self._conditions.never_loops(statement) or all(map(self._is_gone, statement.body))
        return isinstance(statement, (ast.For, ast.While)) and self._conditions.never_loops(statement)

    def _ends(self, statement: ast.stmt) -> bool:
        """Whether a statement always exits its block."""
        if isinstance(statement, ast.If):
            answer = self._conditions.answer(statement.test)
            if answer is not None:
                return any(map(self._ends, statement.body if answer else statement.orelse))
            return any(map(self._ends, statement.body)) and any(map(self._ends, statement.orelse))
        return isinstance(statement, ENDINGS)

    def _unread_entries(self, node: ast.Assign) -> list[int]:
        """Positions of the entries of a table that are never looked up."""
        keys = self._conditions.keys(node)
        return [place for place, (key, _, _) in enumerate(entries(node.value)) if keys is not None and key not in keys]

    def _table(self, node: ast.Assign) -> None:
        """Remove entries that nothing reads."""
        unread = self._unread_entries(node)
        places = [self._cutter.span(first, last) for _, first, last in entries(node.value)]
        for place, (_, _, value) in enumerate(entries(node.value)):
            if place in unread:
                self._cutter.drop_item(places, place, unread)
            else:
                self._expressions(value)

    def _if(self, node: ast.If, is_head: bool) -> None:
        """`is_head`: the branches before it are removed, so that it must begin with `if`."""
        answer = self._conditions.answer(node.test)
        if answer is None:
            self._keep(node, is_head)
        elif answer:
            self._always(node, is_head)
        else:
            self._never(node, is_head)

    def _keep(self, node: ast.If, is_head: bool) -> None:
        if is_head and self._is_elif(node):
            self._cutter.replace(node.lineno, node.col_offset, node.lineno, node.col_offset + 2)
        self._test(node.test)
        self._block(node.body, node)
        if not node.orelse:
            return
        if self._has_elif(node):
            self._if(node.orelse[0], is_head=False)  # type: ignore[arg-type]
        elif all(map(self._is_gone, node.orelse)):
            self._drop_rest(node)
        else:
            self._block(node.orelse, node)

    def _always(self, node: ast.If, is_head: bool) -> None:
        self._drop_rest(node)
        first = first_line(node.body[0])
        if first == node.lineno:  # if …: return
            new = "" if is_head else "else: "
            self._cutter.replace(node.lineno, node.col_offset, first, node.body[0].col_offset, new)
        elif is_head:
            self._cutter.drop_lines(node.lineno, self._header_end(node.lineno, first))
            self._move(node.body, node)
        else:
            self._cutter.drop_lines(node.lineno + 1, self._header_end(node.lineno, first))
            end = len(self._cutter.line(node.lineno).rstrip().encode())
            self._cutter.replace(node.lineno, node.col_offset, node.lineno, end, "else:")
        self._block(node.body, None if is_head else node)

    def _never(self, node: ast.If, is_head: bool) -> None:
        last = node.body[-1].end_lineno or 0
        above = self._cutter.comments_above(node.lineno, node.col_offset)
        if not node.orelse or self._has_elif(node):
            self._cutter.drop_lines(above, self._cutter.comments_below(last, node.col_offset))
            if node.orelse:
                self._if(node.orelse[0], is_head)  # type: ignore[arg-type]
            return
        place = self._else_line(node)
        self._cutter.drop_lines(above, place if is_head and first_line(node.orelse[0]) > place else place - 1)
        if is_head:
            if first_line(node.orelse[0]) == place:
                self._cutter.replace(place, node.col_offset, place, node.orelse[0].col_offset)
            self._move(node.orelse, node)
        self._block(node.orelse, None if is_head else node)

    def _move(self, block: list[ast.stmt], node: ast.If) -> None:
        """Dedent a block to the column of its condition."""
        columns = block[0].col_offset - node.col_offset
        first, last = first_line(block[0]), block[-1].end_lineno or 0
        if first == node.lineno or columns <= 0 or self._cutter.line(first)[: block[0].col_offset].strip():
            return
        first = self._cutter.comments_above(first, block[0].col_offset)
        self._cutter.shift(first, self._cutter.comments_below(last, node.col_offset), columns)

    def _header_end(self, first: int, body: int) -> int:
        """The last line of a header, without comments above the body."""
        last = body - 1
        while last > first and not self._cutter.line(last).split("#")[0].rstrip().endswith(":"):
            last -= 1
        return last

    def _drop_rest(self, node: ast.If) -> None:
        """Everything after the body of a condition."""
        if node.orelse:
            last = self._cutter.comments_below(node.end_lineno or 0, node.col_offset)
            first = node.orelse[0].lineno if self._has_elif(node) else self._else_line(node)
            self._cutter.drop_lines(self._cutter.comments_above(first, node.col_offset), last)

    def _else_line(self, node: ast.If) -> int:
        number = first_line(node.orelse[0])
        while not self._cutter.line(number).lstrip().startswith("else"):
            number -= 1
        return number

    def _has_elif(self, node: ast.If) -> bool:
        return len(node.orelse) == 1 and self._is_elif(node.orelse[0])

    def _is_elif(self, node: ast.stmt) -> bool:
        line = self._cutter.line(node.lineno).encode()[node.col_offset :]
        return isinstance(node, ast.If) and line.startswith(b"elif")

    def _expressions(self, node: ast.AST) -> None:
        if isinstance(node, FUNCTIONS):
            return
        if isinstance(node, ast.IfExp):
            answer = self._conditions.answer(node.test)
            if answer is not None:
                part = node.body if answer else node.orelse
                self._cutter.keep_only(node, part)
                self._expressions(part)
                return
            self._test(node.test)
            self._expressions(node.body)
            self._expressions(node.orelse)
            return
        for child in ast.iter_child_nodes(node):
            self._expressions(child)

    def _test(self, test: ast.expr) -> None:
        """Reduce a condition to the one operand that decides it, if there is one."""
        if not isinstance(test, ast.BoolOp):
            self._expressions(test)
            return
        left = [value for value in test.values if self._conditions.answer(value) is None]
        if len(left) == 1:
            self._cutter.keep_only(test, left[0])
        for value in left:
            self._test(value)
