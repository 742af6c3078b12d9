"""A teacher behind any server that speaks OpenAI's chat protocol: vLLM, SGLang, a vendor's.

One event loop in a thread of its own holds the connections. `submit` hands it a request from any thread, and `answer`
waits for what comes of it. `request_gate` says when a request may be sent.
"""

import asyncio
import gc
import json
import random
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from musadata.config import RequestsConfig, TeacherConfig
from musadata.errors import BudgetSpent, Cancelled, MusadataError
from musadata.storage.journal import written_together
from musadata.teacher.absence import Absence
from musadata.teacher.chat import (
    BodyWriter,
    TryAgain,
    check_status,
    name_of,
    one_line,
    rate_limit_pause,
    read_answer,
    retry_delay,
    server_key,
)
from musadata.teacher.loop import start_loop
from musadata.teacher.protocol import Answer, Done, Keep, Request, RequestFailed, RequestKind, SubmittingTeacher
from musadata.teacher.request_gate import RequestGate

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.25, 30.0
_LONGEST_LOOK_S = 5.0  # between two looks for a server that does not answer
_PAID_RETRIES = 2  # of replies that cost tokens and are of no use
_LARGEST_REPLY = 1 << 25
_CHARACTERS_PER_TOKEN = 3.5
_CHECK_SECONDS = 30.0


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting:
    """A request, and what is called with its result: to keep it, and to tell who asked."""

    request: Request
    keep: Keep
    done: Done


class _Keeping:
    """Keeps the results that come in one turn of the loop together, with one write for each journal."""

    def __init__(self) -> None:
        self._batch: _Batch | None = None

    async def keep(self, keep: Keep, result: Answer | RequestFailed) -> None:
        """Return once the result is kept.

        Raises:
            Exception: what kept this result or another of the same turn from being written.
        """
        if (batch := self._batch) is None:
            batch = self._batch = _Batch([])
            asyncio.get_running_loop().call_soon(self._keep_all)
        batch.results.append((keep, result))
        await asyncio.sleep(0)  # the loop calls `_keep_all` before it goes on here
        if batch.error is not None:
            raise batch.error

    def _keep_all(self) -> None:
        batch, self._batch = self._batch, None
        assert batch is not None
        try:
            with written_together():
                for keep, result in batch.results:
                    keep(result)
        except Exception as error:
            batch.error = error


@dataclass(eq=False, slots=True)
class _Batch:
    results: list[tuple[Keep, Answer | RequestFailed]]
    error: Exception | None = None


class _Caller:
    """A thread that waits for its answer. A bare lock costs a third less than a `concurrent.futures.Future`."""

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._result: Answer | BaseException | None = None

    def end(self, result: Answer | BaseException) -> None:
        self._result = result
        self._done.release()

    def result(self) -> Answer:
        self._done.acquire()
        if isinstance(self._result, Answer):
            return self._result
        assert self._result is not None
        raise self._result


class OpenAITeacher(SubmittingTeacher):
    """Asks a chat endpoint. Usable as a context manager; closing it drops the connections.

    Attributes:
        name: model and sampling, for provenance and as part of the journal's key.
    """

    submits = True

    def __init__(
        self,
        config: TeacherConfig,
        requests: RequestsConfig | None = None,
        *,
        workers: int = 1,
        slots: Path | None = None,
        first_delay_s: float = _FIRST_DELAY_S,
    ):
        """Nothing is sent yet.

        Args:
            config: model, base_url, sampling parameters and concurrency.
            requests: retries, deadlines and limits.
            workers: processes that ask this server from this machine; they share the limits.
            slots: the file by which they share `concurrency`.
            first_delay_s: how long to wait before the first retry; doubles with every further one.
        """
        self._config, self._requests = config, requests or RequestsConfig()
        self._workers, self._slots = workers, slots
        self._first_delay_s = first_delay_s
        self.name = name_of(config)
        self._body = BodyWriter(config)
        self._server = config.base_url.rstrip("/")
        self._url = self._server + "/chat/completions"
        self._address = URL(self._url)  # parsed once
        self._absence = Absence(self._requests.wait_seconds, self._url)
        self._keeping = _Keeping()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gate: RequestGate
        self._session: aiohttp.ClientSession | None = None
        self._arrived: deque[_Waiting] = deque()
        self._woken = False
        self._tasks: set[asyncio.Task[None]] = set()  # workers
        self._busy = 0  # those that do not wait before they ask again
        self._stopped: BaseException | None = None
        self._structured = True  # until the server says that it does not know response_format

    def answer_and_keep(self, request: Request, keep: Keep) -> Answer:
        """`answer`, with `keep` called for the result while its slot is still held."""
        caller = _Caller()
        self.submit(request, keep, caller.end)
        return caller.result()

    def submit(self, request: Request, keep: Keep, done: Done) -> None:
        """Have `done` called in the loop's thread with the answer, or the error that `answer` would raise."""
        loop = self._running_loop()
        self._arrived.append(_Waiting(request, keep, done))
        if not self._woken:  # one wake-up serves all that arrive until the loop gets to it
            self._woken = True
            loop.call_soon_threadsafe(self._start)

    def stop(self, error: BaseException) -> None:
        """End all requests, under way or to come, with an error; what is under way goes on if a budget is spent."""
        with self._lock:
            self._stopped = self._stopped or error
            loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._stop_all)

    def check_server(self) -> None:
        """Ask the server for its models, before anything else is done.

        Raises:
            MusadataError: no server there, it refuses the key, or it does not have the model.
        """
        asyncio.run_coroutine_threadsafe(self._check_server(), self._running_loop()).result()

    def close(self) -> None:
        """Close the connections and end the loop's thread; what is under way is cancelled."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._stopped:
                raise self._stopped
            if self._loop is None:
                self._gate = RequestGate(self._requests, self._config.concurrency, self._workers, self._slots)
                # The collector need not look again at what is there now, torch alone a million objects: 2,000 requests
                # took 0.50 s of CPU with it and 0.35 s without.
                gc.freeze()
                self._loop = start_loop("teacher")
            return self._loop

    def _start(self) -> None:
        self._woken = False
        self._hire()

    def _hire(self) -> None:
        """Have as many workers as requests may be under way."""
        for _ in range(min(len(self._arrived), self._config.concurrency - self._busy)):
            self._busy += 1
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._stopped:
            self._end_arrived(self._stopped)

    async def _work(self) -> None:
        """Ask what has arrived, one request after the other: a task for each costs 20 µs more."""
        while self._arrived and self._busy <= self._config.concurrency:
            waiting = self._arrived.popleft()
            try:
                result: Answer | BaseException = await self._ask(waiting.request, waiting.keep)
            except asyncio.CancelledError:
                result = self._stopped or self._closed()
            except Exception as error:
                result = error
            if isinstance(result, MusadataError):  # every request would fail
                self._stopped = self._stopped or result
                self._stop_all()
            waiting.done(result)
        self._busy -= 1

    def _stop_all(self) -> None:
        if self._stopped:
            self._gate.stop(self._stopped)
            self._end_arrived(self._stopped)
        if isinstance(self._stopped, BudgetSpent):
            return
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def _end_arrived(self, error: BaseException) -> None:
        while self._arrived:
            self._arrived.popleft().done(error)

    def _closed(self) -> Cancelled:
        return Cancelled("was closed during a request", where=self._url)

    async def _close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self._end_arrived(self._closed())
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._gate.close()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, request: Request, keep: Keep) -> Answer:
        start, attempt, paid, looks = time.monotonic(), 0, 0, 0
        while True:
            attempt += 1
            left_s = self._requests.deadline_seconds - (time.monotonic() - start)
            trouble = await self._try(request, keep, left_s)
            if isinstance(trouble, Answer):
                return trouble
            said, asked_wait_s, costs, connected = trouble
            if asked_wait_s < 0:  # at once, in another form
                attempt -= 1
                continue
            looks = 0 if connected else looks + 1
            wait_s = min(self._first_delay_s * 2 ** (looks or attempt) / 2, _LONGEST_DELAY_S)
            wait_s = max(wait_s * random.uniform(0.75, 1.25), asked_wait_s)
            if looks:  # no try, and no time of the request's own
                if not self._absence.missed(said):
                    raise MusadataError(f"no server answers ({said})", where=self._url, remedy=_NO_SERVER)
                attempt, wait_s = attempt - 1, min(wait_s, _LONGEST_LOOK_S)
                start += wait_s
                await asyncio.sleep(wait_s)  # with its slot: others would find no server either
                continue
            paid += costs
            late = time.monotonic() - start + wait_s > self._requests.deadline_seconds
            if attempt > self._requests.retries or paid > _PAID_RETRIES or late:
                failure = RequestFailed(f"no answer after {attempt} tries", said)
                await self._keeping.keep(keep, failure)
                self._finish(failure)
                raise failure
            self._busy -= 1  # another worker asks meanwhile
            self._hire()
            try:
                await asyncio.sleep(wait_s)
            finally:
                self._busy += 1

    async def _try(self, request: Request, keep: Keep, left_s: float) -> Answer | tuple[str, float, bool, bool]:
        """An answer; or what went wrong, how long the server asks to wait, whether it cost tokens, and whether there
        was a server at all."""
        data = self._body.write(request, self._structured)
        estimate = len(data) / _CHARACTERS_PER_TOKEN
        slot = await self._gate.enter(estimate)
        headers: Any = {}
        try:
            status, headers, reply = await self._post(data, left_s)
            self._absence.replied()
            if status in (400, 422) and self._asks_for_json(request) and "response_format" in str(reply):
                self._structured = False  # an older server: ask for headings alone
                return "response_format refused", -1.0, False, True
            check_status(status, reply, self._url, self._config.model)
            answer = read_answer(request, reply, self._server, self.name)
            self._gate.replied(False)
            self._gate.used(answer.usage.prompt_tokens + answer.usage.completion_tokens - estimate)
            self._gate.pause(rate_limit_pause(headers))
            await self._keeping.keep(keep, answer)
        except TryAgain as trouble:
            self._gate.replied(trouble.overloaded)
            self._gate.pause(rate_limit_pause(headers))
            return str(trouble), retry_delay(headers), trouble.usage.completion_tokens > 0, True
        except RequestFailed as failure:
            self._gate.replied(False)
            await self._keeping.keep(keep, failure)
            self._finish(failure)
            raise
        except (aiohttp.ClientConnectorError, ConnectionRefusedError) as error:
            return _name(error), 0.0, False, False
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._gate.replied(isinstance(error, TimeoutError))
            return _name(error), 0.0, isinstance(error, ValueError), True
        finally:
            self._gate.give_back(slot)
        self._gate.finished("", self._url)
        return answer

    def _asks_for_json(self, request: Request) -> bool:
        """Whether we ask for a JSON Schema, and not the user."""
        return (
            self._structured and request.kind is RequestKind.REASON and "response_format" not in self._config.extra_body
        )

    def _finish(self, failure: RequestFailed) -> None:
        self._gate.finished(str(failure), self._url)
        if self._gate.stopped:
            raise self._gate.stopped

    async def _post(self, data: bytes, left_s: float) -> tuple[int, Any, Any]:
        """The reply within the configured time, and before a deadline."""
        payload = aiohttp.BytesPayload(data)  # which aiohttp would look up by the type of the data
        async with asyncio.timeout(min(left_s, self._config.timeout_seconds)):
            async with self._open_session().post(self._address, data=payload) as response:
                return response.status, response.headers, await _read(response)

    async def _check_server(self) -> None:
        url = f"{self._server}/models"
        try:
            async with self._open_session().get(url, timeout=aiohttp.ClientTimeout(total=_CHECK_SECONDS)) as response:
                status, reply = response.status, await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise MusadataError(f"no server answers ({_name(error)})", where=url, remedy=_NO_SERVER) from error
        if status in (401, 402, 403):
            check_status(status, reply, url, self._config.model)
        listed = reply.get("data") if status == 200 and isinstance(reply, dict) else None
        names = [one.get("id") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        if names and self._config.model not in names:
            await self._check_model(names)

    async def _check_model(self, names: list[Any]) -> None:
        """A server may have models that it does not list: ask for one token."""
        body = {"model": self._config.model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        try:
            status, _, reply = await self._post(json.dumps(body).encode(), _CHECK_SECONDS)
            check_status(status, reply, self._url, f"{self._config.model}; listed: {', '.join(map(str, names[:8]))}")
        except (TryAgain, RequestFailed, aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return  # whatever it is, it is not the model's name

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            key = server_key()
            self._session = aiohttp.ClientSession(
                headers={**_JSON, "Authorization": f"Bearer {key}"} if key else _JSON,
                timeout=aiohttp.ClientTimeout(total=None),
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=urlsplit(self._url).hostname not in _LOOPBACK,  # a proxy, unless the server is here
            )
        return self._session


_JSON = {"Content-Type": "application/json"}
_NO_SERVER = "start the server or check teacher.base_url, then run the same command again"


async def _read(response: aiohttp.ClientResponse) -> Any:
    """The JSON of a reply, its text where it is none. Invalid UTF-8 becomes U+FFFD.

    Raises:
        ValueError: the reply is larger than any answer.
    """
    chunks, size = [], 0
    while not response.content.at_eof():
        chunks.append(chunk := await response.content.readany())
        size += len(chunk)
        if size > _LARGEST_REPLY:
            raise ValueError(f"a reply of more than {_LARGEST_REPLY >> 20} MiB")
    text = b"".join(chunks).decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _name(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}".rstrip(": "))
