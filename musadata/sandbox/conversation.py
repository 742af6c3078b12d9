"""The trusted side of a running call: it answers what the call asks."""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from musadata.errors import Outage
from musadata.sandbox.cancellation import current_cancellation
from musadata.sandbox.wire import WireError, receive_attachments, send_frame, split_bytes

GRACE_SECONDS = 30.0
Serve = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Conversation:
    """How a call is answered while it runs.

    Attributes:
        serve: answers what it asks.
        deadline: until when it must have asked again or ended, by `time.monotonic`; None where only its limits count.
        files_asked: how many open files a question may carry: none where the call may be hostile.
    """

    serve: Serve | None = None
    deadline: Callable[[], float | None] = lambda: None
    files_asked: int = 0


def converse(
    channel: socket.socket, control: socket.socket, serve: Conversation, max_blobs: int
) -> tuple[dict[str, Any], bool]:
    """Answer the call's questions until its result, its end, or its guard's report is there: the result, and whether
    the call has missed its deadline or is cancelled."""
    cancellation = current_cancellation()
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        selector.register(control, selectors.EVENT_READ)
        if cancellation is not None:
            selector.register(cancellation, selectors.EVENT_READ)
        while True:
            longest = control.gettimeout() or GRACE_SECONDS
            deadline = serve.deadline()
            left = longest if deadline is None else max(0.0, deadline - time.monotonic())
            ready = {key.fileobj for key, _ in selector.select(min(longest, left))}
            if cancellation in ready or (not ready and left < longest):
                return {}, True
            if not ready:
                raise WireError("the guard does not answer")
            if channel not in ready:
                return {}, False
            channel.settimeout(GRACE_SECONDS)  # it may send half a frame and stop
            try:
                message, attached = receive_attachments(channel, max_blobs, serve.files_asked)
            except (WireError, OSError):
                return {}, False
            if "ask" not in message or serve.serve is None:
                result = message.get("result")
                return (result if isinstance(result, dict) else {}), False
            question = message["ask"]
            given = {**question, **attached} if isinstance(question, dict) else question
            _answer(channel, control, serve.serve, given)


def _answer(channel: socket.socket, control: socket.socket, serve: Serve, question: Any) -> None:
    control.sendall(b"P")
    try:
        answer = serve(question)
    except OSError as error:  # of whoever answers: the warm process is not lost
        raise Outage(f"cannot answer a call ({error.strerror or error})", where="sandbox") from error
    plain, attached = split_bytes(answer)
    control.sendall(b"R")
    with contextlib.suppress(OSError):
        send_frame(channel, {"answer": plain}, attached)
