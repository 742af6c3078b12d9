"""The tables of `lexicon.yaml`, words and limits of machines, and those of `rules.yaml`."""

import re
from importlib import resources
from typing import Any

import yaml


def _load(name: str) -> Any:
    return yaml.safe_load(resources.files(__package__).joinpath(name).read_text("utf-8"))


LEXICON: dict[str, Any] = _load("lexicon.yaml")
MACHINE: dict[str, Any] = LEXICON["machine"]
RULES: dict[str, Any] = _load("rules.yaml")
RULES["words"]["dimension"] = "|".join(sorted(LEXICON["dimensions"], key=len, reverse=True))
DTYPES: dict[str, str] = {word: dtype for dtype, words in LEXICON["dtypes"].items() for word in words}
# What a word calls: the aten operators that make such a tensor.
OPERATOR_WORDS: dict[str, tuple[str, ...]] = {
    word: tuple(operators.split()) for words, operators in LEXICON["operators"].items() for word in words.split()
}
FORMULA_NAMES = frozenset(LEXICON["formula_names"])
STOP_WORDS = frozenset(LEXICON["stop_words"])
LIMITS = frozenset(int(number) for numbers in MACHINE["limits"].values() for number in numbers)

_AXIS_WORD = "|".join(LEXICON["axes"])
AXIS_WORDS = re.compile(
    rf"\b(?P<one>{_AXIS_WORD})(?: (?!reduced)[a-z]+)? "
    r"(?:axis|dimension|dim|index|indices|ids?|stride|query|key|coordinate)\b"
    rf"|\b(?:next|consecutive|neighbou?ring|adjacent|successive|one) (?:[a-z]+ )?(?P<two>{_AXIS_WORD})s?\b"
    rf"|\b(?P<three>{_AXIS_WORD}) stride"
)


def axes_in(words: str) -> list[int]:
    """The axes that the first such words may mean; none if there are no such words."""
    found = AXIS_WORDS.search(words)
    axes: dict[str, list[int]] = LEXICON["axes"]
    return axes[found["one"] or found["two"] or found["three"]] if found else []


def expand(text: str) -> str:
    """A pattern with its `{words}` filled in."""
    words: dict[str, str] = RULES["words"]
    while match := re.search(r"\{([a-z_]+)\}", text):
        text = text.replace(match[0], f"(?:{words[match[1]]})")
    return text


class _Words:
    """The patterns of `rules.yaml` by their names, each compiled when it is first asked for."""

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name not in RULES["patterns"]:
            raise AttributeError(name)
        found = re.compile(expand(RULES["patterns"][name]))
        setattr(self, name, found)
        return found


WORDS = _Words()
