"""Accepted candidates in the form for MUSA, and kernels that people wrote for both platforms."""

import difflib
import re
from collections.abc import Sequence

from musadata.records import Candidate, Kernel, NativeSource, Port, PortVerdict, Reject, Task
from musadata.rows import content_id
from musadata.verifier.backends.musa.program_port import port_program
from musadata.verifier.compilation.compile_errors import Unsupported

FAMILY = "translation"
STEP = "port"
PLATFORM = "musa"  # as a backend that judges candidates in this form
_NAME = re.compile(r"\w[\w./]*(?:::\w+)*")
_MOST_CHARACTERS = 40_000  # of a pair of files that people wrote


def port_candidates(task: Task, candidates: Sequence[Candidate], most: int) -> list[Port | Reject]:
    """The ports of up to `most` accepted programs of a task, those first that were kept; a reject for each that has
    none. Programs with a seeded fault are left out, even where it changes no result."""
    accepted = sorted((one for one in candidates if one.accepted and not one.fault), key=lambda one: not one.kept)
    programs = {one.source: one for one in reversed(accepted)}  # the first of equal ones
    chosen = [one for one in accepted if programs[one.source] is one]
    return [_port(task, one) for one in chosen[:most]]


def _port(task: Task, candidate: Candidate) -> Port | Reject:
    try:
        source = port_program(candidate.source)
    except Unsupported as refusal:
        return Reject("ports", STEP, "no port", str(refusal)[:500], candidate.candidate_id)
    judged = candidate.backend == PLATFORM  # that backend ports what it judges in the same way
    return Port(
        port_id=content_id("port", candidate.candidate_id, source),
        **task.columns(),
        candidate_id=candidate.candidate_id,
        source=source,
        changes=list_changes(candidate.source, source),
        verdict=PortVerdict.ACCEPTED if judged else PortVerdict.NOT_RUN,
        operator_family=task.operator_family,
        teacher=candidate.teacher,
    )


def list_changes(cuda: str, musa: str) -> tuple[str, ...]:
    """Each name that became another one, in the order of the program, as "cuda → musa"."""
    one, other = (_NAME.findall(text) for text in (cuda, musa))
    found: dict[str, None] = {}
    for what, start, end, to, until in difflib.SequenceMatcher(a=one, b=other, autojunk=False).get_opcodes():
        if what == "replace" and end - start == until - to:
            pairs = zip(one[start:end], other[to:until], strict=True)
            found |= {f"{old} → {new}": None for old, new in pairs}
    return tuple(found)


def pair_files(kernel: Kernel) -> tuple[str, str] | None:
    """The files of a kernel that people wrote for CUDA and for MUSA, as texts; None where it is for one of them only or
    the files are too long to learn from."""
    cuda, musa = (_join(files) for files in (kernel.native, kernel.musa))
    if not kernel.native or not kernel.musa or len(cuda) + len(musa) > _MOST_CHARACTERS:
        return None
    return cuda, musa


def _join(files: Sequence[NativeSource]) -> str:
    return "\n\n".join(f"`{file.path}`\n\n```cpp\n{file.text.strip()}\n```" for file in files)
