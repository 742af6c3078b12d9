"""The warm fork server: imports the heavy modules once, locks itself in, then forks a fresh process for every call."""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from musadata.sandbox import confine
from musadata.sandbox.child import describe_error, resolve
from musadata.sandbox.guard import guard_call
from musadata.sandbox.limits import Limits
from musadata.sandbox.pages import collapse_memory, find_private_memory
from musadata.sandbox.wire import WireError, receive_frame, send_frame

_REAP_SECONDS = 0.05
_IDLE_SECONDS = 0.1
_MOST_CALLS_BEFORE = 64  # memory is collapsed
_GONE = (WireError, ConnectionError)  # the owner has closed, with or without having read all that was sent


def main(descriptor: int, owner: int, is_template: bool, modules: list[str]) -> None:
    """Import `modules`, then serve what process `owner` sends through the socket `descriptor` until it closes.

    A template forks a process for every socket that it is sent, which serves what comes through that.
    """
    sock = socket.socket(fileno=descriptor)
    confine.die_with_parent(owner)
    gc.disable()  # what is imported stays: looking for garbage in it costs a tenth of importing torch
    with contextlib.suppress(Exception):  # whoever says hello asks for them again, and is told
        _import(modules)
    if is_template:
        sock = _fork_for_each(sock)
    try:
        hello, _ = receive_frame(sock)
    except _GONE:  # nobody needed this process
        os._exit(0)
    os.environ.update(hello["environment"])
    try:
        _import(hello["preload"])
        _set_up(hello["setup"])
    except BaseException as error:
        send_frame(sock, {"ready": False, "error": describe_error(error)})
        return
    gc.enable()
    gc.freeze()  # else every fork's collector would touch, and so copy, all that is warm
    memory = find_private_memory()  # a jail may hide it
    folders, why = _lock_in(hello)
    running = 0
    calls, collapsed = 0, False
    try:
        send_frame(sock, {"ready": True, "namespaces": folders is not None, "why": why})
        while True:
            if not collapsed and (calls >= _MOST_CALLS_BEFORE or _is_idle(sock, running)):
                collapse_memory(memory)  # those who call at once need not wait for it
                collapsed = True
            while not select.select([sock], [], [], _REAP_SECONDS if running else None)[0]:
                running -= _reap()
            _serve_one(sock, folders)
            running += 1 - _reap()
            calls += 1
    except _GONE:
        os._exit(0)  # nothing to tidy up, and some libraries (Triton's) complain when the interpreter ends


def _fork_for_each(orders: socket.socket) -> socket.socket:
    """Fork this process for every socket that comes; returns in the forks."""
    gc.freeze()
    collapse_memory(find_private_memory())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their sandboxes see them end
    template = os.getpid()
    while True:
        data, descriptors, _, _ = socket.recv_fds(orders, 1, 1)
        if not data or not descriptors:  # all who could ask have ended
            os._exit(0)
        try:
            pid = os.fork()
        except OSError:  # no memory or no process left: the socket closes, and its sandbox tries again
            pid = -1
        if pid == 0:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            confine.die_with_parent(template)
            sock = socket.socket(fileno=descriptors[0])
            with contextlib.suppress(OSError):
                send_frame(sock, {"pid": os.getpid()})
            return sock
        os.close(descriptors[0])


def _import(modules: list[str]) -> None:
    for name in modules:
        importlib.import_module(name)


def _set_up(setup: str | None) -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # a fork does not take threads with it, so none must be relied upon
        torch.set_num_interop_threads(1)
    if setup:
        resolve(setup)()


def _lock_in(hello: dict[str, Any]) -> tuple[list[str] | None, str]:
    """Enter the jail if a trial in a throw-away process shows that calls work there: its folders, or why not."""
    if hello["plain"]:
        return None, "switched off by MUSADATA_SANDBOX=plain"
    folders = confine.readable_folders(hello["readable"])
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _try_jail(folders, hello["devices"], writer)
    os.close(writer)
    with os.fdopen(reader) as stream:
        why = stream.read()
    os.waitpid(pid, 0)
    if why != "works":
        return None, why or "the kernel refused"
    confine.enter_jail(folders, hello["devices"])
    return folders, ""


def _try_jail(folders: list[str], devices: list[str], writer: int) -> None:
    try:
        confine.enter_jail(folders, devices)
        for file in (str(importlib.__file__), __file__):
            Path(file).read_bytes()  # a strict umask may hide these from the user `nobody`
        first = confine.fork_into_cell()
        if first == 0:
            confine.furnish_cell(Limits(file_mb=1), folders)
            os._exit(0)
        why = "works" if os.waitpid(first, 0)[1] == 0 else "a cell cannot be furnished"
    except OSError as error:
        why = str(error)
    with contextlib.suppress(BrokenPipeError):  # the server has been ended meanwhile: nobody waits for this
        os.write(writer, why.encode())
    os._exit(0)


def _is_idle(sock: socket.socket, running: int) -> bool:
    """Whether nobody calls, now and for a moment."""
    return not running and not select.select([sock], [], [], _IDLE_SECONDS)[0]


def _serve_one(sock: socket.socket, folders: list[str] | None) -> None:
    data, descriptors, _, _ = socket.recv_fds(sock, 1, 2)
    if not data or len(descriptors) != 2:
        raise WireError("closed")
    request, _ = receive_frame(sock)
    channel, control = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    with contextlib.suppress(Exception):  # the call itself will report it
        resolve(request["function"])  # so that its module is warm for the calls that follow
    try:
        pid = os.fork() if folders is None else confine.fork_into_cell()
    except OSError as error:  # the machine has no memory or no process left
        with control, channel, contextlib.suppress(OSError):
            send_frame(control, {"how": "infra", "code": 0, "output": f"{type(error).__name__}: {error}"})
        return
    if pid == 0:
        sock.close()
        guard_call(request, channel, control, folders)
    channel.close()
    control.close()


def _reap() -> int:
    """Reap the calls that have ended, without waiting, and count them."""
    count = 0
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            count += 1
    return count
