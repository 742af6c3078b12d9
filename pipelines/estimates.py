"""What a run would ask, from prompts that are really rendered for some of its tasks."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from musadata.config import Config, TeacherRole
from musadata.corpus.manifest import open_corpus
from musadata.records import NO_USAGE, Annotation, ReasoningStep, Reject, Task, Usage
from musadata.sampling.sample_plan import SamplePlan
from musadata.storage.commits import read_commit
from musadata.storage.files import is_folder, join
from musadata.storage.shards import Shard, deal, read_shard
from musadata.teacher import ledger
from musadata.teacher.prompts import STEPS, render_generation, render_reasoning
from musadata.tracing.task import trace_task
from musadata.training_rows import ChatMessage
from pipelines import journals, limits, resources
from pipelines.steps import task_limit

MOST_EXAMPLES = 24  # tasks whose prompts are rendered
CHARACTERS_PER_TOKEN = 3.5
_ANALYSES = 2  # of a task: what the trace contradicts is corrected once
_STEP_CHARACTERS = 900  # of one step, where no analysis is written yet


@dataclass(frozen=True)
class Estimate:
    """What a stage would send. Completions are bounded by `max_tokens` unless earlier requests show their length."""

    stage: str
    requests: int
    usage: Usage
    measured: bool
    cost: float

    def __str__(self) -> str:
        prompts, completions = f"{self.usage.prompt_tokens:,}", f"{self.usage.completion_tokens:,}"
        how = "about" if self.measured else "at most"
        price = f", {how} {self.cost:,.2f}" if self.cost else ""
        return (
            f"{self.stage}: at most {self.requests:,} requests, about {prompts} prompt tokens, "
            f"{how} {completions} completion tokens{price}"
        )


def print_estimates(config: Config, corpus: str, stages: list[str]) -> None:
    """Print requests, tokens and cost of the stages that ask the teacher. Nothing is written or sent.

    Raises:
        MusadataError: stage 1 is not done, so there are no tasks to ask about.
    """
    open_corpus(corpus, "stage1", shards=config.shards)
    if not limits.is_remote(config.teacher):
        print("the teacher is not behind a server: nothing would be asked or paid")
        return
    estimates = [estimate(config, corpus, stage) for stage in stages]
    for one in estimates:
        print(one)
    if len(estimates) > 1:
        total = sum(one.cost for one in estimates)
        print(f"together: at most {sum(one.requests for one in estimates):,} requests, cost {total:,.2f}")


def estimate(config: Config, corpus: str, stage: str) -> Estimate:
    """What one stage would send, answers that a journal already holds included."""
    tasks = sum(_tasks_of(config, corpus, shard) for shard in deal(config.shards))
    turns = config.sampling.turns if stage == "stage3" else _ANALYSES * (1 + config.grounding.transcribe)
    requests = tasks * turns * (SamplePlan.of(config).most if stage == "stage3" else 1)
    lengths = [_tokens(prompt) for prompt in _prompts(config, corpus, stage)]
    prompt = sum(lengths) / len(lengths) if lengths else 0.0
    completion, measured = _completion(config, corpus, stage)
    # A later turn holds the earlier answers and what is wrong with them.
    grown = sum(prompt + turn * completion for turn in range(turns)) / turns
    more = config.unit_tests.samples + (config.questions.per_task > 0)
    tests = tasks * more if stage == "stage3" else 0
    usage = Usage(round(requests * grown + tests * prompt), round((requests + tests) * completion))
    return Estimate(stage, requests + tests, usage, measured, _cost(config, stage, usage))


def _cost(config: Config, stage: str, usage: Usage) -> float:
    """What it costs by the prices of those that are asked, by their weights."""
    role = TeacherRole.GENERATOR if stage == "stage3" else TeacherRole.REASONER
    asked = [one for one in (config.teacher, *config.teachers) if role in one.roles] or [config.teacher]
    weights = sum(one.weight for one in asked)
    return sum(ledger.cost_of(usage, one) * one.weight for one in asked) / weights


def _tasks_of(config: Config, corpus: str, shard: Shard) -> int:
    commit = read_commit(corpus, "stage1", shard)
    rows = sum(output.rows for output in commit.outputs if output.dataset == "tasks") if commit else 0
    limit = task_limit(config, shard)
    return rows if limit is None else min(rows, limit)


def _completion(config: Config, corpus: str, stage: str) -> tuple[float, bool]:
    """Tokens of a completion: the mean of what this corpus has paid for so far, else what one may have."""
    total = ledger.Total()
    if not is_folder(join(corpus, "_journal", stage)):
        return float(config.teacher.max_tokens), False
    for expense in ledger.expenses([journals.journal(corpus, stage, ledger.NAME)]):
        total = total.plus(expense)
    if total.usage == NO_USAGE:
        return float(config.teacher.max_tokens), False
    return total.usage.completion_tokens / total.requests, True


def _tokens(messages: tuple[ChatMessage, ...]) -> float:
    return sum(len(message.content) for message in messages) / CHARACTERS_PER_TOKEN


def _prompts(config: Config, corpus: str, stage: str) -> Iterator[tuple[ChatMessage, ...]]:
    """First prompts of some tasks, spread over the shards."""
    shards = deal(config.shards)
    each = -(-MOST_EXAMPLES // len(shards))
    for shard in shards[:: max(1, len(shards) // MOST_EXAMPLES)]:
        for task in islice(read_shard(corpus, "tasks", shard, Task), each):
            yield from _prompt(config, corpus, stage, shard, task)


def _prompt(config: Config, corpus: str, stage: str, shard: Shard, task: Task) -> Iterator[tuple[ChatMessage, ...]]:
    if stage == "stage3" and read_commit(corpus, "stage2", shard):
        for known in read_shard(corpus, "annotations", shard, Annotation):
            if known.task_id == task.task_id:
                yield render_generation(task, known.told, known.reasoning)
        return
    found = trace_task(task, config.tracing, resources.references(config.teacher.kind), config.seed)
    if isinstance(found, Reject):
        return
    analysis = [ReasoningStep(step, "x" * _STEP_CHARACTERS) for step in STEPS]
    reasoning = render_reasoning(task, found.told, ask_claims=True)
    yield render_generation(task, found.told, analysis) if stage == "stage3" else reasoning
