"""The text before a repaired candidate: what the feedback said, the cause and the change."""

import re
from collections import defaultdict
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

import yaml

from musadata.compiler.emission.cpp import Printer
from musadata.compiler.emission.launch import EmittedKernel
from musadata.compiler.faults import Derivation
from musadata.compiler.ir.index_formulas import ONE, ZERO, Index
from musadata.teacher.evidence import read_evidence, sentence

_CONTEXT = 2  # lines around a change
_LONGEST_QUOTE = 160
WORDS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("explanation.yaml").read_text(encoding="utf-8"))


def repeated_launches(kernels: Sequence[EmittedKernel]) -> dict[str, str]:
    """How often the host launches those kernels that it launches more than once, by name: `12 times`."""
    total: defaultdict[str, Index] = defaultdict(lambda: ZERO)
    for emitted in kernels:
        total[emitted.kernel.name] += emitted.kernel.steps.count if emitted.kernel.steps else ONE
    texts = {name: Printer().index(count).text for name, count in total.items() if count != ONE}
    return {name: f"{text if text.isdigit() else f'`{text}`'} times" for name, text in texts.items()}


def explain_repair(feedback: str, why: Derivation | None, before: str, after: str) -> str:
    """Why the program `before` failed, and what is different in `after`."""
    evidence = read_evidence(feedback)
    shown = f"The report shows that {evidence}." if evidence else ""
    told = " ".join(filter(None, (_reported(feedback), shown, why.wrong if why else "")))
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=_CONTEXT, lineterm=""))[2:]
    change = "\n".join(["```diff", *lines, "```"])
    return f"{told}\n\n{change}\n\n{sentence(why.right)}" if why else f"{told}\n\n{change}"


def explain_rewriting(feedback: str, schedule: str) -> str:
    """What comes before a program that is another one, because nothing of the last one is known to be wrong."""
    return f"{_reported(feedback)} I cannot place that in the kernels, so I write them in another way: {schedule}."


def _reported(feedback: str) -> str:
    """What the verifier reported, in one sentence that quotes the beginning of its first finding."""
    opening = next(
        (opening for phrase, opening in WORDS["openings"].items() if phrase in feedback), "The answer was not accepted"
    )
    finding = next((line[2:].strip() for line in feedback.splitlines() if line.startswith("- ")), "")
    told = re.split(r"; largest|\. | \(Only|\.?$", finding.replace("`", "'"), maxsplit=1)[0]
    short = told if len(told) <= _LONGEST_QUOTE else told[:_LONGEST_QUOTE].rsplit(" ", 1)[0] + " …"
    return f"{opening}: `{short}`." if finding else f"{opening}."
