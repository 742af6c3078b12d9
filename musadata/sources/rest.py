"""A REST client that respects rate limits, retries failed requests, and caches answers by ETag."""

import hashlib
import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from musadata.errors import MusadataError
from musadata.storage import files

TRIES = 6
LONGEST_WAIT = 3700.0  # seconds; limits are reset hourly
SECONDS = 60
NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')


@dataclass(frozen=True)
class Answer:
    """One answer: its body, its links, and whether it came from the cache."""

    status: int
    body: bytes
    link: str
    cached: bool = False


class RestClient:
    """Answers are cached in `cache` with their ETag and requested again with If-None-Match.

    `sleep` and `now` can be replaced in tests.
    """

    def __init__(
        self,
        cache: Path,
        token: str = "",
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
    ):
        self._cache, self._token, self._sleep, self._now = cache, token, sleep, now

    def page(self, url: str) -> tuple[list[dict[str, Any]], str]:
        """The items on one page of a search, and the address of the next page ("" on the last).

        Raises:
            MusadataError: it cannot be had, or is no such page.
        """
        answer = self._get(url, "application/vnd.github+json")
        if answer is None:
            raise MusadataError("is not there", where=_shown(url), remedy="check the address of the API")
        try:
            items = json.loads(answer.body)["items"]
        except (ValueError, KeyError, TypeError) as error:
            raise MusadataError("answers something else than a search", where=_shown(url)) from error
        following = NEXT.search(answer.link)
        return items, following[1] if following else ""

    def text(self, url: str, accept: str) -> str | None:
        """A body as text, None if there is no such thing."""
        answer = self._get(url, accept)
        return answer.body.decode("utf-8", "replace") if answer is not None else None

    def _get(self, url: str, accept: str) -> Answer | None:
        kept = self._kept(url, accept)
        problem = ""
        for attempt in range(TRIES):
            try:
                return self._ask(url, accept, kept)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 304 and kept is not None:
                        return Answer(200, kept["body"].encode("latin-1"), kept["link"], cached=True)
                    if error.code in (404, 409, 410, 451):
                        return None
                    wait = self._wait(error, attempt)
                    if wait is None:
                        raise MusadataError(
                            f"refuses ({error.code} {error.reason})", where=_shown(url), remedy="set GITHUB_TOKEN"
                        ) from error
                    problem = f"{error.code} {error.reason}"
            except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
                wait, problem = 2.0**attempt, str(getattr(error, "reason", error)) or type(error).__name__
            self._sleep(wait)
        raise MusadataError(
            f"cannot be reached ({problem})", where=_shown(url), remedy="run it again: it goes on from here"
        )

    def _ask(self, url: str, accept: str, kept: dict[str, str] | None) -> Answer:
        headers = {"Accept": accept, "User-Agent": "musadata"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if kept is not None:
            headers["If-None-Match"] = kept["etag"]
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS) as reply:
            answer = Answer(reply.status, reply.read(), reply.headers.get("Link", ""))
            etag = reply.headers.get("ETag", "")
        if etag:
            self._keep(url, accept, answer, etag)
        return answer

    def _wait(self, error: urllib.error.HTTPError, attempt: int) -> float | None:
        """Seconds to wait before asking again; None if asking again is no use."""
        if error.code >= 500:
            return float(2**attempt)
        if error.code not in (403, 429):
            return None
        after, reset = error.headers.get("Retry-After"), error.headers.get("X-RateLimit-Reset")
        if after and after.isdigit():
            return min(float(after), LONGEST_WAIT)
        if error.headers.get("X-RateLimit-Remaining") == "0" and reset and reset.isdigit():
            return min(max(1.0, float(reset) - self._now() + 1), LONGEST_WAIT)
        return 60.0 * 2**attempt if error.code == 429 else None

    def _place(self, url: str, accept: str) -> Path:
        return self._cache / f"{hashlib.sha256(f'{accept} {url}'.encode()).hexdigest()[:32]}.json"

    def _kept(self, url: str, accept: str) -> dict[str, str] | None:
        try:
            kept: dict[str, str] = json.loads(self._place(url, accept).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return kept if {"etag", "link", "body"} <= set(kept) else None

    def _keep(self, url: str, accept: str, answer: Answer, etag: str) -> None:
        kept = {"etag": etag, "link": answer.link, "body": answer.body.decode("latin-1")}
        files.write_atomic(str(self._place(url, accept)), json.dumps(kept).encode())


def _shown(url: str) -> str:
    return url if len(url) < 160 else url[:157] + "…"
