"""A teacher behind any server that speaks OpenAI's chat protocol: vLLM, SGLang, a vendor's.

One event loop in a thread of its own holds the connections, so `answer` may be called from any number of threads; as
soon as one request is answered, its caller can send the next.
"""

import asyncio
import os
import random
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from musadata.config import TeacherConfig
from musadata.errors import MusadataError
from musadata.teacher.chat import body_of, failure_of, read_answer, retry_delay
from musadata.teacher.protocol import Answer, Request

KEY_VARIABLES = ("MUSADATA_API_KEY", "OPENAI_API_KEY")
_ATTEMPTS = 7
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class OpenAITeacher:
    """Asks a chat endpoint. Usable as a context manager; closing it drops the connections.

    Attributes:
        name: model and sampling, for provenance and as part of the journal's key.
    """

    def __init__(self, config: TeacherConfig, *, first_delay_s: float = 1.0):
        """Nothing is sent yet.

        Args:
            config: model, base_url, sampling parameters and concurrency.
            first_delay_s: how long to wait before the first retry; doubles with every further one.
        """
        self._config = config
        self._first_delay_s = first_delay_s
        self.name = (
            f"openai:{config.model}:temperature={config.temperature:g}:top_p={config.top_p:g}:"
            f"max_tokens={config.max_tokens}"
        )
        self._url = config.base_url.rstrip("/") + "/chat/completions"
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: aiohttp.ClientSession | None = None
        self._structured = True  # until the server says that it does not know response_format

    def answer(self, request: Request) -> Answer:
        """The model's reply.

        Raises:
            CannotAnswer: the server refuses this request alone, or the reply is empty.
            MusadataError: the server cannot be reached, stays overloaded, or refuses key, model or path.
        """
        return asyncio.run_coroutine_threadsafe(self._ask(request), self._running_loop()).result()

    def close(self) -> None:
        """Close the connections and end the loop's thread."""
        with self._lock:
            loop, session, self._loop, self._session = self._loop, self._session, None, None
        if loop is not None:
            if session is not None:
                asyncio.run_coroutine_threadsafe(session.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def __enter__(self) -> "OpenAITeacher":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="teacher", daemon=True).start()
            return self._loop

    async def _ask(self, request: Request) -> Answer:
        failure, wait_s = "", 0.0
        for attempt in range(_ATTEMPTS):
            await asyncio.sleep(wait_s)
            wait_s = self._first_delay_s * 2**attempt * random.uniform(0.75, 1.25)
            try:
                status, headers, reply = await self._post(body_of(request, self._config, self._structured))
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failure = f"{type(error).__name__}: {error}".rstrip(": ")
                continue
            if status == 200:
                return read_answer(request, reply)
            if self._structured and status in (400, 422) and "response_format" in str(reply):
                self._structured, wait_s = False, 0.0  # an older server: ask for headings alone
                continue
            failure = failure_of(status, reply, self._url, self._config.model)
            wait_s = max(wait_s, retry_delay(headers))
        raise MusadataError(
            f"no answer after {_ATTEMPTS} attempts ({failure})",
            where=self._url,
            remedy="check that the server runs, lower teacher.concurrency, or raise teacher.timeout_seconds",
        )

    async def _post(self, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        session = await self._open_session()
        async with session.post(self._url, json=body) as response:
            text = await response.text()
            reply: Any = text
            with suppress(ValueError):
                reply = await response.json(content_type=None)
            return response.status, dict(response.headers), reply

    async def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")
            self._session = aiohttp.ClientSession(
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=aiohttp.ClientTimeout(total=self._config.timeout_seconds),
                connector=aiohttp.TCPConnector(limit=0),
                trust_env=urlsplit(self._url).hostname not in _LOOPBACK,  # a proxy, unless the server is here
            )
        return self._session
