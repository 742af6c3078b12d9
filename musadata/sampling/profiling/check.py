"""Checks that every figure of a diagnosis is in its counters, or is arithmetic on them that is shown and right."""

import re
from collections.abc import Iterable, Iterator

from musadata.sampling.profiling import metrics as names
from musadata.sampling.profiling.diagnosis import OPERATIONS, show
from musadata.sampling.profiling.metrics import Counters, Pointer

# What the prompt says of the device and of its units.
DEVICE_FIGURES = (names.WARP, names.SECTOR, names.MULTIPROCESSORS, names.SM_WARPS, names.SM_BLOCKS, names.SM_SHARED)

_CODE = re.compile(r"`([^`]*)`")
_SENTENCE = re.compile(r"(?<=[.:;!?])\s+")
_FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")
_EQUATION = re.compile(r"(\d+(?:\.\d+)?) ([-/×]) (\d+(?:\.\d+)?) = (\d+(?:\.\d+)?)( %)?")


def check_diagnosis(text: str, counters: Counters) -> list[str]:
    """What is wrong with a diagnosis, in sentences; nothing if all of its figures agree with the counters.

    A sentence that names one of the kernel's pointers may only state figures of that pointer, of the whole launch where
    it computes with them, or results of earlier equations. Code in backticks is not looked at.
    """
    problems: list[str] = []
    results: set[str] = set()
    for sentence in (part for line in text.splitlines() for part in _SENTENCE.split(line)):
        named = set(_CODE.findall(sentence))
        bare = _CODE.sub("``", sentence)
        known = set(map(show, _figures_for(counters, named))) | results
        for equation in _EQUATION.finditer(bare):
            problems += _check_equation(equation, known)
            results.add(equation[4])
            known.add(equation[4])
        problems += [
            f"{figure} is not in the counters: {sentence}" for figure in _list_figures(bare) if figure not in known
        ]
    return problems


def _check_equation(equation: re.Match[str], known: set[str]) -> Iterator[str]:
    left, sign, right, result, percent = equation.groups()
    for operand in (left, right):
        if operand not in known:
            yield f"{operand} is not in the counters: {equation[0]}"
    if sign == "/" and float(right) == 0:
        yield f"division by zero: {equation[0]}"
    elif show(OPERATIONS[sign](float(left), float(right)) * (100 if percent else 1)) != result:
        yield f"wrong arithmetic: {equation[0]}"


def _list_figures(text: str) -> Iterable[str]:
    return (found.replace(",", "") for found in _FIGURE.findall(text))


def _figures_for(counters: Counters, named: set[str]) -> Iterator[float]:
    pointers = [one for one in counters.pointers if one.name in named]
    yield from DEVICE_FIGURES
    if not pointers:
        yield from counters.metrics.values()
        yield from (*counters.grid, *counters.block)
    else:
        yield counters.get(names.SECTORS)
    for one in pointers or counters.pointers:
        yield from figures_of(one)


def figures_of(pointer: Pointer) -> tuple[int, ...]:
    return pointer.requests, pointer.lanes, pointer.sectors, pointer.least_sectors, pointer.different_sectors
