"""The last step of stage 3: unit tests, run on the reference, on accepted candidates and on wrong ones."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from musadata.config import Config, TeacherType
from musadata.corpus.views.knowledge import unit_test_row
from musadata.records import Annotation, ErrorClass, Reject, Task, UnitTest
from musadata.sampling.request_cache import RequestCache
from musadata.sampling.rollout import Judge
from musadata.sampling.unit_tests import Mutant, ask_for_test, check_test
from musadata.storage.shards import Shard
from musadata.teacher.protocol import Answer
from musadata.training_rows import SftRow
from musadata.verifier.protocol.unit_tests import UnitTestRun
from pipelines import journals, limits, resources
from pipelines.steps import ShardStep, Writers, annotated_tasks, asking_settings, candidates_by_task, concurrently
from pipelines.versions import tests_version

MOST_SEEDED = 4  # faults that are tried for a task whose candidates are all right; some change nothing

_making = threading.Lock()


@dataclass(frozen=True)
class TestKernels(ShardStep):
    """Asks the teacher for unit tests and keeps those that tell right from wrong."""

    __test__ = False  # no test of pytest's

    workers: int = 1  # how many share a machine

    stage: ClassVar[str] = "stage3.tests"
    reads: ClassVar[tuple[str, ...]] = ("stage1", "stage2", "stage3")
    writes: ClassVar[dict[str, type]] = {"unit_tests": UnitTest, "sft": SftRow, "rejects": Reject}
    funnel: ClassVar[tuple[str, ...]] = ("test",)
    part: ClassVar[str] = "unit_tests"

    def code(self) -> str:
        return tests_version(self.config)

    def settings(self, shard: Shard) -> Any:
        return [self.config.verifier, self.config.unit_tests, *asking_settings(self.config)]

    def process(self, shard: Shard, out: Writers) -> None:
        known = {pair[0].task_id: pair for pair in annotated_tasks(self.config, self.corpus, shard)}
        shown: set[tuple[str, str]] = set()  # another sample may give the same test
        with journals.request_cache(self.config, self.corpus, "stage3") as cache:
            threads = max(limits.requests_at_once(self.config), self._verdicts())
            shared = limits.asking_threads(threads) if limits.is_remote(self.config.teacher) else None
            for result in concurrently(lambda work: work(), self._work(shard, cache), threads, shared):
                if test := out.take("test", result):
                    out.keep("unit_tests", test)
                    if self._is_learnt() and (test.task_id, test.source) not in shown:
                        shown.add((test.task_id, test.source))
                        out.keep("sft", unit_test_row(*known[test.task_id], test))

    def _is_learnt(self) -> bool:
        """Whether tests become rows of `sft`: those that the compiler teacher writes follow its templates, and of 27
        that readers saw they kept three."""
        return self.config.teacher.kind is not TeacherType.COMPILER

    def _work(self, shard: Shard, cache: RequestCache) -> Iterator[Callable[[], UnitTest | Reject]]:
        """One for each test that the teacher is asked for."""
        config, candidates = self.config, candidates_by_task(self.corpus, shard)
        teacher = resources.teacher(config, self.corpus)
        verifier = resources.verifier(config.verifier, config.teacher.kind)
        run, judge = cache.run_test(config.verifier, verifier), cache.verify(config.verifier, verifier)
        turn = limits.judging(self._verdicts())

        def run_in_turn(task: Task, test: str, programs: Sequence[str], right: int) -> Sequence[UnitTestRun]:
            with turn:
                return run(task, test, programs, right)

        def work(task: Task, annotation: Annotation, sample: int) -> UnitTest | Reject:
            answer = ask_for_test(task, annotation, sample, config.seed, cache.ask_teacher(teacher))
            if isinstance(answer, Reject):
                return answer
            seeded = partial(_seeded, config, self.corpus, task, annotation, judge)
            found = candidates.get(task.task_id, ())
            return check_test(task, sample, answer, teacher.name, found, seeded, run_in_turn, config.unit_tests)

        for task, annotation in annotated_tasks(config, self.corpus, shard):
            for sample in range(config.unit_tests.samples if task.task_id in candidates else 0):
                yield partial(work, task, annotation, sample)

    def _verdicts(self) -> int:
        return limits.verdicts_at_once(self.config.verifier, self.workers)


def _seeded(config: Config, corpus: str, task: Task, annotation: Annotation, judge: Judge) -> list[Mutant]:
    """Programs into which the compiler teacher seeds a fault; the verifier knows which of them are wrong."""

    def is_wrong(source: str) -> bool:
        verdict = judge(task, annotation, Answer(f"```python\n{source}```\n"))
        return verdict.error_class in (ErrorClass.RUNTIME, ErrorClass.CORRECTNESS)

    with _making:  # one task's candidates are built in turn
        made = list(islice(resources.mutant_maker(config, corpus).mutants(task, annotation.traces), MOST_SEEDED))
    return [Mutant(source, fault, is_wrong=is_wrong) for source, fault in made]
