"""The part of the configuration that says who is asked, and how. It is read as a part of `musadata.config`."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from musadata.bounds import Within


class TeacherType(StrEnum):
    COMPILER = "compiler"
    OPENAI = "openai"  # any server that speaks OpenAI's chat protocol: vLLM, a vendor's
    BATCH = "batch"  # OpenAI's batch API, or a folder of files in which others answer
    VLLM = "vllm"  # vLLM's engine in this process
    REPLAY = "replay"  # answers that were given before


class TeacherRole(StrEnum):
    REASONER = "reasoner"  # writes the six steps, and questions with answers
    GENERATOR = "generator"  # writes candidates
    REVIEWER = "reviewer"  # repairs them, from the verifier's feedback, and writes unit tests


@dataclass(frozen=True)
class TeacherConfig:
    """Who reasons and writes kernels.

    Attributes:
        kind: which teacher.
        samples: answers asked for per task; `sampling` says where it may be fewer or more.
        faults: answers per task in which the compiler teacher seeds a fault, to show the way of a repair; no training
            row is made of them.
        model: the model's name on the server, for `openai` and `batch`; its name or folder, for `vllm`.
        base_url: where the server is, up to and with `/v1`, for `openai` and `batch`. Its key is read from
            MUSADATA_API_KEY or OPENAI_API_KEY, never from a file.
        temperature: how freely the model samples.
        top_p: share of probability that it samples from.
        max_tokens: tokens that one answer may have.
        extra_body: what else each request holds (`top_k`, `logprobs`, `chat_template_kwargs`, …), for `openai`; null
            leaves a key out that musadata would send.
        send_seed: send a seed with each request, another one for each, for `openai`. Not all servers bear it.
        engine: arguments of the engine (`max_model_len`, `tensor_parallel_size`, …), for `vllm`.
        concurrency: requests that may be under way at once, for `openai`; of all workers of this machine together. The
            most that are in one file, for `batch`.
        timeout_seconds: how long one try of a request may take, for `openai`.
        prompt_price: price of a million prompt tokens, in your currency, for `openai`.
        cached_price: price of a million prompt tokens that the server had cached, for `openai`; 0 takes `prompt_price`.
        completion_price: price of a million completion tokens, thoughts included, for `openai`.
        weight: share of the requests among all teachers of a role, for `openai`.
        roles: what this teacher is asked for, for `openai`, where `teachers` has further ones.
        path: the journal's folder or the Parquet file with the answers, for `replay`; the folder of files for `batch`
            without `base_url`.
    """

    kind: TeacherType = TeacherType.COMPILER
    samples: Annotated[int, Within(1, 1000)] = 8
    faults: Annotated[int, Within(0, 1000)] = 1
    model: str = ""
    base_url: str = ""
    temperature: Annotated[float, Within(0, 10)] = 0.8
    top_p: Annotated[float, Within(0, 1)] = 0.95
    max_tokens: Annotated[int, Within(1)] = 16384
    extra_body: dict[str, Any] = field(default_factory=dict, hash=False)
    engine: dict[str, Any] = field(default_factory=dict, hash=False)
    send_seed: bool = False
    concurrency: Annotated[int, Within(1, 4096)] = 64
    timeout_seconds: float = 600.0
    prompt_price: Annotated[float, Within(0)] = 0.0
    cached_price: Annotated[float, Within(0)] = 0.0
    completion_price: Annotated[float, Within(0)] = 0.0
    weight: float = 1.0
    roles: tuple[TeacherRole, ...] = tuple(TeacherRole)
    path: str = ""


@dataclass(frozen=True)
class RequestsConfig:
    """How a server is asked. Rows do not depend on these keys: changing one runs nothing again.

    Attributes:
        retries: how often a request is sent again after trouble that may pass, with growing pauses.
        wait_seconds: how long a server that takes no connection is waited for, as when it is started anew; then the run
            ends, and the same command goes on with it.
        deadline_seconds: time from a request's first try to its last; then it is a reject.
        requests_per_minute: limit of the account; 0 for none.
        tokens_per_minute: limit of the account, prompts and completions together; 0 for none.
        stop_at_failed: share of failed requests among the last 100 at which the run stops; 1 never stops.
        budget_tokens: the run stops when so many tokens have been used in this corpus; 0 for no limit.
        budget_cost: the run stops when so much has been spent in this corpus, by the prices of `teacher`; 0 for no
            limit.
    """

    retries: Annotated[int, Within(0, 100)] = 7
    wait_seconds: Annotated[float, Within(0)] = 900.0
    deadline_seconds: Annotated[float, Within(0.1)] = 1800.0
    requests_per_minute: Annotated[float, Within(0)] = 0.0
    tokens_per_minute: Annotated[float, Within(0)] = 0.0
    stop_at_failed: Annotated[float, Within(0.01, 1)] = 0.5
    budget_tokens: Annotated[int, Within(0)] = 0
    budget_cost: Annotated[float, Within(0)] = 0.0


@dataclass(frozen=True)
class GroundingConfig:
    """How the claims of an analysis are checked before it is trained on.

    Attributes:
        transcribe: ask a teacher that gave no claims with its analysis, in one more request, to write its sentences as
            expressions over the facts.
        least_checked: share of an analysis' sentences that need a claim which facts decide; with fewer it is not
            grounded, and no row is trained on it.
    """

    transcribe: bool = False
    least_checked: Annotated[float, Within(0, 1)] = 0.0


@dataclass(frozen=True)
class UnitTestsConfig:
    """Unit tests for the kernels of a task, from the teacher.

    Attributes:
        samples: tests that the teacher is asked for, per task; 0 for none.
        honest: accepted candidates that a test has to pass, at the most, beside the reference.
        mutants: wrong candidates that it is run on, at the most.
        least_caught: share of these that it has to fail.
    """

    samples: Annotated[int, Within(0, 100)] = 1
    honest: Annotated[int, Within(1, 100)] = 2
    mutants: Annotated[int, Within(1, 100)] = 4
    least_caught: Annotated[float, Within(0, 1)] = 0.8


@dataclass(frozen=True)
class QuestionsConfig:
    """Questions about tasks and their kernels, asked of a model, with answers that are checked.

    Attributes:
        per_task: how many; 0 for none.
    """

    per_task: Annotated[int, Within(0, 100)] = 4
