"""The parts of a turn (ask, compile, execute), each for all conversations of a shard; or all parts in one process."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain

from musadata.config import Config
from musadata.records import Annotation, Task, Verdict
from musadata.sampling.request_cache import RequestCache
from musadata.sampling.rollout import Ask, Attempt, Judge, NotKnownYet, judge_program, run_rollout
from musadata.sampling.sample_plan import SamplePlan
from musadata.storage.shards import Shard
from musadata.teacher.protocol import Answer, CannotAnswer, RequestFailed, Teacher
from pipelines import journals, limits, resources
from pipelines.assembly import Assemble, human_programs
from pipelines.retries import count_rounds, retries_of_round
from pipelines.steps import annotated_tasks, concurrently


@dataclass(frozen=True)
class RolloutStep(ABC):
    """One part of one turn for every conversation of a shard.

    A conversation goes on as far as the part is able to, and what it finds goes into the journal; where another part
    has to come first, it is left for later.
    """

    config: Config
    corpus: str
    workers: int = 1  # how many share a machine

    @abstractmethod
    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        """How this part asks and judges."""

    @abstractmethod
    def at_once(self) -> int:
        """How many conversations of a shard may go on at the same time."""

    def run(self, shard: Shard) -> Shard:
        if Assemble(self.config, self.corpus).found(shard) is None:
            threads, shared = self.at_once(), self.threads()
            with journals.request_cache(self.config, self.corpus, Assemble.stage) as cache:
                for conversations in self._rounds(shard, cache):
                    for _ in concurrently(_as_far_as_known, conversations, threads, shared):
                        pass
                for number in range(1, count_rounds(self.corpus) + 1):
                    again = self._retries(shard, number, cache)
                    for _ in concurrently(_as_far_as_known, again, threads, shared):
                        pass
        return shard

    def _retries(self, shard: Shard, number: int, cache: RequestCache) -> Sequence[Callable[[], object]]:
        tasks = annotated_tasks(self.config, self.corpus, shard)
        recall = cache.recall_answers(self.teacher()), cache.recall_verdicts(self.config.verifier)
        return retries_of_round(self.config, shard, tasks, number, recall, self.abilities(cache))

    def threads(self) -> ThreadPoolExecutor | None:
        """The threads that all shards of this process share; None for some of each shard's own."""
        return None

    def _rounds(self, shard: Shard, cache: RequestCache) -> Iterator[Iterator[Callable[[], object]]]:
        """The conversations of the samples that are wanted by now: at first those that every task has, then further
        ones of the tasks whose first answers are known and ask for more."""
        plan, abilities = SamplePlan.of(self.config), self.abilities(cache)
        tasks = annotated_tasks(self.config, self.corpus, shard)
        asked = [range(plan.wanted(()))] * len(tasks)
        yield chain(self._converse(zip(tasks, asked, strict=True), *abilities), self._judge(shard, tasks, abilities[1]))
        going = list(zip(tasks, asked, strict=True))
        while plan.rounds > 1 and going:
            going = [
                (one, range(samples.stop, wanted))
                for one, samples in going
                if (wanted := self._count_wanted(plan, one, samples.stop, cache)) > samples.stop
            ]
            yield self._converse(going, *abilities)

    def _converse(
        self, going: Iterable[tuple[tuple[Task, Annotation], range]], ask: Ask, judge: Judge
    ) -> Iterator[Callable[[], object]]:
        turns, seed = self.config.sampling.turns, self.config.seed
        for (task, annotation), samples in going:
            for sample in samples:
                yield partial(run_rollout, task, annotation, sample, turns, seed, ask, judge)

    def _judge(
        self, shard: Shard, tasks: Sequence[tuple[Task, Annotation]], judge: Judge
    ) -> Iterator[Callable[[], object]]:
        """What people wrote for the tasks."""
        programs, most = (
            human_programs(self.corpus, shard),
            SamplePlan.of(self.config).most,
        )
        for task, annotation in tasks:
            for sample, program in enumerate(programs.get(task.task_id, ()), start=most):
                yield partial(judge_program, task, annotation, sample, program, self.config.seed, judge)

    def _count_wanted(self, plan: SamplePlan, one: tuple[Task, Annotation], asked: int, cache: RequestCache) -> int:
        """How many samples of a task there should be; as many as there are while a first answer is not known."""
        ask, judge = cache.recall_answers(self.teacher()), cache.recall_verdicts(self.config.verifier)
        firsts: list[Attempt | None] = []
        for sample in range(asked):
            try:
                firsts += run_rollout(*one, sample, 1, self.config.seed, ask, judge)
            except NotKnownYet:
                return asked
            except (CannotAnswer, RequestFailed):
                firsts.append(None)
        return plan.wanted(firsts)

    def teacher(self) -> Teacher:
        return resources.teacher(self.config, self.corpus)


def _as_far_as_known(conversation: Callable[[], object]) -> None:
    with suppress(NotKnownYet, CannotAnswer):
        conversation()


class AskTeacher(RolloutStep):
    """Asks; runs anywhere."""

    def at_once(self) -> int:
        return limits.requests_at_once(self.config)

    def threads(self) -> ThreadPoolExecutor | None:
        return limits.asking_threads(self.at_once())

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        return cache.ask_teacher(self.teacher()), cache.recall_verdicts(self.config.verifier)


class Compile(RolloutStep):
    """Compiles what was answered; needs a compiler, but no device."""

    def at_once(self) -> int:
        return limits.verdicts_at_once(self.config.verifier, self.workers)

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        verifier = resources.verifier(self.config.verifier, self.config.teacher.kind)
        return cache.recall_answers(self.teacher()), cache.compile_only(self.config.verifier, verifier)


class Execute(RolloutStep):
    """Executes what was compiled and judges it; where the backend needs a device, this step does."""

    def at_once(self) -> int:
        return limits.verdicts_at_once(self.config.verifier, self.workers)

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        verifier = resources.verifier(self.config.verifier, self.config.teacher.kind)
        return cache.recall_answers(self.teacher()), cache.verify(self.config.verifier, verifier)


class Converse(RolloutStep):
    """Asks and judges in one process, so that a conversation goes on to its end: some wait for answers while others are
    judged."""

    def at_once(self) -> int:
        verdicts = self._verdicts()
        return verdicts + limits.requests_at_once(self.config) if self._is_remote() else verdicts

    def threads(self) -> ThreadPoolExecutor | None:
        return limits.asking_threads(self.at_once())

    def abilities(self, cache: RequestCache) -> tuple[Ask, Judge]:
        verifier = resources.verifier(self.config.verifier, self.config.teacher.kind)
        verify, turn = cache.verify(self.config.verifier, verifier), limits.judging(self._verdicts())

        def judge(task: Task, annotation: Annotation, answer: Answer) -> Verdict:
            with turn:
                return verify(task, annotation, answer)

        ask = cache.ask_teacher(self.teacher())
        return (ask if self._is_remote() else limits.one_at_a_time(ask)), judge

    def _is_remote(self) -> bool:
        return limits.is_remote(self.config.teacher)

    def _verdicts(self) -> int:
        return limits.verdicts_at_once(self.config.verifier, self.workers)
