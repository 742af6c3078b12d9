"""Corrections of what kind of thing an argument is: a layer, a loss or an object with the attributes that are read."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from torch import nn

from musadata.mining.arguments.attempts import Attempt
from musadata.mining.arguments.guesses import guess_config
from musadata.mining.arguments.repairs.parameters import Parameters
from musadata.mining.messages import Said
from musadata.mining.reading.dotted_names import is_own

GUESSED = {"int", "float", "str", "bool", "tuple", "NoneType", "Identity", "Linear", "ReLU"}  # kinds of guesses
# Of which modules are made that take one apart.
LAYERS = (
    "nn.Linear(24, 24)",
    "nn.Conv2d(24, 24, 3, padding=1)",
    "nn.BatchNorm2d(24)",
    "nn.LayerNorm(24)",
    "nn.Embedding(50, 24)",
    "nn.LSTM(24, 24)",
    "nn.MultiheadAttention(24, 4)",
    "nn.BCEWithLogitsLoss()",
)


def repair_kinds(attempt: Attempt, error: str, known: Parameters) -> Iterator[Attempt]:
    """Variants in which an argument that lacks an attribute is a layer, or an object, that has all which are read."""
    lacking = Said.ATTRIBUTE.read(error)
    name = (lacking["name"] or "") if lacking and lacking["holder"] in GUESSED else ""
    for place, item in enumerate(known.init[: len(attempt.init)]) if name else ():
        read = attributes_read(known.source, item.name)
        texts = [text for text in LAYERS if name in read and read <= _attributes_of(text)]
        if name in known.facts.reads(item.name):
            texts.append(guess_config(item.name, known.facts, 0, sure=True))
        for text in filter(None, texts):
            yield replace(attempt, init=(*attempt.init[:place], text, *attempt.init[place + 1 :]))


@lru_cache(maxsize=16)
def _attributes_of(text: str) -> frozenset[str]:
    return frozenset(dir(eval(text, {"nn": nn})))


@lru_cache(maxsize=64)
def attributes_read(source: str, name: str) -> frozenset[str]:
    """The attributes that code reads from a constructor's parameter."""
    owners = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    nodes = (node for owner in owners for node in ast.walk(owner))
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute) and is_own(node.value, name))
