"""A step of stage 3: questions about tasks and their accepted kernels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from musadata.corpus.views.knowledge import question_row
from musadata.records import Question, Reject
from musadata.sampling.questions import ask_questions
from musadata.sampling.request_cache import RequestCache
from musadata.storage.shards import Shard
from musadata.training_rows import SftRow
from pipelines import journals, limits, resources
from pipelines.steps import ShardStep, Writers, annotated_tasks, asking_settings, candidates_by_task, concurrently
from pipelines.versions import questions_version


@dataclass(frozen=True)
class WriteQuestions(ShardStep):
    """Has the teacher write questions and answers, and checks their figures. A teacher that is no model writes none."""

    stage: ClassVar[str] = "stage3.questions"
    reads: ClassVar[tuple[str, ...]] = ("stage1", "stage2", "stage3")
    writes: ClassVar[dict[str, type]] = {"questions": Question, "sft": SftRow, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("question",)
    part: ClassVar[str] = "questions"

    def code(self) -> str:
        return questions_version(self.config)

    def settings(self, shard: Shard) -> Any:
        return [self.config.questions, *asking_settings(self.config)]

    def process(self, shard: Shard, out: Writers) -> None:
        threads = limits.requests_at_once(self.config)
        with journals.request_cache(self.config, self.corpus, "stage3") as cache:
            shown: set[str] = set()  # many tasks have the same answer
            tasks = {task.task_id: task for task, _ in annotated_tasks(self.config, self.corpus, shard)}
            work, shared = self._work(shard, cache), limits.asking_threads(threads)
            for rows in concurrently(lambda ask: ask(), work, threads, shared):
                for row in filter(None, (out.take("question", one) for one in rows)):
                    out.keep("questions", row)
                    if row.answer not in shown:
                        shown.add(row.answer)
                        out.keep("sft", question_row(tasks[row.task_id], row))

    def _work(self, shard: Shard, cache: RequestCache) -> Iterator[Callable[[], list[Any]]]:
        """One for each task."""
        config, candidates = self.config, candidates_by_task(self.corpus, shard)
        for task, annotation in annotated_tasks(config, self.corpus, shard):
            teacher, mine = resources.teacher(config, self.corpus), candidates.get(task.task_id, ())
            ask, count = cache.ask_teacher(teacher), config.questions.per_task
            yield partial(ask_questions, task, annotation, mine, count, teacher.name, config.seed, ask)
