"""Teachers: they reason about tasks and write kernels.

`open_teacher` is the way in; `protocol` says what a teacher is asked and what it answers. Each teacher is a module:
`compiler_teacher` (with the rooms `compiler` and `reasoning`), `openai` (with `chat`) and `replay`. `prompts` renders
the questions, `annotation` asks for the six steps, and `grounding` compares their `claims` with the traces.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.sandbox import Sandbox
from musadata.teacher.compiler.capturing import PRELOAD
from musadata.teacher.protocol import Teacher

__all__ = ["TEACHERS", "TeacherKind", "open_teacher"]


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


def open_teacher(
    config: TeacherConfig,
    seed: int,
    sandbox: Callable[[], Sandbox] | None = None,
    requests: RequestsConfig | None = None,
    workers: int = 1,
    slots: Path | None = None,
) -> Teacher:
    """The teacher that the config names; its module is imported only now.

    One that runs references does so in the sandbox that `sandbox` returns, or opens its own. One behind a server keeps
    to `requests`; `workers` processes of this machine share its limits by the file `slots`.

    Raises:
        MusadataError: the teacher cannot be reached or read; the message names the key.
    """
    match config.kind:
        case TeacherType.COMPILER:
            from musadata.teacher.compiler_teacher import CompilerTeacher

            return CompilerTeacher(config, seed, sandbox() if sandbox else None)
        case TeacherType.OPENAI:
            from musadata.teacher.openai import OpenAITeacher

            return OpenAITeacher(config, requests, workers=workers, slots=slots)
        case TeacherType.REPLAY:
            from musadata.teacher.replay import ReplayTeacher

            return ReplayTeacher(config.path)
