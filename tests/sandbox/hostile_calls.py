"""What hostile code would try, one function each; run only inside the sandbox."""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from musadata.sandbox import Descriptor, ask


def echo(value):
    print("printed")
    return value


def read_and_write():
    text = Path("given.txt").read_text()
    Path("folder").mkdir()
    Path("folder/left.txt").write_text(text.upper())
    return text


def ask_twice():
    return [ask({"number": 1})["number"], ask({"number": 2})["data"].decode()]


def fork_bomb():
    while True:
        try:
            os.fork()
        except OSError:
            continue


def count_forks():
    count = 0
    try:
        while count < 10_000:
            if os.fork() == 0:
                time.sleep(100)
            count += 1
    except OSError:
        pass
    return count


def thread_bomb():
    while True:
        try:
            threading.Thread(target=time.sleep, args=(100,)).start()
        except RuntimeError:
            continue


def allocate(gigabytes):
    return len(bytearray(gigabytes << 30))


def allocate_by_torch(gigabytes):
    import torch

    return torch.ones(gigabytes << 28).numel()


def allocate_in_many_processes(megabytes, processes):
    for _ in range(processes):
        if os.fork() == 0:
            memory = b"x" * (megabytes << 20)
            time.sleep(100)
            os._exit(len(memory) and 0)
    time.sleep(100)


def loop():
    while True:
        pass


def sleep():
    time.sleep(1000)


def ignore_signals_and_loop():
    for number in (signal.SIGXCPU, signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    loop()


def print_without_end():
    while True:
        print("x" * 1000)


def write_without_end():
    for number in range(100_000):
        Path(f"file{number}").write_bytes(bytes(1 << 20))


def write_outside(path):
    Path(path).write_text("evil")


def read_outside(path):
    return Path(path).read_text(errors="replace")[:100]


def list_folder(path):
    return sorted(os.listdir(path))


def open_socket(kind):
    socket.socket(getattr(socket, kind), socket.SOCK_STREAM)


def connect():
    socket.create_connection(("127.0.0.1", 22), 1)


def kill_parent():
    for pid in (os.getppid(), 1):
        with contextlib.suppress(PermissionError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    return os.getppid()


def kill_itself(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "tgkill":
        getattr(ctypes.CDLL(None), "raise")(signal.SIGKILL)
    elif how == "pidfd":
        signal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGKILL)
    elif how == "limit":
        resource.setrlimit(resource.RLIMIT_CPU, (0, 0))
        while True:
            pass
    elif how == "child":
        if os.fork() == 0:
            os.kill(os.getppid(), signal.SIGKILL)
        os.wait()
    return "alive"


def kill_all():
    for pid in range(2, 100_000):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
    return "alone"


def leave_a_daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    return "left"


def segfault():
    ctypes.string_at(0)


def exit_silently():
    os._exit(0)


def leave():
    sys.exit(5)


def forge_result():
    channel = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]
    for name in channel:
        try:
            os.write(int(name), b"\xff\xff\xff\xff garbage")
        except OSError:
            continue
    return "genuine"


def send_deep_json():
    import musadata.sandbox.child as child

    text = b'{"header": ' + b"[" * 1_000_000
    child._channel.sendall(len(text).to_bytes(4, "little") + text)
    return "genuine"


def mount():
    if ctypes.CDLL(None, use_errno=True).mount(b"none", b"/tmp", b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount")


def new_namespace():
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
        raise OSError(ctypes.get_errno(), "unshare")


def trace_guard():
    if ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0):
        raise OSError(ctypes.get_errno(), "ptrace")


def read_guard_memory():
    Path("/proc/1/mem").open("rb").read(1)


def run_setuid_program():
    return subprocess.run(["su", "-c", "id"], capture_output=True, text=True).returncode


def environment():
    return dict(os.environ)


def raise_with_address():
    raise ValueError(f"object at {hex(id(object()))} in {Path.cwd()}/file")


def seed_of_random():
    import random

    return [hash("text"), random.random()]


def work_for_a_while():
    time.sleep(1.0)
    return "done"


def ask_once():
    return ask({"what": 1})


def write_into_given_file():
    file = ask({"wants": "file"})["file"]
    return os.write(file.number, b"from inside")


def hand_out_a_file():
    reader, writer = os.pipe()
    os.write(writer, b"from inside")
    return ask({"file": Descriptor(reader)})


def ask_and_then_hang():
    ask({"number": 1})
    while True:
        time.sleep(0.01)


def import_what_is_missing(foreign):
    if foreign:
        exec(compile("import no_such_package", "<reference>", "exec"), {})
    import musadata.no_such_package  # noqa: F401
