"""The text before a candidate: what was done, and for a repair what the feedback said, the cause and the change."""

import re
from collections import defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import yaml

from musadata.compiler.emission.candidate import Candidate
from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.faults import FaultKind
from musadata.compiler.ir.code import Binary, Construct, Declare, Loop, Name, Number, of_kind
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index
from musadata.compiler.ir.scalar import Added, Load
from musadata.compiler.ir.schedule import WORDS as SCHEDULES
from musadata.compiler.ir.schedule import Bind, Stage, Tile
from musadata.compiler.lowering.fusion import Kernel
from musadata.compiler.lowering.fusion import Stage as KernelStage

_LONGEST_CHANGE = 320  # characters; longer ones are seen better in the programs themselves
_MOST_READS = 6  # names of tensors in one sentence
WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("explanation.yaml").read_text(encoding="utf-8"))


def describe(candidate: Candidate) -> str:
    """A short account of an honest candidate."""
    kernels = candidate.kernels
    lines = []
    distinct = {emitted.kernel.name: emitted for emitted in reversed(kernels)}
    works = {name: _work(emitted.kernel) for name, emitted in reversed(distinct.items())}
    if len(kernels) == 1:
        lines.append(f"One kernel does it all: {works.popitem()[1]}.")
    else:
        times = {name: f", launched {text}" for name, text in repeated_launches(kernels).items()}
        told = [f"`{name}`{times.get(name, '')}: {work}." for name, work in works.items()]
        listed = "\n".join(f"{i}. {text}" for i, text in enumerate(told[:12], 1))
        more = f"\n\nand {len(told) - 12} more of the same kinds." if len(told) > 12 else ""
        lines.append(f"I use {len(told)} kernel{'s' * (len(told) > 1)}:\n\n{listed}{more}")
    return "\n\n".join([*lines, _schedules(kernels), *_sizes(candidate)])


def repeated_launches(kernels: Sequence[EmittedKernel]) -> dict[str, str]:
    """How often the host launches those kernels that it launches more than once, by name: `12 times`."""
    total: defaultdict[str, Index] = defaultdict(lambda: ZERO)
    for emitted in kernels:
        total[emitted.kernel.name] += emitted.kernel.steps.count if emitted.kernel.steps else ONE
    texts = {name: Printer().index(count).text for name, count in total.items() if count != ONE}
    return {name: f"{text if text.isdigit() else f'`{text}`'} times" for name, text in texts.items()}


def _schedules(kernels: Sequence[EmittedKernel]) -> str:
    """What each schedule does, and where they differ, in which kernels."""
    texts: dict[str, list[str]] = {}
    for emitted in kernels:
        names = texts.setdefault(_schedule(emitted, kernels), [])
        if (name := f"`{emitted.kernel.name}`") not in names:
            names.append(name)
    if len(texts) == 1:
        return next(iter(texts))
    few = {
        text: names if len(names) <= _MOST_READS else [*names[:4], f"{len(names) - 4} more"]
        for text, names in texts.items()
    }
    return "\n".join(f"- {_listed(names)}: {text}" for text, names in few.items())


def _schedule(one: EmittedKernel, kernels: Sequence[EmittedKernel]) -> str:
    """What a schedule does, how often tiles read the operands, and what becomes of rows that the threads cannot hold at
    once, if there can be such rows."""
    schedule, words = one.schedule, SCHEDULES[one.schedule.steps]
    is_tiled = schedule.find(Tile) and schedule.find(Stage) and not schedule.find(Bind)
    if is_tiled and (counts := _tile_counts(one)):
        long, short = counts
        reads = "one" if short == 1 else "several" if short and (not long or short < long) else "unknown"
        return f"{words} {WORDS['operands'][reads].format(tiles=short)}"
    if not schedule.find(Stage, "inner"):
        return words
    alike = [emitted.function for emitted in kernels if emitted.schedule == schedule]
    in_pieces = any(loop.name == "start" for loop in of_kind(tuple(alike), Loop))
    return f"{words} {WORDS['rows']['longer' if in_pieces else 'fitting']}"


def _tile_counts(one: EmittedKernel) -> tuple[int, int] | None:
    """How many tiles there are along a grid's x and y, 0 for a number that follows from sizes; None where another
    axis lies beside one of them."""
    [grid] = [made for made in of_kind(one.host.setup, Construct) if made.name == Name("blocks")]
    sides = grid.arguments[:2]
    if not all(isinstance(side, Number) or (isinstance(side, Binary) and side.sign == "/") for side in sides):
        return None
    x, y = (side.value or 0 if isinstance(side, Number) else 0 for side in sides)
    return x, y


def _sizes(candidate: Candidate) -> list[str]:
    """Which sizes the kernels take as arguments and which are literals: a sentence or two, or none."""
    graph = candidate.graph
    passed = [f"`{o.name}`" for o in graph.sizes if o.formula is None and o.name in candidate.host.sizes]
    fixed = [
        f"{size.constant} along axis {axis} of `{item.name}`"
        for item in graph.inputs
        if item.role == "argument"
        for axis, size in enumerate(item.type.shape)
        if size.constant not in (None, 1)
    ]
    given = [f"`{o.name}`" for o in graph.sizes if o.attribute and o.name in candidate.host.numbers]
    text = f"The host reads {_listed(passed)} from the tensors" if passed else ""
    if fixed and len(fixed) <= _MOST_READS:
        check = f"checks the size{'s' if len(fixed) > 1 else ''} that the kernels take for granted: {_listed(fixed)}"
        text = f"{text} and {check}" if text else f"The host {check}"
    module = f"The module passes {_listed(given)}." if 0 < len(given) <= _MOST_READS else ""
    return [" ".join(filter(None, (f"{text}." if text else "", module)))] if text or module else []


def _work(kernel: Kernel) -> str:
    """What a kernel computes of what, by the graph's names."""
    stores = list(dict.fromkeys(f"`{store.buffer.name}`" for store in kernel.stores))
    if kernel.scans:
        results = [f"`{stage.local}` ({WORDS['scans'][stage.kind]})" for stage in kernel.scans]
        made = f"it makes {_listed(results)}{_reading('of', kernel.scans)} along axis {kernel.scans[0].place}"
        return f"{made}, then writes {_listed(stores)}{_reading('from it and', kernel.stores)}" if stores else made
    if any(isinstance(store.value, Added) for store in kernel.stores):
        return f"it adds to `{kernel.stores[0].buffer.name}` by atomics{_reading('what it makes from', kernel.stores)}"
    if not kernel.reductions:
        return f"it computes {_listed(stores)}{_reading('from', kernel.stores)}, element by element"
    results = [f"`{stage.local}` ({WORDS['reductions'][stage.kind]})" for stage in kernel.reductions]
    plain = any(isinstance(stage.value, Load) or stage.contraction for stage in kernel.reductions)
    word = "of" if plain else "of terms made from"
    made = f"it makes {_listed(results)}{_reading(word, kernel.reductions)}"
    whence = f"from {'it' if len(results) == 1 else 'them'}{_reading('and', kernel.stores)}"
    return f"{made}, then writes {_listed(stores)} {whence}" if stores else made


def _reading(word: str, stages: Sequence[KernelStage]) -> str:
    """What stages read from memory, after `word`; empty if they read nothing or too much for a sentence."""
    names = dict.fromkeys(f"`{load.buffer.name}`" for stage in stages for load in stage.value.loads)
    return f" {word} {_listed(list(names))}" if 0 < len(names) <= _MOST_READS else ""


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def explain_repair(feedback: str, fixed: FaultKind | None, before: Candidate, after: Candidate) -> str:
    """Why the last answer, `before`, failed, and what is different in `after`."""
    reported = _reported(feedback)
    if fixed is None:
        return f"{reported} I cannot place that in the kernels, so I write them anew. {describe(after)}"
    changes = _changes(before.source, after.source)
    return f"{reported} The cause: {_cause(fixed, before, after)}. Now {fixed.mend}{changes}."


def _cause(fixed: FaultKind, before: Candidate, after: Candidate) -> str:
    """What was wrong, with the name and the values of the size that changed where the kind has words for it."""
    if not fixed.cause_of_size:
        return fixed.cause
    pairs = zip(of_kind(before.parts, Declare), of_kind(after.parts, Declare), strict=True)
    changed = [(old, new) for old, new in pairs if old != new]
    if len(changed) != 1:
        return fixed.cause
    ((old, new),) = changed
    return fixed.cause_of_size.format(name=old.name, old=old.value, new=new.value)


def _changes(before: str, after: str) -> str:
    """A colon and the lines that differ, old and new; empty if they are too many."""
    old, new = ([line.strip() for line in text.splitlines()] for text in (before, after))
    parts = []
    for kind, first, last, start, end in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        removed, added = _quoted(old[first:last]), _quoted(new[start:end])
        if kind == "equal" or not (added or removed):
            continue
        if added:
            parts.append(f"{added} instead of {removed}" if removed else f"{added} comes in")
        else:
            parts.append(f"{removed} is gone")
    text = ": " + ", and ".join(parts)
    return text if parts and len(text) <= _LONGEST_CHANGE else ""


def _quoted(lines: list[str]) -> str:
    return " ".join(f"`{line}`" for line in lines if line.strip("{} "))


def _reported(feedback: str) -> str:
    """What the verifier reported, in one sentence that quotes its first finding."""
    opening = next(
        (opening for phrase, opening in WORDS["openings"].items() if phrase in feedback), "The answer was not accepted"
    )
    finding = next((line[2:].strip() for line in feedback.splitlines() if line.startswith("- ")), "")
    if not finding:
        return f"{opening}."
    short = finding if len(finding) <= 160 else finding[:157].rsplit(" ", 1)[0] + " …"
    return f"{opening}: “{re.sub(r'[.]$', '', short)}”."
