"""What the requests of a corpus have used and cost, and the budget that ends a run."""

import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

from musadata.config import RequestsConfig, TeacherConfig
from musadata.errors import BudgetSpent
from musadata.records import NO_USAGE, Usage
from musadata.rows import restore
from musadata.storage.journal import Journal
from musadata.teacher.protocol import Request

NAME = "usage"  # of the journals
_TOKENS = ",".join(f'"{field.name}":%d' for field in fields(Usage))
_LEAST_SECONDS = 10.0  # between looks at what other processes have spent
_SHARE_OF_TIME = 0.05  # that such looks may take


@dataclass(frozen=True)
class Expense:
    """One reply that was paid for."""

    teacher: str
    kind: str
    family: str
    usage: Usage
    cost: float


@dataclass(frozen=True)
class Total:
    """The sum of some expenses."""

    requests: int = 0
    usage: Usage = NO_USAGE
    cost: float = 0.0

    def plus(self, expense: Expense) -> "Total":
        return Total(self.requests + 1, add_usage(self.usage, expense.usage), self.cost + expense.cost)


def add_usage(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        one.cached_tokens + other.cached_tokens,
    )


def cost_of(usage: Usage, config: TeacherConfig) -> float:
    """What a reply costs by the config's prices, in its currency."""
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    fresh, cached_price = usage.prompt_tokens - cached, config.cached_price or config.prompt_price
    millionths = fresh * config.prompt_price + cached * cached_price + usage.completion_tokens * config.completion_price
    return millionths / 1e6


def record(journal: Journal, key: str, teacher: str, request: Request, usage: Usage, config: TeacherConfig) -> None:
    """Write down what a reply has used; nothing if the server does not count."""
    if usage != NO_USAGE:
        about = _about(teacher, request.kind, request.task.operator_family)
        cost = repr(cost_of(usage, config))
        # A failure may come first.
        journal.put_json(f"{key}.{time.time_ns()}", f'{{{about},"usage":{usage_json(usage)},"cost":{cost}}}')


def usage_json(usage: Usage) -> str:
    """An object with all fields."""
    counts = usage.prompt_tokens, usage.completion_tokens, usage.reasoning_tokens, usage.cached_tokens
    return f"{{{_TOKENS % counts}}}"


@lru_cache(maxsize=1024)
def _about(teacher: str, kind: str, family: str) -> str:
    """The first fields of an `Expense` as JSON: most requests have them in common."""
    return json.dumps({"teacher": teacher, "kind": kind, "family": family})[1:-1]


def expenses(journals: Iterable[Journal], read: dict[str, int] | None = None) -> Iterable[Expense]:
    """All that the journals hold, or what is new beyond the positions in `read`."""
    positions = {} if read is None else read
    for journal in journals:
        for value in journal.new_values(positions):
            yield restore(Expense, value)


class Budget:
    """Refuses further requests when the corpus has used its tokens or money, in whichever process or stage."""

    def __init__(self, config: RequestsConfig, journals: Sequence[Journal]):
        self._config, self._journals = config, journals
        self._read: dict[str, int] = {}
        self._total = Total()
        self._next_look = 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Nothing while something is left.

        Raises:
            BudgetSpent: the budget is used up.
        """
        tokens, cost = self._config.budget_tokens, self._config.budget_cost
        if not tokens and not cost:
            return
        with self._lock:
            self._look()
            total = self._total
        used = total.usage.prompt_tokens + total.usage.completion_tokens
        if tokens and used >= tokens:
            raise _spent(f"{used:,} tokens of {tokens:,} are used", "budget_tokens")
        if cost and total.cost >= cost:
            raise _spent(f"{total.cost:.2f} of {cost:.2f} is spent", "budget_cost")

    def _look(self) -> None:
        start = time.monotonic()
        if start < self._next_look:
            return
        for expense in expenses(self._journals, self._read):
            self._total = self._total.plus(expense)
        took = time.monotonic() - start
        self._next_look = start + took + min(_LEAST_SECONDS, max(took / _SHARE_OF_TIME, 0.05))


def _spent(what: str, key: str) -> BudgetSpent:
    remedy = f"raise requests.{key} and run the same command again: answers are kept"
    return BudgetSpent(f"the budget is spent: {what}", where=f"requests.{key}", remedy=remedy)
