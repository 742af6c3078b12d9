"""An HTTP server on loopback that misbehaves in named ways, below HTTP too. It may be a process of its own.

python -m tests.teacher.faulty_server --latency 0.2 --fault http_500 --share 0.1 --seed 1
"""

import argparse
import asyncio
import hashlib
import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

STEPS = (
    "semantic decomposition",
    "scalar mathematics",
    "shape calculation",
    "index mapping",
    "boundary handling",
    "error pre-analysis",
)
STEPS_TEXT = "\n\n".join(f"### {number}. {step.capitalize()}\n\nWords." for number, step in enumerate(STEPS, 1))
PROGRAM = "```python\nclass ModelNew:\n    pass\n```"


def completion(content: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "model": "tiny",
        "system_fingerprint": "fp-1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


def good_text(body: dict[str, Any]) -> str:
    steps = "response_format" in body or "### 1." in str(body["messages"][-1]["content"])
    return STEPS_TEXT if steps else f"Kernel.\n{PROGRAM}"


def http(status: int, body: bytes | dict[str, Any], *headers: str, kind: str = "application/json") -> bytes:
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    head = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def error(status: int, message: str, *headers: str, **more: Any) -> bytes:
    return http(status, {"error": {"message": message, **more}}, *headers)


def _ok(content: Any, finish: str = "stop", **message: Any) -> bytes:
    return http(200, completion(content, finish, **message))


Fault = Callable[[dict[str, Any]], bytes]
_SIX = dict.fromkeys(STEPS, "Words.")
# What passes when it is asked again, or is refused for one request alone; bytes go out as they are.
FAULTS: dict[str, Fault] = {
    "http_500": lambda body: error(500, "internal error"),
    "http_502_html": lambda body: http(502, b"<html>Bad gateway</html>", kind="text/html"),
    "http_503_retry_after": lambda body: error(503, "overloaded", "Retry-After: 0.05"),
    "http_503_retry_after_garbage": lambda body: error(503, "overloaded", "Retry-After: soon"),
    "http_504": lambda body: error(504, "gateway timeout"),
    "http_429": lambda body: error(429, "rate limit"),
    "http_429_rate_headers": lambda body: error(
        429, "rate limit", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 20ms"
    ),
    "http_408": lambda body: error(408, "timeout"),
    "http_418": lambda body: error(418, "teapot"),
    "http_422": lambda body: error(422, "bad role"),
    "http_400_context": lambda body: error(400, "This model's maximum context length is 4096 tokens"),
    "http_400_max_tokens": lambda body: error(400, "max_tokens is too large: 16384"),
    "redirect_nowhere": lambda body: http(302, b"", "Location: /nowhere"),
    "hang": lambda body: b"HANG",
    "close": lambda body: b"",
    "close_in_head": lambda body: b"HTTP/1.1 200 OK\r\nContent-Le",
    "close_in_body": lambda body: _ok(good_text(body))[:-20],
    "no_http": lambda body: b"\x00\x01garbage\r\n\r\n",
    "bad_status_line": lambda body: b"HTTP/1.1 banana\r\n\r\n",
    "broken_chunks": lambda body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nxx",
    "broken_gzip": lambda body: http(200, b"\x1f\x8bnot gzip", "Content-Encoding: gzip"),
    "slow_drip": lambda body: b"DRIP",
    "huge_reply": lambda body: b"HUGE",
    "empty_body": lambda body: http(200, b""),
    "not_json": lambda body: http(200, b"OK"),
    "html_200": lambda body: http(200, b"<html>Welcome</html>", kind="text/html"),
    "half_json": lambda body: http(200, json.dumps(completion(good_text(body))).encode()[:40]),
    "deep_json": lambda body: http(200, b"[" * 200_000),
    "json_list": lambda body: http(200, b"[1, 2]"),
    "json_null": lambda body: http(200, b"null"),
    "error_in_200": lambda body: error(200, "engine died", code=500),
    "error_text_in_200": lambda body: http(200, {"error": "engine died"}),
    "refused_in_200": lambda body: error(200, "bad field", code=400),
    "no_choices": lambda body: http(200, {"choices": []}),
    "null_choices": lambda body: http(200, {"choices": None}),
    "null_message": lambda body: http(200, {"choices": [{"message": None}]}),
    "text_message": lambda body: http(200, {"choices": [{"message": "hello"}]}),
    "null_choice": lambda body: http(200, {"choices": [None]}),
    "null_content": lambda body: _ok(None),
    "number_content": lambda body: _ok(7),
    "empty_content": lambda body: _ok(""),
    "blank_content": lambda body: _ok(" \n"),
    "refusal": lambda body: _ok(None, refusal="I cannot help with that."),
    "content_filter": lambda body: _ok("I", "content_filter"),
    "truncated": lambda body: _ok("### 1. Semantic decomposition\n\nWor```python\nclass Mod", "length"),
    "only_thoughts": lambda body: _ok("<think>Hmm, let me see", "length"),
    "thoughts_elsewhere": lambda body: _ok("", "length", reasoning_content="Hmm"),
}
# What is usable as it is.
VARIANTS: dict[str, Fault] = {
    "parts": lambda body: _ok([{"type": "text", "text": good_text(body)}]),
    "thoughts": lambda body: _ok(f"<think>Hmm </think>\n{good_text(body)}"),
    "end_of_thoughts": lambda body: _ok(f"Hmm </think>\n{good_text(body)}"),
    "lone_surrogate": lambda body: _ok(good_text(body) + " \ud83d"),
    "invalid_utf8": lambda body: http(
        200, json.dumps(completion(good_text(body) + " QQ")).encode().replace(b"QQ", b"\xff\xfe")
    ),
    "null_character": lambda body: _ok(good_text(body) + "\0"),
    "wrong_type": lambda body: http(200, completion(good_text(body)), kind="text/plain"),
    "odd_usage": lambda body: http(
        200, {**completion(good_text(body)), "usage": {"prompt_tokens": "many", "completion_tokens": -5}}
    ),
    "list_usage": lambda body: http(200, {**completion(good_text(body)), "usage": [1]}),
    "odd_logprobs": lambda body: http(
        200, {"choices": [{"message": {"content": good_text(body)}, "logprobs": {"content": [{"logprob": "x"}]}}]}
    ),
    "odd_finish": lambda body: _ok(good_text(body), 7),  # type: ignore[arg-type]
    "steps_in_fence": lambda body: _ok(
        "```json\n" + json.dumps(_SIX) + "\n```" if "response_format" in body else good_text(body)
    ),
    "steps_and_more": lambda body: _ok(
        json.dumps({**_SIX, "confidence": 1}) if "response_format" in body else good_text(body)
    ),
    "steps_in_lists": lambda body: _ok(
        json.dumps({name.title(): ["a", "b"] for name in _SIX}) if "response_format" in body else good_text(body)
    ),
}
# What is wrong for every request.
FATAL: dict[str, Fault] = {
    "http_401": lambda body: error(401, "bad key"),
    "http_403": lambda body: error(403, "not allowed"),
    "http_404": lambda body: error(404, "model `tiny` does not exist"),
    "http_402": lambda body: error(402, "Insufficient Balance"),
    "quota": lambda body: error(429, "You exceeded your current quota", code="insufficient_quota"),
    "quota_in_200": lambda body: error(200, "no credit", code="insufficient_quota"),
}
ALL = {**FAULTS, **VARIANTS, **FATAL}


class FaultyServer:
    """Answers well but for a share of requests, chosen by the hash of their messages, that meet one of `faults`.

    A request that met a fault meets it again, every time or `times` times. `/stats` gives counts as JSON.
    """

    def __init__(
        self,
        faults: tuple[str, ...] = (),
        share: float = 1.0,
        latency_s: float = 0.0,
        times: int = 10**9,
        seed: int = 0,
    ):
        self.faults, self.share, self.latency_s, self.times, self.seed = faults, share, latency_s, times, seed
        self.requests, self.most_at_once, self._now = 0, 0, 0
        self.asked: Counter[str] = Counter()
        self.url = ""
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> "FaultyServer":
        ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self.serve(0, ready),), daemon=True)
        self._thread.start()
        ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    async def serve(self, port: int, ready: threading.Event | None = None) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", port, limit=1 << 26)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        if ready:
            ready.set()
        else:
            print(self.url, flush=True)
        await self._stop.wait()
        server.close()
        open_still = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in open_still:
            task.cancel()
        await asyncio.gather(*open_still, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("content-length:")[2].split("\r\n")[0] or 0)
        data = await reader.readexactly(length)
        if head.startswith("get "):
            writer.write(http(200, self._about(head)))
            return True
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            return await self._answer(json.loads(data), data, writer)
        finally:
            self._now -= 1

    def _about(self, head: str) -> dict[str, Any]:
        if "/models" in head:
            return {"data": [{"id": "tiny"}]}
        repeated = sum(count - 1 for count in self.asked.values())
        return {"requests": self.requests, "most_at_once": self.most_at_once, "repeated": repeated}

    async def _answer(self, body: dict[str, Any], data: bytes, writer: asyncio.StreamWriter) -> bool:
        self.requests += 1
        key = hashlib.sha256(data).hexdigest()
        self.asked[key] += 1
        draw = random.Random(f"{self.seed} {key}")
        bad = self.faults and draw.random() < self.share and self.asked[key] <= self.times
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        sent = ALL[draw.choice(self.faults)](body) if bad else _ok(good_text(body))
        if sent == b"HANG":
            await asyncio.sleep(3600)
        elif sent == b"DRIP":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        elif sent == b"HUGE":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            for _ in range(100):
                writer.write(b" " * 1_000_000)
                await writer.drain()
        else:
            writer.write(sent)
            await writer.drain()
        whole = sent.partition(b"\r\n\r\n")
        return len(whole[2]) == int(whole[0].partition(b"Content-Length: ")[2].split(b"\r\n")[0] or -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--fault", nargs="*", default=[])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--times", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    server = FaultyServer(tuple(asked.fault), asked.share, asked.latency, asked.times, asked.seed)
    asyncio.run(server.serve(asked.port))


if __name__ == "__main__":
    main()
