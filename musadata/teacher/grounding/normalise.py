"""Text of language models in one notation: no Markdown, no LaTeX, figures in digits. Linear in the text's length."""

import re
import unicodedata
from typing import Any

from musadata.teacher.grounding.lexicon import LEXICON

NOTATION: dict[str, Any] = LEXICON["notation"]

_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SUPERSCRIPT = re.compile(f"[{''.join(NOTATION['superscripts'])}]+")
_CHARACTERS = str.maketrans(NOTATION["characters"])
_SUPERSCRIPTS = str.maketrans(NOTATION["superscripts"])
_NUMBER_WORD = "|".join([*NOTATION["small"], *NOTATION["tens"], *NOTATION["large"]])
_NUMBER_WORDS = re.compile(
    rf"(?<![\w.-])(?:(?:an?|half an?)\s(?=(?:dozen|hundred|thousand|million|billion)\b))?"
    rf"(?:{_NUMBER_WORD})(?:(?:[ -]|\sand\s)(?:{_NUMBER_WORD})){{0,12}}\b(?![-]?(?:th|st|nd|rd)\b)",
    re.IGNORECASE,
)
_LARGE_AFTER_DIGITS = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)[ -]?(thousand|million|billion|trillion|k)\b(?!\w)", re.IGNORECASE
)
_JOINED = [(re.compile(rf"\b{words}\b", re.IGNORECASE), joined) for words, joined in NOTATION["joined"].items()]
_UNITS = r"(?:(?!(?:and|or|is|of|to|in|by|with|for|at|a|the|plus|minus|times|are|so|if) )[A-Za-z][\w-]* ){1,3}"
_DIGITS = 18  # longer numbers are no figure of a trace

# How a pattern begins, and the character without which it matches nothing.
_SIGNS = {r"\\": "\\", "√": "√", r"\$": "$", r"\{": "{", r"\^": "^"}
_REWRITES = tuple(
    (
        re.compile(pattern, flags),
        replacement,
        next((sign for beginning, sign in _SIGNS.items() if pattern.startswith(beginning)), ""),
    )
    for pattern, replacement, flags in (
        (r"\\[dt]?frac\s?\{([^{}]{1,80})\}\s?\{([^{}]{1,80})\}", r"(\1)/(\2)", 0),
        (
            r"\\(?:text|mathrm|mathbf|mathit|mathtt|texttt|operatorname|textbf|lvert|boldsymbol)\s?\{([^{}]{0,80})\}",
            r"\1",
            0,
        ),
        (r"\\sqrt\s?\{([^{}]{1,40})\}", r"sqrt(\1)", 0),
        (r"√\s?(\d+(?:\.\d+)?(?:e-?\d+)?)", r"sqrt(\1)", 0),
        (r"√\s?(?=\()", "sqrt", 0),
        (r"\\[,;:! ]", " ", 0),
        (r"\{,\}", ",", 0),
        (r"\\([_%#&${}])", r"\1", 0),
        (r"\\[()\[\]]", " ", 0),
        (r"\\(?:left|right|[bB]igg?[lr]?)\b\s?", "", 0),
        (r"\$", " ", 0),
        (r"\^\s?\{(-?\d{1,6})\}", r"^\1", 0),
        (r"(?<=[\w)])\*\*(?=[\d(])(?![^\n*]{0,60}[a-z]\*\*)", "^", 0),  # a power, not bold type
        (r"\*\*|__(?=[A-Z ])|(?<=[a-z.])__(?=[\s.,:])", "", 0),
        (r"(?<![\w)\]*] )(?<![\w)\]*])\*(?=[^\s*])([^*\n]{1,80})(?<=[^\s*])\*(?![\w(])", r"\1", 0),  # italics
        (r"(?m)^[ \t]*(?:#{1,6}|[-*+•]|\d{1,2}[.)]|>)[ \t]+", "", 0),
        (r"(?<=\d)[ _](?=\d{3}(?:[ _]\d{3})*\b(?![\w.]*[×x*]))(?<=\b\d[ _])", "", 0),
        (r"(?<=\d)_(?=\d)", "", 0),
        (r"(?<![\w.,(\[])(\d{1,3}(?:,\d{3})+)(?!\w|,\d|\.\d)", None, 0),  # thousands, not in tuples
        (r"(?<=[(\[])(\d{1,3}(?:,\d{3})+)(?=\s?(?:[A-Za-z*/+=<>~%-]|\d))", None, 0),
        (r"(?<![=+*/-] )\b(\d+) by (?=\d)", r"\1 * ", 0),  # not of two results, "96/16 = 6 by 2"
        (r"\b(ln|log2|sqrt|exp) (\d+(?:\.\d+)?)\b", r"\1(\2)", 0),
        (r"(?<=\d)\s?x\s?(?=\d)", " * ", re.IGNORECASE),
    )
)
# Words in a product, "64 outputs * 27 taps * 2 = 3456", when all figures are in digits; a count of floats and their
# bytes are no equation.
_IN_PRODUCT = re.compile(rf"(?<=\d) {_UNITS}(?=\* ?[\d(])")
_BEFORE_RESULT = re.compile(
    rf"(?P<last>\* ?\d+(?:\.\d+)?) {_UNITS}(?==\s?[\d.]+)(?!=\s?[\d.]+(?:e\d+)?\s?(?:[kKMG]i?)?(?:B\b|[bB]ytes))"
)
_TIMES = re.compile(r"(?<=\d) (?:times|multiplied by) (?=\d)")


def normalise(text: str) -> str:
    """The text without code blocks, in the notation of figures that `reading` knows."""
    text = _CODE.sub("\n", text)
    text = _SUPERSCRIPT.sub(lambda match: "^" + match[0].translate(_SUPERSCRIPTS), text)
    text = text.translate(_CHARACTERS)
    text = unicodedata.normalize("NFKC", text).translate(_CHARACTERS)
    text = re.sub(r"\b0x([0-9a-fA-F]{1,12})\b", lambda match: str(int(match[1], 16)), text)
    text = re.sub(r"\d{19,}", "9" * _DIGITS, text)
    text = re.sub(r"(?<=\d)\s?(?:–|\.{2,3})\s?(?=\d)", " to ", text).replace("–", " - ")
    for pattern, replacement, sign in _REWRITES:
        if sign and sign not in text:
            continue
        text = pattern.sub(_join_digits if replacement is None else replacement, text)
    text = re.sub(r"(?<=\w)'s\b", "", text)
    for words, joined in _JOINED:
        text = words.sub(joined, text)
    text = re.sub(r"\\([A-Za-z]+)", lambda match: NOTATION["latex"].get(match[1], " "), text)
    text = _NUMBER_WORDS.sub(lambda match: _digits(match[0]), text)
    text = _TIMES.sub(" * ", _LARGE_AFTER_DIGITS.sub(_scaled, text))
    return _BEFORE_RESULT.sub(r"\g<last> ", _IN_PRODUCT.sub(" ", text))


def _join_digits(match: re.Match[str]) -> str:
    return match[0].replace(",", "")


def _digits(words: str) -> str:
    """Digits of "two hundred and fifty-six" and "a million"."""
    total = group = 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word == "half":
            return words
        if word in NOTATION["small"]:
            group = group * 12 if word == "dozen" and group else group + NOTATION["small"][word]
        elif word in NOTATION["tens"]:
            group += NOTATION["tens"][word]
        elif word in NOTATION["large"]:
            factor = NOTATION["large"][word]
            group = max(group, 1) * factor
            if factor > 100:
                total, group = total + group, 0
    return str(min(total + group, 10**_DIGITS - 1))


def _scaled(match: re.Match[str]) -> str:
    """Digits and a word keep their precision: "1.5 million" is "1.5e6"."""
    power = {"k": 3, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}[match[2].lower()]
    return f"{match[1]}e{power}"
