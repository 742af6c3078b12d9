"""The tables of words in `lexicon.yaml` and of machine limits in `machine.yaml`."""

from importlib import resources
from typing import Any

import yaml


def _load(name: str) -> Any:
    return yaml.safe_load(resources.files(__package__).joinpath(name).read_text("utf-8"))


LEXICON: dict[str, Any] = _load("lexicon.yaml")
MACHINE: dict[str, Any] = _load("machine.yaml")
DTYPES: dict[str, str] = {word: dtype for dtype, words in LEXICON["dtypes"].items() for word in words}
# What a word calls: the aten operators that make such a tensor.
OPERATOR_WORDS: dict[str, tuple[str, ...]] = {
    word: tuple(operators.split()) for words, operators in LEXICON["operators"].items() for word in words.split()
}
FORMULA_NAMES = frozenset(LEXICON["formula_names"])
STOP_WORDS = frozenset(LEXICON["stop_words"])
LIMITS = frozenset(int(number) for numbers in MACHINE["limits"].values() for number in numbers)
