"""A teacher inside of this process: vLLM's engine, without a server (`pip install 'musadata[vllm]'`).

The engine batches requests by itself as they come. It holds the device's memory, so there is one in a run: with several
workers start `vllm serve` and use kind `openai`.
"""

import asyncio
import inspect
import threading
from typing import Any

from musadata.config import RequestsConfig, TeacherConfig
from musadata.errors import BudgetSpent, Cancelled, MusadataError
from musadata.teacher.chat import REASONING_SCHEMA, TryAgain, body_of, name_of, one_line, read_answer
from musadata.teacher.loop import start_loop
from musadata.teacher.protocol import Answer, Keep, RemoteTeacher, Request, RequestFailed

_EXTRA = "pip install 'musadata[vllm]'"


class VLLMTeacher(RemoteTeacher):
    """Asks a model that this process loads. `answer` may be called from any number of threads.

    Attributes:
        name: model and sampling, for provenance and as part of the journal's key.
    """

    def __init__(self, config: TeacherConfig, requests: RequestsConfig | None = None):
        """Nothing is loaded yet: the first request does that."""
        self._config, self._requests = config, requests or RequestsConfig()
        self.name = name_of(config)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Any = None
        self._loading: asyncio.Lock
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._count = 0
        self._stopped: BaseException | None = None

    def answer_and_keep(self, request: Request, keep: Keep) -> Answer:
        """The model's reply.

        Raises:
            RequestFailed: no usable answer after the retries of the config.
            MusadataError: vLLM is not installed, cannot load the model, or its engine has died.
        """
        with self._lock:
            if self._stopped:
                raise self._stopped
            if self._loop is None:
                self._loading = asyncio.Lock()
                self._loop = start_loop("vllm")
        future = asyncio.run_coroutine_threadsafe(self._tracked(request, keep), self._loop)
        try:
            return future.result()
        except (asyncio.CancelledError, TimeoutError) as error:
            raise self._stopped or Cancelled("was closed during a request", where=self.name) from error

    def stop(self, error: BaseException) -> None:
        """End all requests, under way or to come, with an error; what is under way goes on if a budget is spent."""
        with self._lock:
            self._stopped = self._stopped or error
            loop = self._loop
        if loop is not None and not isinstance(error, BudgetSpent):
            loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def check_server(self) -> None:
        """Find out whether vLLM is installed; the model is loaded later.

        Raises:
            MusadataError: it is not.
        """
        try:
            import vllm  # noqa: F401
        except ImportError as error:
            raise MusadataError("vLLM is not installed", where="teacher.kind", remedy=_EXTRA) from error

    def close(self) -> None:
        """End the requests and the engine, which gives its memory back."""
        self.stop(Cancelled("was closed", where=self.name))
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _shut(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.shutdown()

    async def _tracked(self, request: Request, keep: Keep) -> Answer:
        task = asyncio.ensure_future(self._answer(request, keep))
        self._tasks.add(task)
        try:
            return await task
        finally:
            self._tasks.discard(task)

    async def _answer(self, request: Request, keep: Keep) -> Answer:
        try:
            answer = await self._ask(request)
        except RequestFailed as failure:
            keep(failure)
            raise
        keep(answer)
        return answer

    async def _ask(self, request: Request) -> Answer:
        said = ""
        for _ in range(self._requests.retries + 1):
            try:
                return read_answer(request, await self._generate(request), "vllm", self.name)
            except TryAgain as trouble:  # an empty reply; sampling may give another
                said = str(trouble)
        raise RequestFailed(f"no answer after {self._requests.retries + 1} tries", said)

    async def _generate(self, request: Request) -> dict[str, Any]:
        """The model's output in the form of a server's reply."""
        engine = await self._opened()
        tokenizer = engine.get_tokenizer()
        tokenizer = await tokenizer if inspect.isawaitable(tokenizer) else tokenizer
        body = body_of(request, self._config, structured=True)
        template: dict[str, Any] = body.pop("chat_template_kwargs", {})
        text = tokenizer.apply_chat_template(body["messages"], tokenize=False, add_generation_prompt=True, **template)
        self._count += 1
        prompt = {"prompt_token_ids": tokenizer.encode(text, add_special_tokens=False)}
        output = None
        try:
            async for partial in engine.generate(prompt, _sampling(body), f"musadata-{self._count}"):
                output = partial
        except MusadataError:
            raise
        except ValueError as error:  # such as a prompt that is too long
            raise RequestFailed("request refused", one_line(error)) from error
        except Exception as error:
            raise MusadataError(
                f"vLLM has failed ({one_line(error)})", where=self.name, remedy="see its log"
            ) from error
        if output is None:
            raise TryAgain("no output")
        best = output.outputs[0]
        used: dict[str, Any] = {
            "prompt_tokens": len(output.prompt_token_ids or ()),
            "completion_tokens": len(best.token_ids),
        }
        used["prompt_tokens_details"] = {"cached_tokens": output.num_cached_tokens or 0}
        choice = {"finish_reason": best.finish_reason, "message": {"content": best.text}}
        return {"model": self._config.model, "choices": [choice], "usage": used}

    async def _opened(self) -> Any:
        """The engine, its model loaded once."""
        async with self._loading:
            if self._engine is None:
                self.check_server()
                from vllm.engine.arg_utils import AsyncEngineArgs
                from vllm.v1.engine.async_llm import AsyncLLM

                try:
                    arguments = AsyncEngineArgs(model=self._config.model, **self._config.engine)
                    self._engine = AsyncLLM.from_engine_args(arguments)
                except Exception as error:
                    what = f"vLLM cannot load the model ({one_line(error)})"
                    raise MusadataError(what, where="teacher.model", remedy="check teacher.model and engine") from error
        return self._engine


def _sampling(body: dict[str, Any]) -> Any:
    """A request's settings as vLLM's; `response_format` becomes its JSON Schema."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    settings = {name: value for name, value in body.items() if name not in ("model", "messages", "response_format")}
    if "response_format" in body:
        settings["structured_outputs"] = StructuredOutputsParams(json=REASONING_SCHEMA)
    try:
        return SamplingParams(**settings)
    except (TypeError, ValueError) as error:
        what = f"vLLM does not know such sampling ({one_line(error)})"
        raise MusadataError(what, where="teacher.extra_body", remedy="name fields of vLLM's SamplingParams") from error
