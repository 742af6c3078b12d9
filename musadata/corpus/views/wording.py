"""One of several wordings for each thing that a review or a diagnosis says, drawn by the id of what it is about."""

import hashlib
from functools import cache
from pathlib import Path

import yaml


def choose(name: str, key: str, turn: int = 0, **values: str) -> str:
    """The same arguments give the same text; another `turn` gives another wording, as far as there are several."""
    wordings = _wordings()[name]
    return wordings[(_draw(f"{name}:{key}") + turn) % len(wordings)].format(**values)


def after_comma(sentence: str) -> str:
    """A sentence as the second half of another: "It compiles." -> "it compiles."."""
    return f"{sentence[:1].lower()}{sentence[1:]}"


def _draw(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4])


@cache
def _wordings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8"))
    return found
