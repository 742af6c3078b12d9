"""Teachers: who reasons about a task and writes kernels for it."""

from collections.abc import Callable

from musadata.config import TeacherConfig, TeacherType
from musadata.sandbox import Sandbox
from musadata.teacher.protocol import Teacher

__all__ = ["TEACHERS", "open_teacher"]

# Kind -> the module of that teacher: its answers depend on it, on those of others they do not.
TEACHERS = {
    TeacherType.COMPILER: "musadata.teacher.compiler_teacher",
    TeacherType.OPENAI: "musadata.teacher.openai",
    TeacherType.REPLAY: "musadata.teacher.replay",
}


def open_teacher(config: TeacherConfig, seed: int, sandbox: Callable[[], Sandbox] | None = None) -> Teacher:
    """The teacher that the config names; what it needs is imported now and not before.

    One that runs references does so in what `sandbox` gives, or opens its own.

    Raises:
        MusadataError: the teacher cannot be reached or read; the message names the key.
    """
    match config.kind:
        case TeacherType.COMPILER:
            from musadata.teacher.compiler_teacher import CompilerTeacher

            return CompilerTeacher(config, seed, sandbox() if sandbox else None)
        case TeacherType.OPENAI:
            from musadata.teacher.openai import OpenAITeacher

            return OpenAITeacher(config)
        case TeacherType.REPLAY:
            from musadata.teacher.replay import ReplayTeacher

            return ReplayTeacher(config.path)
