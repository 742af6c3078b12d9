"""Inputs of the shapes that docstrings and comments state, for given arguments of the constructor."""

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from musadata.mining.arguments.attempts import Draw, fields_of
from musadata.mining.arguments.input_shapes import draw_input, features_of, plain_input

BATCH = 3
LENGTHS = (18, 14, 10, 7)  # of dimensions with different names
SIDES = {"h": 16, "height": 16, "ih": 16, "w": 20, "width": 20, "iw": 20, "depth": 8}
FRAMES = 6
LARGEST = 512
FEATURES = re.compile(
    r"^(c|c_?in|d|e|f)\d?$|(^|_)[a-z]{0,3}(dims?|features?|feats?|hidden(_size)?|embed\w*|emb|channels?|chan|model)$"
    r"|^(in|input|hidden|embedding|feature)_|tag|class|vocab|^(?!.*(batch|seq|bat_)).*_size(_|$)"
)
KINDS = {"int": "2", "float": "0.5", "bool": "False"}


def documented_inputs(
    stated: Mapping[str, Mapping[str, Any]],
    init: tuple[str, ...],
    signature: inspect.Signature,
    forward: inspect.Signature,
    source: str,
) -> tuple[Draw, ...]:
    """Draws for the parameters of `forward` that have no default; () if nothing is stated of any.

    Args:
        stated: names -> `musadata.mining.reading.documented_shapes.Stated`s as plain dicts.
    """
    parameters = list(forward.parameters.values())
    required = [item for item in parameters if item.default is inspect.Parameter.empty and item.kind <= 1]
    if not any(item.name in stated for item in required):
        return ()
    scale = _Scale(_known(init, signature), features_of(init, signature))
    shapes = {name: scale.shape(tuple(item["sizes"])) for name, item in stated.items()}
    first = next((shapes[item.name] for item in required if shapes.get(item.name)), (BATCH, scale.width))
    draws = []
    for item in required:
        kind = stated.get(item.name, {}).get("kind", "")
        shape = shapes.get(item.name, first)
        if item.name in shapes and not shape:
            draws.append(Draw("literal", literal=KINDS.get(kind, "2"), dtype=""))
        elif kind in ("int", "bool") and item.name in shapes:
            draws.append(
                Draw("randint", shape, LENGTHS[0], "int64") if kind == "int" else Draw("bool", shape, 0, "bool")
            )
        else:
            draws.append(_stated_draw(item, shape, source) if item.name in shapes else _other(item, shape, source))
    return tuple(draws)


def _stated_draw(item: inspect.Parameter, shape: tuple[int, ...], source: str) -> Draw:
    """An input of this very shape; its name says how it is drawn."""
    drawn = draw_input(item.name, shape, source)
    return Draw(drawn.kind, shape, drawn.high, drawn.dtype) if len(drawn.shape) != len(shape) else drawn


def _other(item: inspect.Parameter, shape: tuple[int, ...], source: str) -> Draw:
    return plain_input(item) or draw_input(item.name, shape, source)


def _known(init: tuple[str, ...], signature: inspect.Signature) -> dict[str, int]:
    """The whole numbers among the constructor's arguments, given or by default, and in configurations."""
    found: dict[str, int] = {}
    for place, item in enumerate(signature.parameters.values()):
        text = init[place] if place < len(init) else repr(item.default)
        for name, value in {item.name: text, **(fields_of(text) if place < len(init) else {})}.items():
            found |= {_plain(name): int(value)} if value.isdigit() else {}
    return found


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


@dataclass
class _Scale:
    """The sizes of what shapes name: each name has one size in all shapes of a module."""

    known: Mapping[str, int]
    width: int
    chosen: dict[str, int] = field(default_factory=dict)

    def shape(self, sizes: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(max(1, min(LARGEST, self._value(text, place, sizes))) for place, text in enumerate(sizes))

    def _value(self, text: str, place: int, sizes: tuple[str, ...]) -> int:
        if text.isdigit():
            return int(text)
        if text.isidentifier():
            return self._named(text, place, sizes)
        return self._computed(ast.parse(text, mode="eval").body, place, sizes)

    def _computed(self, node: ast.expr, place: int, sizes: tuple[str, ...]) -> int:
        """The value of a sum or product of names and numbers."""
        if isinstance(node, ast.BinOp):
            left, right = (self._computed(item, place, sizes) for item in (node.left, node.right))
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            return left * right if isinstance(node.op, ast.Mult) else left // max(1, right)
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        return self._named(node.id, place, sizes) if isinstance(node, ast.Name) else self.width

    def _named(self, name: str, place: int, sizes: tuple[str, ...]) -> int:
        if _plain(name) in self.known:
            return self.known[_plain(name)]
        if name not in self.chosen:
            self.chosen[name] = self._choose(name.lower(), place, sizes)
        return self.chosen[name]

    def _choose(self, name: str, place: int, sizes: tuple[str, ...]) -> int:
        others = {text.lower() for text in sizes}
        if name in SIDES and {"w", "width", "iw"} & others:
            return SIDES[name]
        if place == 0 and (len(name) == 1 or re.match(r"b(atch|s$|_s$)|n_|num", name)):
            return BATCH
        if place == 1 and {"w", "width", "iw"} & others and name not in ("t", "n", "l"):
            return self.width
        if FEATURES.search(name) or (place == len(sizes) - 1 > 0 and not re.search(r"len|^[tnlsk]\d?$|seq|num", name)):
            return self.width
        if name == "t" and len(sizes) > 3:
            return FRAMES
        taken = set(self.chosen.values())
        return next((size for size in LENGTHS if size not in taken), LENGTHS[-1])
