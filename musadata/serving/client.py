"""Asks a service for verdicts: what a `Verifier` gives, from another machine."""

import http.client
import json
import os
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import urlsplit

from musadata.errors import MusadataError, Outage
from musadata.records import InputSpec, Task, Verdict
from musadata.rows import plain, restore
from musadata.sandbox import current_cancellation
from musadata.verifier.policies import apply_policy, load_policy

TOKEN = "MUSADATA_TOKEN"  # the environment variable with the token that a service wants
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)  # before a request is sent again; the last one repeats
_LEEWAY_SECONDS = 5.0  # for the service to say that the time has passed
_UNFIT = (400, 401, 403, 404, 405, 413, 422)  # answers that another try would get as well


class RemoteVerifier:
    """Judges by a service, from as many threads as you like. What the service cannot judge is an `Outage`.

    Attributes:
        seconds: for each verdict, in which requests that fail are sent again.
    """

    def __init__(self, address: str, policy: str = "paper", seconds: float = 300.0):
        parts = urlsplit(address if "//" in address else f"http://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            remedy = "name it as http://host:port"
            raise MusadataError("is no address of a service", where=address, remedy=remedy)
        self._address, self._parts, self.seconds = address, parts, seconds
        self._policy = load_policy(policy)
        self._local = threading.local()  # each thread's connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Connections end with their threads."""

    def verify(self, task: Task, candidate: str, shape_sets: Sequence[Sequence[InputSpec]] = ()) -> Verdict:
        """See `Verifier.verify`.

        Raises:
            Outage: the service gave no verdict in `seconds`.
            MusadataError: it refuses the request, or the token.
        """
        truth = json.dumps({"task": plain(task), "shape_sets": plain(tuple(map(tuple, shape_sets)))})
        return self.ask({"candidate": candidate, "ground_truth": truth})

    def verify_text(self, reference: str, candidate: str) -> Verdict:
        """See `Verifier.verify_text`; the raises are those of `verify`."""
        return self.ask({"candidate": candidate, "reference": reference})

    def ask(self, question: dict[str, Any]) -> Verdict:
        """The verdict on a request in the service's words, under this client's policy; see `verify`."""
        end, cancellation, tries = time.monotonic() + self.seconds, current_cancellation(), 0
        while True:
            if cancellation is not None:
                cancellation.check()
            left = end - time.monotonic()
            status, answer = self._post({**question, "seconds": left}, left + _LEEWAY_SECONDS)
            if status == 200:
                verdict: Verdict = answer
                return verdict
            why = f"{status} {answer}"[:300] if status else str(answer)[:300]
            if status in _UNFIT:
                raise MusadataError(f"refuses the request ({why})", where=self._address, remedy=_remedy(status))
            pause = _PAUSES[min(tries, len(_PAUSES) - 1)] * random.uniform(0.5, 1.0)
            if time.monotonic() + pause >= end:
                raise Outage(f"gave no verdict in {self.seconds:g} s ({why})", where=self._address)
            tries += 1
            time.sleep(pause)

    def _post(self, question: dict[str, Any], seconds: float) -> tuple[int, Any]:
        """Status and answer; status 0 and the reason where there was none."""
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        connection = self._connection(seconds)
        was_open = connection.sock is not None
        try:
            connection.request("POST", f"{self._parts.path.rstrip('/')}/v1/verdicts", json.dumps(question), headers)
            response = connection.getresponse()
            text = response.read()
            if response.status != 200:
                return response.status, text.decode("utf-8", "replace")
            return 200, apply_policy(restore(Verdict, json.loads(text)["verdict"]), self._policy)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
            connection.close()  # the next request opens it anew
            if was_open and isinstance(error, ConnectionError):  # the service closes what was idle for long
                return self._post(question, seconds)
            return 0, f"{type(error).__name__}: {error}"

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            connection = self._local.connection = kind(self._parts.hostname or "", self._parts.port)
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        return connection


def _remedy(status: int) -> str:
    return f"set {TOKEN} to the service's token" if status == 401 else "use a service of the same version"
