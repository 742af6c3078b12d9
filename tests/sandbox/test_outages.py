"""What the machine does to a call is not held against the call."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psutil
import pytest

from musadata.errors import Cancelled, MusadataError, Outage
from musadata.sandbox import Limits, Sandbox, allow_plain, client
from tests.sandbox.conftest import SMALL

PATIENT = replace(SMALL, seconds=60)
REFUSED = """import musadata.sandbox.server as server
server._lock_in = lambda hello: (None, "refused here")
main(int"""


@pytest.fixture
def quick_pauses(monkeypatch):
    monkeypatch.setattr(client, "_PAUSE_SECONDS", (0.0, 0.1, 0.2))


def kill_calls(sandbox: Sandbox, stop: threading.Event, times: int) -> None:
    """SIGKILL the innermost process of a call, as the kernel does where memory is short."""
    while times and not stop.is_set():
        for process in psutil.Process(sandbox._process.pid).children(recursive=True) if sandbox._process else ():
            try:
                if not process.children() and psutil.Process(process.ppid()).pid != sandbox._process.pid:
                    time.sleep(0.1)
                    process.kill()
                    times -= 1
                    break
            except (psutil.Error, AttributeError):
                continue
        time.sleep(0.02)


@pytest.mark.parametrize(("times", "ends"), [(1, "ok"), (2, "ok"), (3, "outage")])
def test_killed_call_is_carried_out_again_and_never_takes_the_blame(walled, quick_pauses, times, ends):
    stop = threading.Event()
    killer = threading.Thread(target=kill_calls, args=(walled, stop, times))
    killer.start()
    try:
        if ends == "outage":
            with pytest.raises(Outage, match="killed from outside"):
                walled.call("hostile_calls:work_for_a_while", limits=PATIENT)
        else:
            assert walled.call("hostile_calls:work_for_a_while", limits=PATIENT).value == "done"
    finally:
        stop.set()
        killer.join()


@pytest.mark.parametrize("how", ["kill", "tgkill", "pidfd", "limit", "child"])
def test_call_cannot_make_its_own_end_look_like_an_outage(walled, how):
    outcome = walled.call("hostile_calls:kill_itself", how, limits=SMALL)
    assert outcome.status in ("ok", "error", "timeout", "crash"), outcome


def test_call_that_answers_questions_is_left_to_its_caller_to_repeat(walled):
    asked = []

    def serve(question):
        asked.append(question)
        for process in psutil.Process(walled._process.pid).children(recursive=True):
            process.kill()
        return {}

    with pytest.raises(Outage):
        walled.call("hostile_calls:ask_once", serve=serve, limits=PATIENT)
    assert len(asked) == 1


def test_server_that_never_starts_is_an_outage_in_bounded_time(monkeypatch, quick_pauses):
    monkeypatch.setattr(client, "_BOOT", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    start = time.monotonic()
    with pytest.raises(Outage, match="did not start"):
        Sandbox(preload=()).__enter__()
    assert time.monotonic() - start < 30


def test_closing_cancels_calls_and_gives_no_outcome():
    with Sandbox(preload=(), limits=Limits(seconds=30)) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.call, "hostile_calls:loop")
        time.sleep(1.0)
        sandbox.close()
        with pytest.raises(Cancelled):
            call.result(30)


def test_without_namespaces_foreign_code_is_not_run_unless_the_user_says_so(monkeypatch):
    monkeypatch.setattr(client, "_BOOT", client._BOOT.replace("main(int", REFUSED))
    monkeypatch.delenv("MUSADATA_SANDBOX", raising=False)
    with pytest.raises(MusadataError, match=r"no namespaces \(refused here\).*--unsandboxed"):
        Sandbox(preload=()).__enter__()
    monkeypatch.setenv("MUSADATA_SANDBOX", "")
    allow_plain()
    with Sandbox(preload=()) as sandbox:
        assert sandbox.call("hostile_calls:echo", 1).value == 1


@pytest.mark.parametrize("call", [("musadata.no_such_module:call",), ("hostile_calls:import_what_is_missing", False)])
def test_a_package_that_our_own_code_lacks_is_an_outage(sandbox, call):
    with pytest.raises(Outage, match=r"cannot import what it needs .*no_such"):
        sandbox.call(*call)


def test_a_package_that_foreign_code_lacks_is_its_own_failure_and_so_is_whatever_a_served_call_lacks(sandbox):
    assert sandbox.call("hostile_calls:import_what_is_missing", True).error_type == "ModuleNotFoundError"
    served = sandbox.call("hostile_calls:import_what_is_missing", False, serve=lambda question: {})
    assert served.error_type == "ModuleNotFoundError"
