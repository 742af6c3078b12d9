"""Teachers: they reason about tasks and write kernels.

`open_teacher` is the way in; `protocol` says what a teacher is asked and what it answers. Each teacher is a module:
`compiler_teacher` (with the rooms `compiler` and `reasoning`), `openai`, `batch` and `vllm` (which share `chat`), and
`replay`. `prompts` renders the questions, `annotation` asks for the six steps, and `claims` evaluates on the facts
what they claim.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from musadata.compiler.capturing import PRELOAD
from musadata.config import RequestsConfig, TeacherConfig, TeacherType
from musadata.errors import MusadataError
from musadata.sandbox import Caller
from musadata.teacher.protocol import Teacher

if TYPE_CHECKING:
    from musadata.teacher.panel import Panel
    from musadata.teacher.protocol import RemoteTeacher

__all__ = ["TEACHERS", "TeacherKind", "open_panel", "open_teacher"]


@dataclass(frozen=True)
class TeacherKind:
    """What the pipelines have to know about a kind of teacher.

    Attributes:
        module: its module; answers depend on its code and not on that of other teachers.
        preload: modules that the sandbox in which it runs references should import once.
        is_remote: a model gives the answers, elsewhere or here, to `concurrency` requests at once.
        is_computed: answers follow from musadata's code, so its version is part of the journal's key.
    """

    module: str
    preload: tuple[str, ...] = ()
    is_remote: bool = False
    is_computed: bool = False


TEACHERS = {
    TeacherType.COMPILER: TeacherKind("musadata.teacher.compiler_teacher", preload=PRELOAD, is_computed=True),
    TeacherType.OPENAI: TeacherKind("musadata.teacher.openai", is_remote=True),
    TeacherType.BATCH: TeacherKind("musadata.teacher.batch", is_remote=True),
    TeacherType.VLLM: TeacherKind("musadata.teacher.vllm", is_remote=True),
    TeacherType.REPLAY: TeacherKind("musadata.teacher.replay"),
}


def open_teacher(config: TeacherConfig, seed: int, sandbox: Callable[[], Caller] | None = None) -> Teacher:
    """The teacher that the config names; its module is imported only now.

    One that runs references does so in the sandbox that `sandbox` returns, or opens its own.

    Raises:
        MusadataError: the teacher cannot be reached or read; the message names the key.
    """
    match config.kind:
        case TeacherType.COMPILER:
            from musadata.teacher.compiler_teacher import CompilerTeacher

            return CompilerTeacher(config, seed, sandbox() if sandbox else None)
        case TeacherType.OPENAI | TeacherType.BATCH | TeacherType.VLLM:
            return open_panel((config,), RequestsConfig())
        case TeacherType.REPLAY:
            from musadata.teacher.replay import ReplayTeacher

            return ReplayTeacher(config.path)


def open_panel(
    configs: Sequence[TeacherConfig], requests: RequestsConfig, workers: int = 1, slots: Path | None = None
) -> "Panel | RemoteTeacher":
    """One teacher behind a server, a batch service or vLLM's engine; or several of which each request has one.

    `workers` processes of this machine share their limits, by files in the folder `slots`.

    Raises:
        MusadataError: several workers would each load the model.
    """
    from musadata.teacher.panel import Panel

    files = [slots / f"request-slots-{number}" if slots else None for number in range(len(configs))]
    members = [
        (config, _open_remote(config, requests, workers, file)) for config, file in zip(configs, files, strict=True)
    ]
    return members[0][1] if len(members) == 1 else Panel(members)


def _open_remote(config: TeacherConfig, requests: RequestsConfig, workers: int, slots: Path | None) -> "RemoteTeacher":
    if config.kind is TeacherType.BATCH:
        from musadata.teacher.batch import BatchTeacher

        return BatchTeacher(config, requests)
    if config.kind is TeacherType.VLLM:
        from musadata.teacher.vllm import VLLMTeacher

        if workers > 1:
            remedy = "run one worker, or start `vllm serve` and use kind openai"
            raise MusadataError(f"{workers} workers would each load the model", where="teacher.kind", remedy=remedy)
        return VLLMTeacher(config, requests)
    from musadata.teacher.openai import OpenAITeacher

    return OpenAITeacher(config, requests, workers=workers, slots=slots)
