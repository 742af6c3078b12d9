"""The problems of a benchmark: Python files with `Model`, `get_inputs` and `get_init_inputs`, by level."""

import re
from dataclasses import dataclass
from pathlib import Path

from musadata.errors import MusadataError

_LEVEL = re.compile(r"level_?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """One file. `name` is its path inside the checkout; `level` is 0 where no folder says it."""

    name: str
    level: int
    reference: str


def read_problems(folder: Path, levels: tuple[int, ...] = (), limit: int = 0) -> list[Problem]:
    """The problems below a folder, in the order of their levels and numbers; the first `limit` of each level, if given.

    Raises:
        MusadataError: there is no such folder, or no problem in it.
    """
    if not folder.is_dir():
        raise MusadataError("is not a folder", where=str(folder), remedy="name a benchmark's checkout")
    found = []
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8", errors="replace")
        name = path.relative_to(folder).as_posix()
        if re.search(r"^class Model\b", text, re.MULTILINE) and re.search(r"^def get_inputs\b", text, re.MULTILINE):
            level = int(match[1]) if (match := _LEVEL.search(f"{folder.name}/{name}")) else 0
            if not levels or level in levels:
                found.append(Problem(name, level, text))
    if not found:
        raise MusadataError(
            "holds no problem (class Model, get_inputs)", where=str(folder), remedy="name a checkout, or other --levels"
        )
    found.sort(
        key=lambda one: (one.level, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", one.name)])
    )
    if limit:
        found = [
            one for one in found if [other.name for other in found if other.level == one.level].index(one.name) < limit
        ]
    return found
