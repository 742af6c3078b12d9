"""A teacher that repeats recorded answers: of people, of a batch run, or of an earlier corpus."""

from collections.abc import Iterator
from typing import Any

import fsspec
import pyarrow.parquet as pq

from musadata.errors import MusadataError
from musadata.records import ReasoningStep
from musadata.rows import plain, restore
from musadata.storage.journal import Journal
from musadata.teacher.claims.steps import render_analysis
from musadata.teacher.prompts import STEPS
from musadata.teacher.protocol import Answer, CannotAnswer, Request, RequestKind

_COLUMNS = ("task_id", "kind", "sample", "turn", "text")
_COSTS = ("expected_ms", "bound_ms", "costs")
_JOURNAL = "replay"


class ReplayTeacher:
    """Answers from a record, in which a request is identified by its task, kind, sample and turn.

    Attributes:
        name: `replay:` and the name of the file or folder.
    """

    def __init__(self, path: str):
        """Read all answers under `path`.

        Args:
            path: a Parquet file with the columns task_id, kind ("reason", "generate", "repair", "test"), sample, turn,
                text and optionally schedule and fault; a corpus, whose annotations, candidates and unit tests are
                repeated; or a folder with a journal that `remember` wrote. Local or a URL.

        Raises:
            MusadataError: nothing there, or not one of these.
        """
        self.name = f"replay:{path.rstrip('/').rsplit('/', 1)[-1]}"
        self._answers = dict(_read(path))
        if not self._answers:
            raise MusadataError("holds no answers", where=path, remedy="name a corpus, a Parquet file or a journal")

    def answer(self, request: Request) -> Answer:
        """The answer that was given to this request before.

        Raises:
            CannotAnswer: there is none; the message says to which request.
        """
        found = self._answers.get(replay_key(request))
        if found is None:
            raise CannotAnswer(
                f"no recorded answer: {request.kind.value}, sample {request.sample}, turn {request.turn}"
            )
        return found


def replay_key(request: Request) -> str:
    return _key(request.task.task_id, request.kind.value, request.sample, request.turn)


def remember(journal: Journal, request: Request, answer: Answer) -> None:
    """Put an answer into a journal that `ReplayTeacher` can read (`Journal(folder, "replay")`)."""
    journal.put(replay_key(request), plain(answer))


def _key(task_id: str, kind: str, sample: int, turn: int) -> str:
    return f"{task_id} {kind} {sample} {turn}"


def _read(path: str) -> Iterator[tuple[str, Answer]]:
    files, root = fsspec.core.url_to_fs(path)
    if not files.exists(root):
        raise MusadataError("does not exist", where=path, remedy="name a corpus, a Parquet file or a journal")
    if files.isfile(root):
        for row in _rows(files, root, _COLUMNS, path):
            answer = Answer(row["text"], row.get("schedule") or "", row.get("fault") or "")
            yield _key(row["task_id"], row["kind"], row["sample"], row["turn"]), answer
        return
    yield from _read_journal(path)
    for file in _parquets(files, f"{root}/annotations"):
        for row in _rows(files, file, ("task_id", "reasoning")):
            steps = [ReasoningStep(**step) for step in row["reasoning"]]
            claims = [(one["sentence"], one["expression"]) for one in row.get("claims") or ()]
            text = render_analysis([step for step in steps if step.step in STEPS], claims)
            yield _key(row["task_id"], RequestKind.REASON.value, 0, 1), Answer(text, row.get("schedule") or "")
    for file in _parquets(files, f"{root}/candidates"):
        for row in _rows(files, file, ("task_id", "sample", "turn", "source", "schedule", "fault")):
            kind = RequestKind.GENERATE if row["turn"] == 1 else RequestKind.REPAIR
            known = {name: row[name] for name in _COSTS if name in row}
            answer = Answer(f"```python\n{row['source'].strip()}\n```", row["schedule"], row["fault"], **known)
            yield _key(row["task_id"], kind.value, row["sample"], row["turn"]), answer
    for file in _parquets(files, f"{root}/unit_tests"):
        for row in _rows(files, file, ("task_id", "sample", "source")):
            yield (
                _key(row["task_id"], RequestKind.TEST.value, row["sample"], 1),
                Answer(f"```python\n{row['source']}```\n"),
            )


def _read_journal(path: str) -> Iterator[tuple[str, Answer]]:
    journal = Journal(path, _JOURNAL)
    for key in journal:
        value = journal.get(key)
        if value is not None:
            yield key, restore(Answer, value)


def _parquets(files: Any, folder: str) -> list[str]:
    return sorted(name for name in files.find(folder) if name.endswith(".parquet"))


def _rows(files: Any, file: str, needed: tuple[str, ...], path: str = "") -> Iterator[dict[str, Any]]:
    try:
        with files.open(file, "rb") as handle:
            table = pq.ParquetFile(handle)
            missing = [name for name in needed if name not in table.schema_arrow.names]
            if missing:
                raise MusadataError(
                    f"lacks {', '.join(missing)}", where=path or file, remedy=f"it needs {', '.join(needed)}"
                )
            wanted = [
                name for name in (*needed, "schedule", "fault", "claims", *_COSTS) if name in table.schema_arrow.names
            ]
            for batch in table.iter_batches(columns=list(dict.fromkeys(wanted))):
                yield from batch.to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise MusadataError(
            f"cannot be read as Parquet ({error})", where=path or file, remedy="name a Parquet file"
        ) from error
