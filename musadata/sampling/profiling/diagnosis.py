"""The words of a diagnosis: what limits the kernel, and the figures that show it."""

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from musadata.sampling.profiling import metrics as names
from musadata.sampling.profiling.kernel_code import KernelCode
from musadata.sampling.profiling.metrics import Counters
from musadata.sampling.profiling.problems import TILE, WAVEFRONT, Problem, find_problems

OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "/": operator.truediv,
    "-": operator.sub,
    "×": operator.mul,
}
_PLACE = re.compile(r"\{(\w+)(?: ([-/×]) (\w+)( %)?)?\}")
_MOST_PROBLEMS = 3


def write_diagnosis(counters: Counters, code: KernelCode) -> tuple[str, str]:
    """The kind of the first problem and the text; "" for both where the counters show none."""
    problems = find_problems(counters, code)[:_MOST_PROBLEMS] or _shared(counters, code)
    parts = []
    for number, problem in enumerate(problems):
        said = {part: fill(words, problem.values) for part, words in wordings()[problem.kind].items()}
        parts.append("**Also.** " + " ".join(said.values()) if number else _headed(said))
    return (problems[0].kind if problems else ""), "\n\n".join(parts)


def _headed(said: Mapping[str, str]) -> str:
    return "\n\n".join(f"**{part.capitalize()}.** {words}" for part, words in said.items())


def _shared(counters: Counters, code: KernelCode) -> list[Problem]:
    """Tiles whose traffic costs more than that of global memory, without conflicts."""
    sectors = counters.get(names.SECTORS)
    conflicts = sum(counters.get(names.conflicts_name(operation)) for operation in ("load", "store"))
    loads = counters.get(names.wavefronts_name("load"))
    if WAVEFRONT * loads > sectors and not conflicts and TILE.search(code.text):
        return [Problem("shared", 0.0, {"sectors": sectors, "wavefronts": loads, "conflicts": conflicts})]
    return []


def fill(wording: str, values: Mapping[str, Any]) -> str:
    """The wording with its values; "{a / b}" becomes "6 / 4 = 1.5", "{a / b %}" "1 / 4 = 25 %"."""

    def replace(found: re.Match[str]) -> str:
        left = values[found[1]]
        if not found[2]:
            return show(left) if isinstance(left, (int, float)) else str(left)
        right = values[found[3]]
        result = OPERATIONS[found[2]](left, right) * (100 if found[4] else 1)
        return f"{show(left)} {found[2]} {show(right)} = {show(result)}{found[4] or ''}"

    return _PLACE.sub(replace, wording)


def show(value: float) -> str:
    """A figure with two decimals at the most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


@cache
def wordings() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = yaml.safe_load(
        Path(__file__).with_name("diagnosis.yaml").read_text(encoding="utf-8")
    )
    return found
