"""Teachers: they reason about tasks and write kernels.

`open_teacher` is the way in; `protocol` says what a teacher is asked and what it answers. Each teacher is a module:
`compiler_teacher` (with the rooms `compiler` and `reasoning`), `openai` (with `chat`) and `replay`. `prompts` renders
the questions, `annotation` asks for the six steps, and `grounding` compares what they claim with the traces.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.sandbox import Sandbox
from musadata.teacher.compiler.capturing import PRELOAD
from musadata.teacher.protocol import Teacher

if TYPE_CHECKING:
    from musadata.teacher.openai import OpenAITeacher
    from musadata.teacher.panel import Panel

__all__ = ["TEACHERS", "TeacherKind", "open_panel", "open_teacher"]


@dataclass(frozen=True)
class TeacherKind:
    """What the pipelines have to know about a kind of teacher.

    Attributes:
        module: its module; answers depend on its code and not on that of other teachers.
        preload: modules that the sandbox in which it runs references should import once.
        is_remote: answers come from a server, so `concurrency` requests may be under way at once.
        is_computed: answers follow from musadata's code, so its version is part of the journal's key.
    """

    module: str
    preload: tuple[str, ...] = ()
    is_remote: bool = False
    is_computed: bool = False


TEACHERS = {
    TeacherType.COMPILER: TeacherKind("musadata.teacher.compiler_teacher", preload=PRELOAD, is_computed=True),
    TeacherType.OPENAI: TeacherKind("musadata.teacher.openai", is_remote=True),
    TeacherType.REPLAY: TeacherKind("musadata.teacher.replay"),
}


def open_teacher(config: TeacherConfig, seed: int, sandbox: Callable[[], Sandbox] | None = None) -> Teacher:
    """The teacher that the config names; its module is imported only now.

    One that runs references does so in the sandbox that `sandbox` returns, or opens its own.

    Raises:
        MusadataError: the teacher cannot be reached or read; the message names the key.
    """
    match config.kind:
        case TeacherType.COMPILER:
            from musadata.teacher.compiler_teacher import CompilerTeacher

            return CompilerTeacher(config, seed, sandbox() if sandbox else None)
        case TeacherType.OPENAI:
            return open_panel((config,), RequestsConfig())
        case TeacherType.REPLAY:
            from musadata.teacher.replay import ReplayTeacher

            return ReplayTeacher(config.path)


def open_panel(
    configs: Sequence[TeacherConfig], requests: RequestsConfig, workers: int = 1, slots: Path | None = None
) -> "Panel | OpenAITeacher":
    """One teacher behind a server, or several of which each request has one.

    `workers` processes of this machine share their limits, by files in the folder `slots`.
    """
    from musadata.teacher.openai import OpenAITeacher
    from musadata.teacher.panel import Panel

    files = [slots / f"request-slots-{number}" if slots else None for number in range(len(configs))]
    members = [
        (config, OpenAITeacher(config, requests, workers=workers, slots=file))
        for config, file in zip(configs, files, strict=True)
    ]
    return members[0][1] if len(members) == 1 else Panel(members)
