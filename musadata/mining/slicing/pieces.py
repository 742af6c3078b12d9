"""The definitions of a slice, in an order in which Python can execute them."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from musadata.mining.reading.parsing import Definition
from musadata.mining.slicing.members import Member
from musadata.mining.slicing.naming import Names

Key = tuple[str, int]  # of a definition


@dataclass(eq=False)
class Piece:
    """One definition of a slice: its needed members, and the names that are replaced in it."""

    definition: Definition
    name: str
    members: list[Member] = field(default_factory=list)
    needed: set[int] = field(default_factory=set)
    renames: dict[str, str] = field(default_factory=dict)
    needs: set[Key] = field(default_factory=set)  # definitions that must exist before it is defined
    calls: set[Key] = field(default_factory=set)  # definitions that must exist before it runs
    is_module: bool = False
    is_extension: bool = False  # builds native code on import
    value: str = ""  # what a reference binds its name to instead
    changes: set[Key] = field(default_factory=set)  # definitions that it changes
    absent_bases: set[str] = field(default_factory=set)  # base classes of packages that references may not import
    is_called_by_torch: bool = False  # a base class of PyTorch may call any of its methods
    module_base: str = ""  # what stands for one of these, if nothing else makes the class a module


@dataclass
class Slice:
    """A class and every definition that it needs, in an order that Python can execute. The class comes last.

    `unbound`: names that nothing can bind, in functions, and why; code that never runs may use one.
    """

    pieces: list[Piece]
    names: Names
    root: Piece
    unbound: dict[str, str] = field(default_factory=dict)


def in_order(pieces: Mapping[Key, Piece], root: Piece) -> list[Piece]:
    """The pieces, what each needs before it and the root last."""
    return _Order(pieces).run(root)


class _Order:
    def __init__(self, pieces: Mapping[Key, Piece]):
        self._pieces = pieces

    def _reached(self, piece: Piece) -> set[Key]:
        """The definitions that a piece refers to, directly or indirectly."""
        found: set[Key] = set()
        waiting = [piece]
        while waiting:
            item = waiting.pop()
            fresh = (item.needs | item.calls) - found
            found |= fresh
            waiting += [self._pieces[key] for key in fresh]
        return found

    def _called(self, key: Key) -> set[Key]:
        """The definitions that must exist before a definition can be called."""
        found: set[Key] = set()
        waiting = [key]
        while waiting:
            fresh = self._pieces[waiting.pop()].calls - found
            found |= fresh
            waiting += fresh
        return found

    def _needed_first(self, piece: Piece) -> set[Key]:
        """The definitions that must exist before a piece is defined, with what these may call by then."""
        found: set[Key] = set()
        waiting = [piece]
        while waiting:
            item = waiting.pop()
            needs = item.needs - {item.definition.key}
            fresh = needs.union(*(self._pieces[key].calls for key in needs)) - found
            found |= fresh
            waiting += [self._pieces[key] for key in fresh]
        return found

    def run(self, root: Piece) -> list[Piece]:
        ordered: dict[Key, Piece] = {}
        changing: dict[Key, list[Piece]] = {}
        for piece in sorted(self._pieces.values(), key=lambda item: item.definition.key):
            for key in piece.changes:
                changing.setdefault(key, []).append(piece)

        def place(piece: Piece, above: frozenset[Key]) -> None:
            if piece.definition.key in ordered or piece.definition.key in above:
                return
            inside = above | {piece.definition.key}
            for key in sorted(piece.needs - {piece.definition.key}):
                place(self._pieces[key], inside)
                runs_code = isinstance(piece.definition.node, (ast.Assign, ast.AnnAssign, ast.Expr))
                for called in sorted(self._called(key) if runs_code else self._pieces[key].calls):
                    if called not in ordered and not self._needed_first(self._pieces[called]) & inside:
                        place(self._pieces[called], inside)
                for changer in changing.get(key, ()):
                    if key not in piece.changes or changer.definition.key < piece.definition.key:
                        place(changer, inside)  # changes of one name stay in the order of their file
            for key in sorted(piece.changes and self._reached(piece)):  # it may call all of these when it is executed
                place(self._pieces[key], inside)
            ordered[piece.definition.key] = piece

        for piece in sorted(self._pieces.values(), key=lambda item: (item is root, item.definition.key)):
            place(piece, frozenset())
        return list(ordered.values())
