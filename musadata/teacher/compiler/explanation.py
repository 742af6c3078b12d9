"""The text before a candidate: what was done, and for a repair what the feedback said, the cause and the change."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import yaml

from musadata.teacher.compiler.emission.candidate import Candidate
from musadata.teacher.compiler.faults import FaultKind
from musadata.teacher.compiler.ir.scalar import Added, Load
from musadata.teacher.compiler.lowering.fusion import Kernel, Stage

_LONGEST_CHANGE = 320  # characters; longer ones are seen better in the programs themselves
_MOST_READS = 6  # names of tensors in one sentence
WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("explanation.yaml").read_text(encoding="utf-8"))


def describe(candidate: Candidate) -> str:
    """A short account of an honest candidate."""
    kernels = candidate.kernels
    lines = []
    launches = Counter(emitted.kernel.name for emitted in kernels)
    distinct = list({emitted.kernel.name: emitted.kernel for emitted in reversed(kernels)}.values())[::-1]
    if len(kernels) == 1:
        lines.append(f"One kernel does it all: {_work(distinct[0])}.")
    else:
        times = {name: f", launched {many} times" if many > 1 else "" for name, many in launches.items()}
        listed = "\n".join(f"{i}. `{k.name}`{times[k.name]}: {_work(k)}." for i, k in enumerate(distinct[:12], 1))
        more = f"\n\nand {len(distinct) - 12} more of the same kinds." if len(distinct) > 12 else ""
        lines.append(f"I use {len(distinct)} kernel{'s' * (len(distinct) > 1)}:\n\n{listed}{more}")
    lines.append(" ".join(WORDS["schedules"][name] for name in dict.fromkeys(e.schedule for e in kernels)))
    return "\n\n".join([*lines, *_sizes(candidate)])


def _sizes(candidate: Candidate) -> list[str]:
    """Which sizes the kernels take as arguments and which are literals: a sentence or two, or none."""
    graph = candidate.graph
    passed = [f"`{o.name}`" for o in graph.sizes if o.formula is None and f"const int {o.name} =" in candidate.source]
    fixed = [
        f"{size.constant} along axis {axis} of `{item.name}`"
        for item in graph.inputs
        if item.role == "argument"
        for axis, size in enumerate(item.type.shape)
        if size.constant not in (None, 1)
    ]
    given = [f"`{o.name}`" for o in graph.sizes if o.attribute and f" int {o.name}" in candidate.source]
    text = f"The host reads {_listed(passed)} from the tensors" if passed else ""
    if fixed and len(fixed) <= _MOST_READS:
        check = f"checks the size{'s' if len(fixed) > 1 else ''} that the kernels take for granted: {_listed(fixed)}"
        text = f"{text} and {check}" if text else f"The host {check}"
    module = f"The module passes {_listed(given)}." if 0 < len(given) <= _MOST_READS else ""
    return [" ".join(filter(None, (f"{text}." if text else "", module)))] if text or module else []


def _work(kernel: Kernel) -> str:
    """What a kernel computes of what, by the graph's names."""
    stores = [f"`{store.buffer.name}`" for store in kernel.stores]
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
    word = "of" if plain else "of values that it computes on the way from"
    made = f"it makes {_listed(results)}{_reading(word, kernel.reductions)}"
    whence = f"from {'it' if len(results) == 1 else 'them'}{_reading('and', kernel.stores)}"
    return f"{made}, then writes {_listed(stores)} {whence}" if stores else made


def _reading(word: str, stages: Sequence[Stage]) -> str:
    """What stages read from memory, after `word`; empty if they read nothing or too much for a sentence."""
    names = dict.fromkeys(f"`{load.buffer.name}`" for stage in stages for load in stage.value.loads)
    return f" {word} {_listed(list(names))}" if 0 < len(names) <= _MOST_READS else ""


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def explain_repair(feedback: str, fixed: FaultKind | None, candidate: Candidate, before: str, after: str) -> str:
    """Why the last answer, `before`, failed, and what is different in `after`."""
    reported = _reported(feedback)
    if fixed is None:
        return f"{reported} I cannot place that in the kernels, so I write them anew. {describe(candidate)}"
    return f"{reported} The cause: {fixed.cause}. Now {fixed.mend}{_changes(before, after)}."


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
