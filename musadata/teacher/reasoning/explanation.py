"""The text before a repaired candidate: what the feedback said, the cause and the change."""

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
from musadata.compiler.ir.code import Declare, of_kind
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index
from musadata.teacher.evidence import as_reason, read_evidence

_LONGEST_CHANGE = 320  # characters; longer ones are seen better in the programs themselves
_LONGEST_QUOTE = 160
WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("explanation.yaml").read_text(encoding="utf-8"))


def repeated_launches(kernels: Sequence[EmittedKernel]) -> dict[str, str]:
    """How often the host launches those kernels that it launches more than once, by name: `12 times`."""
    total: defaultdict[str, Index] = defaultdict(lambda: ZERO)
    for emitted in kernels:
        total[emitted.kernel.name] += emitted.kernel.steps.count if emitted.kernel.steps else ONE
    texts = {name: Printer().index(count).text for name, count in total.items() if count != ONE}
    return {name: f"{text if text.isdigit() else f'`{text}`'} times" for name, text in texts.items()}


def explain_repair(feedback: str, fixed: FaultKind | None, before: Candidate, after: Candidate, gain: str = "") -> str:
    """Why the last answer, `before`, failed, and what is different in `after`; `gain` says what another program has for
    it."""
    reported = _reported(feedback)
    if fixed is None or (fixed.compiles and "does not compile" in feedback):
        return f"{reported} I cannot place that in the kernels, so I write them in another way: {after.schedule}."
    is_mended = before.plan == after.plan
    cause = _cause(fixed, before, after) if is_mended else fixed.cause
    told = f"{reported} {as_reason(read_evidence(feedback, before.source), cause)}"
    if is_mended:
        return f"{told} Now {fixed.mend}{_changes(before.source, after.source)}."
    return f"{told} Done right, {fixed.mend}. I write it anew, with {after.schedule}.{gain}"


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
    """What the verifier reported, in one sentence that quotes the beginning of its first finding."""
    opening = next(
        (opening for phrase, opening in WORDS["openings"].items() if phrase in feedback), "The answer was not accepted"
    )
    finding = next((line[2:].strip() for line in feedback.splitlines() if line.startswith("- ")), "")
    told = re.split(r"; largest|\. | \(Only|\.?$", finding.replace("`", "'"), maxsplit=1)[0]
    short = told if len(told) <= _LONGEST_QUOTE else told[:_LONGEST_QUOTE].rsplit(" ", 1)[0] + " …"
    return f"{opening}: `{short}`." if finding else f"{opening}."
