"""A real HTTP server on loopback that speaks as much of OpenAI's chat protocol as the tests need."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from aiohttp import web

Behaviour = Callable[[dict[str, Any], int], tuple[int, dict[str, Any], dict[str, str]]]


def reply(text: str | None) -> tuple[int, dict[str, Any], dict[str, str]]:
    """A good answer."""
    return 200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]}, {}


def refusal(
    status: int, message: str = "no", code: str = "", **headers: str
) -> tuple[int, dict[str, Any], dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"error": {"message": message, "type": "test", "code": code}}, named


class ChatServer:
    """Answers as `behaviour(body, attempt)` says, attempts counted per last message; remembers what it was sent."""

    def __init__(
        self,
        behaviour: Behaviour,
        delay_s: Callable[[dict[str, Any]], float] = lambda body: 0.0,
        models: dict[str, Any] | None = None,
        port: int = 0,
    ):
        self._port = port
        self._behaviour, self._delay_s = behaviour, delay_s
        self._models = models or {"data": [{"id": "tiny"}]}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self._now = 0
        self._attempts: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event
        self.url = ""

    def __enter__(self) -> "ChatServer":
        ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(ready),), daemon=True)
        self._thread.start()
        ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_get("/v1/models", self._list_models)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self._port)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _list_models(self, request: web.Request) -> web.Response:
        return web.json_response(self._models, status=500 if "error" in self._models else 200)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        question = body["messages"][-1]["content"]
        self._attempts[question] += 1
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(self._delay_s(body))
        self._now -= 1
        status, answer, headers = self._behaviour(body, self._attempts[question])
        return web.json_response(answer, status=status, headers=headers)
