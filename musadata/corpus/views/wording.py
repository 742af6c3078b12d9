"""One of several wordings for each thing that a review or a diagnosis says, drawn by the id of what it is about."""

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml


def choose(name: str, key: str, turn: int = 0, **values: str) -> str:
    """The same arguments give the same text; another `turn` gives another wording, as far as there are several."""
    wordings = _wordings()[name]
    return str(wordings[(_draw(f"{name}:{key}") + turn) % len(wordings)].format(**values))


def after_comma(sentence: str) -> str:
    """A sentence as the second half of another: "It compiles." -> "it compiles."."""
    return f"{sentence[:1].lower()}{sentence[1:]}"


def draw_points(source: str, key: str, count: int, said: str) -> str:
    """Up to `count` sentences on lines of a right program that its operators hang on, and that are not in `said`, in an
    order drawn by the key."""
    found = []
    for number, point in enumerate(_wordings()["hinges"]):
        match = re.search(point["pattern"], source)
        if match and (quoted := match.group(0).strip(" ={")) not in said:
            rank = _draw(f"{key}:hinges:{number}")
            found.append(
                (point.get("tier", 0), rank, point["says"][rank % len(point["says"])].format(quote=f"`{quoted}`"))
            )
    return " ".join(sentence for *_, sentence in sorted(found)[:count])


def _draw(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4])


@cache
def _wordings() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = yaml.safe_load(Path(__file__).with_name("wording.yaml").read_text(encoding="utf-8"))
    return found
