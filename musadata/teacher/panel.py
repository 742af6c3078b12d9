"""Several teachers behind servers in one run: each request goes to one of them, by its role and weight."""

import hashlib
from collections.abc import Sequence
from itertools import accumulate

from musadata.config import TeacherConfig, TeacherRole
from musadata.teacher.protocol import Answer, Done, Keep, RemoteTeacher, Request, RequestKind, SubmittingTeacher

_ROLES = {
    RequestKind.REASON: TeacherRole.REASONER,
    RequestKind.GENERATE: TeacherRole.GENERATOR,
    RequestKind.REPAIR: TeacherRole.REVIEWER,
    RequestKind.TEST: TeacherRole.REVIEWER,
    RequestKind.QUESTION: TeacherRole.REASONER,
}


class Panel(SubmittingTeacher):
    """Asks one of several teachers. The same request always goes to the same one.

    A conversation is drawn for one of the generators by their weights. Its later turns stay with that teacher if it is
    a reviewer too; else they are drawn for one of the reviewers.

    Attributes:
        name: of all teachers; an answer tells whose it is.
    """

    def __init__(self, members: Sequence[tuple[TeacherConfig, RemoteTeacher]]):
        self._members = members
        self.name = " + ".join(teacher.name for _, teacher in members)

    def name_for(self, request: Request) -> str:
        """The name of the teacher that this request goes to."""
        return self._chosen(request).name

    def answer_and_keep(self, request: Request, keep: Keep) -> Answer:
        return self._chosen(request).answer_and_keep(request, keep)

    @property
    def submits(self) -> bool:
        return all(isinstance(teacher, SubmittingTeacher) and teacher.submits for _, teacher in self._members)

    def submit(self, request: Request, keep: Keep, done: Done) -> None:
        chosen = self._chosen(request)
        assert isinstance(chosen, SubmittingTeacher)
        chosen.submit(request, keep, done)

    def stop(self, error: BaseException) -> None:
        for _, teacher in self._members:
            teacher.stop(error)

    def check_server(self) -> None:
        """Ask every server for its model.

        Raises:
            MusadataError: one is not there or does not have it.
        """
        for _, teacher in self._members:
            teacher.check_server()

    def close(self) -> None:
        for _, teacher in self._members:
            teacher.close()

    def _chosen(self, request: Request) -> RemoteTeacher:
        role = _ROLES[request.kind]
        if request.kind is RequestKind.REPAIR:
            config, generator = self._draw(TeacherRole.GENERATOR, request)
            if role in config.roles:
                return generator
        return self._draw(role, request)[1]

    def _draw(self, role: TeacherRole, request: Request) -> tuple[TeacherConfig, RemoteTeacher]:
        able = [member for member in self._members if role in member[0].roles]
        digest = hashlib.sha256(f"{role.value} {request.task.task_id} {request.sample}".encode()).digest()
        sums = list(accumulate(config.weight for config, _ in able))
        point = int.from_bytes(digest[:6]) / 2**48 * sums[-1]
        return next(member for member, end in zip(able, sums, strict=True) if point < end)
