"""Which functions of a reference each of its call expressions enters, seen while it runs."""

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import islice
from types import CodeType, FrameType

import torch
from torch import nn

from musadata.mining.pruning.survey import FUNCTIONS, Function, Survey

INSERTED = "_musadata_"  # how the names begin that instrumentation inserts
ENTERED = "_musadata_entered"
End = tuple[int, int]  # line and column behind an expression: no two calls of a text end at one place
Site = ast.Call | ast.Attribute

# What only hands arguments on: modules, and `torch.no_grad()` as a decorator.
_CONTEXTS = frozenset({torch.no_grad.__call__.__code__.co_filename})
_HANDING_ON = _CONTEXTS | {nn.Module.__call__.__code__.co_filename}
_MODULE_CALLS = frozenset({"forward", "__call__"})  # all else that a module enters is a hook
Ends = dict[tuple[CodeType, int], End]


def caller_of(frame: FrameType, ends: Ends) -> tuple[End | None, bool]:
    """Where the code of a reference called a function, by the end of the call in the text that ran, and whether it
    did so itself: modules that torch calls, in `nn.Sequential`, are not called with the arguments that are seen.

    None where no code of the reference called it. `ends`: those that were looked up before.
    """
    file, above, is_direct = frame.f_code.co_filename, frame.f_back, True
    may_be_hook = frame.f_code.co_name not in _MODULE_CALLS
    while above is not None and above.f_code.co_filename != file:
        is_direct = is_direct and above.f_code.co_filename in (_CONTEXTS if may_be_hook else _HANDING_ON)
        above = above.f_back
    if above is None:
        return None, is_direct
    key = above.f_code, above.f_lasti
    if key not in ends:
        _, line, _, column = next(islice(key[0].co_positions(), key[1] // 2, None))
        ends[key] = line or 0, column or 0
    return ends[key], is_direct


class CallSites:
    """Attributes:
    entered: for each call, and for each attribute that is a property, the functions that it entered, each with whether
        the reference called it itself; by id.
    roots: functions that the reference's own code did not call; `unplaced`: those that it called, not by a call.
    """

    def __init__(
        self,
        tree: ast.Module,
        instrumented: str,
        survey: Survey,
        calls: Collection[tuple[int, End | None, bool]],
        properties: Collection[str],
    ):
        self.entered: defaultdict[int, list[tuple[Function, bool]]] = defaultdict(list)
        self.roots: list[Function] = []
        self.unplaced: list[Function] = []
        pairs = zip(_sites(ast.parse(instrumented)), _sites(tree), strict=True)
        places = {
            (node.end_lineno, node.end_col_offset): id(own)
            for node, own in pairs
            if isinstance(own, ast.Call) or own.attr in properties
        }
        for number, end, is_direct in sorted(calls, key=repr):
            function = survey.sites[number]
            if not isinstance(function, FUNCTIONS):
                continue
            if end is None:
                self.roots.append(function)
            elif end in places:
                self.entered[places[end]].append((function, is_direct))
            else:
                self.unplaced.append(function)


def _sites(tree: ast.AST) -> Iterator[Site]:
    """Calls and attributes outside of texts, in an order that inserted calls do not change."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):  # positions there are wrong before Python 3.12
            continue
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if name.startswith(INSERTED):
            waiting += node.args[1:] if name != ENTERED else ()  # type: ignore[attr-defined]
            continue
        if isinstance(node, (ast.Call, ast.Attribute)):
            yield node
        waiting += ast.iter_child_nodes(node)
