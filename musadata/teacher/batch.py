"""A teacher behind a batch service: requests go off as one file, and a file of replies comes back hours later.

A service is OpenAI's batch API at `base_url` (`/files`, `/batches`), which many others speak, or a folder (`path`),
where somebody turns `NAME.input.jsonl` into `NAME.output.jsonl`, as vLLM's `run_batch` does: the lines are the same.

A request that an earlier, killed run has sent is found in the service's own batches, by its hash, and not sent again.
"""

import hashlib
import json
import math
import os
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from musadata.config import RequestsConfig, TeacherConfig
from musadata.errors import BudgetSpent, MusadataError
from musadata.teacher.chat import TryAgain, body_of, check_status, name_of, one_line, read_answer, server_key
from musadata.teacher.protocol import Answer, Keep, RemoteTeacher, Request, RequestFailed

_SETTLE_SECONDS = 5.0  # without another request, then what is there makes a batch
_POLL_SECONDS = 30.0
_SAY_SECONDS = 1800.0  # between two lines about a batch that is waited for
_STILL_SECONDS = 600.0  # after which an output that nobody writes to is taken as it is
_MOST_KNOWN = 100  # of the service's latest batches, in which requests are looked for
_MARK = {"made_by": "musadata"}
_REMEDY_IN_FOLDER = "remove the output file of this batch and make it again, with vLLM's option"
_ENDED_BADLY = ("failed", "cancelled", "cancelling")


class Batches(Protocol):
    """A service that takes files of requests."""

    def known(self) -> Iterable[tuple[str, list[str]]]:
        """Batches of earlier runs that may still give replies, and the ids of their requests."""
        ...

    def submit(self, lines: list[dict[str, Any]]) -> str:
        """Send a file of requests; the id of its batch."""
        ...

    def collect(self, batch: str) -> tuple[list[dict[str, Any]], bool]:
        """The replies that are there, and whether none will follow."""
        ...

    def place(self, batch: str) -> str:
        """Where its replies are expected."""
        ...


class ServerBatches:
    """OpenAI's batch API."""

    def __init__(self, config: TeacherConfig):
        self._url, self._config = config.base_url.rstrip("/"), config

    def known(self) -> Iterator[tuple[str, list[str]]]:
        for batch in json.loads(self._call("GET", f"/batches?limit={_MOST_KNOWN}")).get("data", ()):
            if (batch.get("metadata") or {}).get("made_by") == "musadata" and batch["status"] not in _ENDED_BADLY:
                text = self._call("GET", f"/files/{batch['input_file_id']}/content")
                yield batch["id"], [line["custom_id"] for line in _read_lines(text)]

    def submit(self, lines: list[dict[str, Any]]) -> str:
        name, border = f"{_digest_of(lines)}.jsonl", uuid.uuid4().hex
        parts = (("purpose", "", b"batch"), ("file", f'; filename="{name}"', _as_lines(lines)))
        form = b"".join(
            f'--{border}\r\nContent-Disposition: form-data; name="{field}"{more}\r\n\r\n'.encode() + data + b"\r\n"
            for field, more, data in parts
        )
        kind = f"multipart/form-data; boundary={border}"
        file = json.loads(self._call("POST", "/files", form + f"--{border}--\r\n".encode(), kind))
        asked = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        made = self._call("POST", "/batches", json.dumps(asked | {"metadata": _MARK}).encode())
        return str(json.loads(made)["id"])

    def place(self, batch: str) -> str:
        return f"{self._url}/batches/{batch}"

    def collect(self, batch: str) -> tuple[list[dict[str, Any]], bool]:
        state = json.loads(self._call("GET", f"/batches/{batch}"))
        if state["status"] in _ENDED_BADLY:
            said = one_line(state.get("errors") or state["status"])
            raise MusadataError(f"the batch {batch} has failed ({said})", where=self._url, remedy="mend what it says")
        if state["status"] not in ("completed", "expired"):
            return [], False
        files = [state.get(name) for name in ("output_file_id", "error_file_id")]
        read = (_read_lines(self._call("GET", f"/files/{file}/content")) for file in files if file)
        return [line for lines in read for line in lines], True

    def _call(self, method: str, path: str, data: bytes | None = None, kind: str = "application/json") -> bytes:
        headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {key}"} if (key := server_key()) else {})
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self._config.timeout_seconds) as reply:
                answered: bytes = reply.read()
                return answered
        except urllib.error.HTTPError as error:
            try:
                said: Any = json.loads(error.read())
            except ValueError:
                said = error.reason
            try:
                check_status(error.code, said, self._url + path, self._config.model)
            except RequestFailed as refused:
                remedy = "check teacher.base_url and teacher.model"
                raise MusadataError(str(refused), where=self._url + path, remedy=remedy) from error
            raise


class FolderBatches:
    """Files that somebody else answers. What of an output is there is read; what it lacks when nobody has written to it
    for a while will not come."""

    def __init__(self, folder: str):
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def known(self) -> Iterator[tuple[str, list[str]]]:
        for path in sorted(self._folder.glob("*.input.jsonl")):
            yield path.name.removesuffix(".input.jsonl"), [line["custom_id"] for line in _read_lines(path.read_bytes())]

    def submit(self, lines: list[dict[str, Any]]) -> str:
        batch = _digest_of(lines)
        unfinished = self._folder / f".{batch}.{os.getpid()}"
        unfinished.write_bytes(_as_lines(lines))
        unfinished.rename(self._folder / f"{batch}.input.jsonl")
        return batch

    def place(self, batch: str) -> str:
        return str(self._folder / f"{batch}.output.jsonl")

    def collect(self, batch: str) -> tuple[list[dict[str, Any]], bool]:
        path = Path(self.place(batch))
        if not path.exists():
            return [], False
        asked = {line["custom_id"] for line in _read_lines((self._folder / f"{batch}.input.jsonl").read_bytes())}
        still_s = time.time() - path.stat().st_mtime
        found = [line for line in _read_lines(path.read_bytes()) if line["custom_id"] in asked]
        return found, still_s > _STILL_SECONDS or asked == {line["custom_id"] for line in found}


class BatchTeacher(RemoteTeacher):
    """Asks a batch service. `answer` may be called from any number of threads; what waits together is sent together.

    Attributes:
        name: as that of `OpenAITeacher`, since the same model gives the same answers either way.
    """

    def __init__(
        self,
        config: TeacherConfig,
        requests: RequestsConfig | None = None,
        *,
        settle_s: float = _SETTLE_SECONDS,
        poll_s: float = _POLL_SECONDS,
    ):
        """Nothing is sent yet. A batch has at most `concurrency` requests."""
        self._config, self._requests = config, requests or RequestsConfig()
        self._settle_s, self._poll_s = settle_s, poll_s
        self.name = name_of(config)
        self._batches: Batches = FolderBatches(config.path) if config.path else ServerBatches(config)
        self._changed = threading.Condition()
        self._new: dict[str, dict[str, Any]] = {}  # id -> line, not sent yet
        self._waiting: dict[str, list[Future[dict[str, Any]]]] = {}
        self._sent: dict[str, list[str]] = {}  # batch -> ids
        self._said: dict[str, float] = {}  # batch -> when
        self._stopped: BaseException | None = None
        self._thread: threading.Thread | None = None

    def answer_and_keep(self, request: Request, keep: Keep) -> Answer:
        """The model's reply, when its batch is done.

        Raises:
            RequestFailed: no usable answer after the retries of the config.
            MusadataError: the service refuses the batch or cannot be reached.
        """
        tries = 0
        while True:
            try:
                answer = self._read(request, self._reply_to(_line_of(request, self._config, tries)))
            except TryAgain as trouble:
                tries += 1
                if tries <= self._requests.retries:
                    continue
                failure = RequestFailed(f"no answer after {tries} tries", str(trouble))
                keep(failure)
                raise failure from trouble
            except RequestFailed as failure:
                keep(failure)
                raise
            keep(answer)
            return answer

    def stop(self, error: BaseException) -> None:
        """End all waiting with an error; batches that are sent stay at the service for the next run.

        If a budget is spent, who waits for a batch that is sent goes on waiting: it is paid for.
        """
        with self._changed:
            self._stopped = self._stopped or error
            for one in list(self._new if isinstance(error, BudgetSpent) else self._waiting):
                for future in self._waiting.pop(one, ()):
                    future.set_exception(error)
            self._new.clear()
            self._changed.notify_all()

    def check_server(self) -> None:
        """Ask the service for its batches; a folder was made already.

        Raises:
            MusadataError: there is no such service, or it refuses the key.
        """
        try:
            next(iter(self._batches.known()), None)
        except (TryAgain, OSError) as error:
            remedy = "check teacher.base_url"
            raise MusadataError(
                f"no batch service ({one_line(error)})", where=self._config.base_url, remedy=remedy
            ) from error

    def close(self) -> None:
        self.stop(MusadataError("was closed", where=self.name, remedy="run the same command again"))
        if self._thread is not None:
            self._thread.join()

    def _read(self, request: Request, line: dict[str, Any]) -> Answer:
        response, error = line.get("response") or {}, line.get("error")
        status, body = int(response.get("status_code") or 0), response.get("body")
        if error and status < 400:  # such as a request that the service has not got to
            raise TryAgain(one_line(error))
        server = self._config.path or self._config.base_url
        try:
            check_status(status, body or _unwrapped(error), server, self._config.model)
        except MusadataError as refusal:
            if not self._config.path:
                raise
            remedy = f"{_REMEDY_IN_FOLDER} --served-model-name {self._config.model}"  # the next run finds these replies
            raise MusadataError(refusal.what, where=server, remedy=remedy) from refusal
        return read_answer(request, body, server, self.name)

    def _reply_to(self, line: dict[str, Any]) -> dict[str, Any]:
        future: Future[dict[str, Any]] = Future()
        with self._changed:
            if self._stopped:
                raise self._stopped
            self._waiting.setdefault(line["custom_id"], []).append(future)
            self._new[line["custom_id"]] = line
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return future.result()

    def _work(self) -> None:
        try:
            earlier = {one: batch for batch, ids in self._batches.known() for one in ids}
            while self._gather():
                self._send(earlier)
                self._collect()
        except BaseException as error:  # whatever it is, those who wait have to know
            self.stop(error)

    def _gather(self) -> bool:
        """Wait until requests have stopped coming, or for the next look at batches; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._new or self._has_ended(), None if not self._sent else self._poll_s)
            known = -1
            while not self._stopped and known < len(self._new) < self._config.concurrency:
                known = len(self._new)
                self._changed.wait_for(
                    lambda: len(self._new) >= self._config.concurrency or self._stopped, self._settle_s
                )
            return not self._has_ended()

    def _has_ended(self) -> bool:
        return self._stopped is not None and not self._waiting

    def _send(self, earlier: dict[str, str]) -> None:
        with self._changed:
            lines, self._new = self._new, {}
        fresh = []
        for one, line in lines.items():
            if batch := earlier.pop(one, ""):
                self._sent.setdefault(batch, []).append(one)
            else:
                fresh.append(line)
        for start in range(0, len(fresh), self._config.concurrency):
            some = fresh[start : start + self._config.concurrency]
            self._sent[self._patiently(lambda some=some: self._batches.submit(some))] = [
                line["custom_id"] for line in some
            ]

    def _collect(self) -> None:
        for batch, ids in list(self._sent.items()):
            found, done = self._patiently(lambda batch=batch: self._batches.collect(batch))
            replies = {line["custom_id"]: line for line in found}
            lacking = [one for one in ids if one not in replies]
            with self._changed:
                for one in ids if done else replies.keys() & set(ids):
                    reply = replies.get(one, {"error": "the batch has no reply"})
                    for future in self._waiting.pop(one, ()):
                        future.set_result(reply)
            self._sent[batch] = lacking
            if done or not lacking:
                del self._sent[batch]
            else:
                self._say_waiting(batch, len(lacking))

    def _say_waiting(self, batch: str, count: int) -> None:
        """Now and then, since it may take a day."""
        now = time.monotonic()
        if now - self._said.get(batch, -math.inf) > _SAY_SECONDS:
            self._said[batch] = now
            text = f"waiting for {count} replies of batch {batch}, at {self._batches.place(batch)}"
            print(f"musadata: {text}", file=sys.stderr, flush=True)

    def _patiently(self, call: Any) -> Any:
        """The result of a call, which is repeated while the service has trouble that may pass."""
        for attempt in range(self._requests.retries + 1):
            try:
                return call()
            except (TryAgain, OSError) as error:
                if attempt == self._requests.retries:
                    remedy = "run the same command again: its batches are kept"
                    raise MusadataError(
                        f"the service fails ({one_line(error)})", where=self.name, remedy=remedy
                    ) from error
                time.sleep(min(self._poll_s, 2.0**attempt))
        raise AssertionError


def _unwrapped(error: Any) -> Any:
    """vLLM's `run_batch` gives an error within an error, and no body."""
    return error if isinstance(error, dict) and isinstance(error.get("error"), dict) else {"error": error}


def _line_of(request: Request, config: TeacherConfig, tries: int) -> dict[str, Any]:
    """A request as a line of a batch's file; another id for every try, sample, turn and seed."""
    body = body_of(request, config, structured=True)
    about = request.task.task_id, request.kind.value, request.sample, request.turn, request.seed, tries
    one = hashlib.sha256(json.dumps([about, body], sort_keys=True).encode()).hexdigest()[:32]
    return {"custom_id": one, "method": "POST", "url": "/v1/chat/completions", "body": body}


def _digest_of(lines: list[dict[str, Any]]) -> str:
    return hashlib.sha256("".join(line["custom_id"] for line in lines).encode()).hexdigest()[:24]


def _as_lines(lines: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _read_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON lines of a file; what is torn is left out."""
    for line in data.decode("utf-8", "replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "custom_id" in value:
            yield value
