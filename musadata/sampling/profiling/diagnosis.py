"""The words of a diagnosis: what limits the kernel, the figures that show it, and the change that would help."""

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from musadata.sampling.profiling import metrics as names
from musadata.sampling.profiling.kernel_code import KernelCode
from musadata.sampling.profiling.metrics import Counters
from musadata.sampling.profiling.problems import TILE, WAVEFRONT, Problem, find_few, find_problems, find_small

OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "/": operator.truediv,
    "-": operator.sub,
    "×": operator.mul,
}
_PLACE = re.compile(r"\{(\w+)(?: ([-/×]) (\w+)( %)?)?\}")
_MOST_PROBLEMS = 3
_SAY_SO = ("serial", "surplus_in_one", "idle_in_one", "exchange_in_one")  # that the launch is small
_CACHED = ("repeated", "tiles")
_CLEAN = 1.5  # times the different sectors, up to which traffic is what the operation needs


def write_diagnosis(counters: Counters, code: KernelCode, random: Random) -> tuple[str, str]:
    """The kind of the first problem ("clean" and "light" for none), and the text."""
    problems = find_problems(counters, code)[:_MOST_PROBLEMS]
    small = find_small(counters)
    if small and small.kind == "small" and all(one.kind in _CACHED for one in problems):
        problems = []  # of a launch that is over soon, the cache has what is read again
    first, *others = problems or [_no_problem(counters, code)]
    few = find_few(counters) if problems else None
    if any(one.kind.startswith(_SAY_SO) for one in problems):
        few = None
    change = _word(first, "change", random)
    parts = [
        *([f"**Size.** {_word(few, 'evidence', random)} {_word(few, 'change', random)}"] if few else []),
        f"**Bottleneck.** {_word(first, 'bottleneck', random)}",
        f"**Evidence.** {_word(first, 'evidence', random)} {_say_what_is_fine(counters, [first, *others])}".rstrip(),
        f"**Change.** {wordings()['few']['before'][0] if few else ''}{change}",
    ]
    for other in others:
        parts.append(
            "**Also.** " + " ".join(_word(other, part, random) for part in ("bottleneck", "evidence", "change"))
        )
    return first.kind, "\n\n".join(parts)


def _no_problem(counters: Counters, code: KernelCode) -> Problem:
    sectors, different = counters.get(names.SECTORS), counters.get(names.DIFFERENT)
    conflicts = sum(counters.get(names.conflicts_name(operation)) for operation in ("load", "store"))
    loads = counters.get(names.wavefronts_name("load"))
    values = {"sectors": sectors, "least": counters.get(names.LEAST_SECTORS), "different": different}
    if small := find_small(counters):
        return Problem(small.kind, 0.0, small.values | values)
    if WAVEFRONT * loads > sectors and not conflicts and TILE.search(code.text):
        return Problem("shared", 0.0, {"sectors": sectors, "wavefronts": loads, "conflicts": conflicts})
    return Problem("clean" if sectors <= _CLEAN * different else "light", 0.0, values)


def _word(problem: Problem, part: str, random: Random) -> str:
    return fill(random.choice(wordings()[problem.kind][part]), _with_derived(problem.values))


def _with_derived(values: dict[str, Any]) -> dict[str, Any]:
    """With figures that wordings derive before they use them."""
    more: dict[str, Any] = {"warp": names.WARP}
    if "operation" in values:
        more["operation_name"] = values["operation"].capitalize()
    if "conflicts" in values:
        more["conflict_free"] = values["wavefronts"] - values["conflicts"]
    if "resident" in values:
        more["occupied"] = values["resident"] * values["warps"]
    return more | values


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


def _say_what_is_fine(counters: Counters, problems: list[Problem]) -> str:
    """What a reader would ask about next, where it is in order."""
    kinds = {problem.kind.partition("_")[0] for problem in problems}
    said = []
    wavefronts, conflicts = (
        sum(counters.get(name(operation)) for operation in ("load", "store"))
        for name in (names.wavefronts_name, names.conflicts_name)
    )
    if wavefronts and not conflicts and not kinds & {"conflicts", "shared"}:
        loads = counters.get(names.wavefronts_name("load"))
        said.append(fill(wordings()["fine"]["conflicts"][0], {"wavefronts": loads, "conflicts": conflicts}))
    requests, divergent = counters.get(names.REQUESTS), counters.get(names.DIVERGENT)
    if requests and not divergent and "divergent" not in kinds:
        said.append(fill(wordings()["fine"]["divergence"][0], {"divergent": divergent, "requests": requests}))
    return " ".join(said)


@cache
def wordings() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = yaml.safe_load(
        Path(__file__).with_name("diagnosis.yaml").read_text(encoding="utf-8")
    )
    return found
