"""What the sandbox promises: results come back, and nothing that hostile code does reaches the host."""

import contextlib
import errno
import os
import select
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from musadata.errors import Cancelled, MusadataError
from musadata.sandbox import Cancellation, Conversation, Descriptor, Limits, Sandbox, client, server, start_ahead
from tests.sandbox.conftest import SMALL

# What runs into another limit must get there on a slow, busy machine too.
PATIENT = replace(SMALL, seconds=60)
SLACK = 10.0  # seconds that such a machine may take for what should be at once


def test_value_and_output_come_back(sandbox):
    outcome = sandbox.call("hostile_calls:echo", {"a": [1, 2.5, None, "ü"]})
    assert (outcome.status, outcome.value, outcome.stderr) == ("ok", {"a": [1, 2.5, None, "ü"]}, "printed\n")


def test_files_go_in_and_out_but_what_was_given_does_not_come_back(sandbox):
    outcome = sandbox.call("hostile_calls:read_and_write", files={"given.txt": b"text"})
    assert outcome.value == "text"
    assert outcome.files == {"folder/left.txt": b"TEXT"}


def test_call_can_ask_the_trusted_side(sandbox):
    answers = {1: {"number": 10}, 2: {"data": b"bytes"}}
    assert sandbox.call("hostile_calls:ask_twice", serve=lambda q: answers[q["number"]]).value == [10, "bytes"]


def test_an_answer_may_carry_an_open_file(sandbox, tmp_path):
    file = tmp_path / "shared"
    file.touch()

    def serve(question):
        return {"file": Descriptor(os.open(file, os.O_WRONLY))}

    assert sandbox.call("hostile_calls:write_into_given_file", serve=serve).value == 11
    assert file.read_bytes() == b"from inside"


def test_a_question_may_carry_open_files_only_if_the_trusted_side_says_so(sandbox):
    read = []

    def serve(question):
        read.append(os.read(question["file"].number, 100))
        return {"ok": True}

    name = "hostile_calls:hand_out_a_file"
    assert sandbox.call(name, serve=Conversation(serve, files_asked=1)).value == {"ok": True}
    assert read == [b"from inside"]
    assert not sandbox.call(name, serve=serve).ok
    assert len(read) == 1


def test_a_call_that_is_silent_beyond_its_deadline_is_ended(sandbox):
    answered = []

    def serve(question):
        answered.append(time.monotonic())
        return {"number": 1}

    conversation = Conversation(serve, lambda: answered[0] + 0.5 if answered else None)
    start = time.monotonic()
    outcome = sandbox.call("hostile_calls:ask_and_then_hang", serve=conversation, limits=PATIENT)
    assert outcome.status == "timeout"
    assert 0.5 < time.monotonic() - start < SLACK
    assert sandbox.call("hostile_calls:echo", 1).value == 1


def test_time_spent_by_the_trusted_side_is_not_the_calls(sandbox):
    limits = Limits(seconds=0.1, memory_mb=512)

    def serve(question):
        time.sleep(limits.idle_seconds + 1)
        return {"number": 1, "data": b""}

    assert sandbox.call("hostile_calls:ask_twice", limits=limits, serve=serve).ok


def test_error_in_the_trusted_side_is_raised_there_and_the_sandbox_stays_usable(sandbox):
    def serve(question):
        raise KeyError("ours")

    with pytest.raises(KeyError):
        sandbox.call("hostile_calls:ask_twice", serve=serve)
    assert sandbox.call("hostile_calls:echo", 1).value == 1


def test_disk_that_is_full_for_who_answers_is_not_taken_for_a_lost_process(sandbox):
    def serve(question):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/path")

    process = sandbox._process
    with pytest.raises(MusadataError, match=r"^sandbox: cannot answer a call \(No space left on device\)$"):
        sandbox.call("hostile_calls:ask_twice", serve=serve)
    assert sandbox._process is process


def test_exception_comes_back_without_addresses_and_host_paths(sandbox):
    outcome = sandbox.call("hostile_calls:raise_with_address")
    assert (outcome.status, outcome.error_type) == ("error", "ValueError")
    assert outcome.message == "object at 0x… in ./file"
    assert "raise_with_address" in outcome.traceback
    assert str(Path(__file__).parents[2]) not in outcome.traceback


def test_two_calls_see_the_same_hashes_and_random_numbers(sandbox):
    assert sandbox.call("hostile_calls:seed_of_random") == sandbox.call("hostile_calls:seed_of_random")


@pytest.mark.parametrize(
    ("function", "arguments", "status"),
    [
        ("loop", [], "timeout"),
        ("sleep", [], "timeout"),
        ("ignore_signals_and_loop", [], "timeout"),
        ("fork_bomb", [], "timeout"),
        ("thread_bomb", [], "timeout or memory"),
        ("allocate", [100], "memory"),
        ("allocate_by_torch", [100], "memory"),
        ("allocate_in_many_processes", [200, 8], "memory"),
        ("print_without_end", [], "output"),
        ("write_without_end", [], "error"),
        ("segfault", [], "crash"),
        ("exit_silently", [], "crash"),
        ("leave", [], "error"),
        ("send_deep_json", [], "crash"),
    ],
)
def test_hostile_call_ends_with_the_same_status_each_time_and_leaves_nothing(sandbox, function, arguments, status):
    limits = SMALL if "timeout" in status else PATIENT
    start = time.monotonic()
    outcome = sandbox.call(f"hostile_calls:{function}", *arguments, limits=limits)
    assert time.monotonic() - start < limits.wall_seconds + SLACK
    assert outcome.status in status.split(" or "), outcome
    assert sandbox.call("hostile_calls:echo", 1).value == 1
    _, left = psutil.wait_procs(psutil.Process(sandbox._process.pid).children(recursive=True), timeout=5)
    assert not left


def test_number_of_processes_is_limited(walled):
    assert walled.call("hostile_calls:count_forks").value <= SMALL.processes


def test_daemon_dies_with_its_call(walled):
    start = time.monotonic()
    assert walled.call("hostile_calls:leave_a_daemon").value == "left"
    assert time.monotonic() - start < SLACK
    assert walled.call("hostile_calls:list_folder", "/proc/1/task").ok


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("write_outside", [str(Path(__file__).parent / "evil.txt")]),
        ("write_outside", ["/usr/evil.txt"]),
        ("write_outside", ["/etc/evil.txt"]),
        ("write_outside", ["/proc/sys/kernel/hostname"]),
        ("read_outside", ["/etc/shadow"]),
        ("read_outside", [str(Path.home() / ".bashrc")]),
        ("read_outside", [f"/proc/{os.getpid()}/environ"]),
        ("read_guard_memory", []),
        ("open_socket", ["AF_INET"]),
        ("open_socket", ["AF_INET6"]),
        ("open_socket", ["AF_UNIX"]),
        ("connect", []),
        ("mount", []),
        ("new_namespace", []),
        ("trace_guard", []),
    ],
)
def test_what_lies_outside_cannot_be_reached(walled, function, arguments):
    outcome = walled.call(f"hostile_calls:{function}", *arguments)
    assert outcome.status == "error", outcome
    assert outcome.error_type in ("PermissionError", "FileNotFoundError", "OSError"), outcome


def test_host_temp_files_and_other_processes_are_invisible(walled, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    project = Path(__file__).resolve().parents[2]
    own = (
        {project.relative_to("/tmp").parts[0]} if project.is_relative_to("/tmp") else set()
    )  # a clone in /tmp is readable
    assert set(walled.call("hostile_calls:list_folder", "/tmp").value) == {"scratch", *own}
    assert walled.call("hostile_calls:read_outside", str(tmp_path / "secret.txt")).error_type == "FileNotFoundError"
    pids = [name for name in walled.call("hostile_calls:list_folder", "/proc").value if name.isdigit()]
    assert len(pids) == 2


def test_guard_cannot_be_killed_from_inside(walled):
    assert walled.call("hostile_calls:kill_parent").value == 1
    assert walled.call("hostile_calls:kill_all").value == "alone"


def test_setuid_programs_give_no_rights(walled):
    assert walled.call("hostile_calls:run_setuid_program").value != 0


def test_secrets_in_the_environment_are_not_passed_on(monkeypatch):
    monkeypatch.setenv("API_TOKEN", "secret")
    with Sandbox(preload=(), limits=SMALL) as sandbox:
        assert "API_TOKEN" not in sandbox.call("hostile_calls:environment").value


def test_garbage_on_the_result_channel_is_not_a_result(sandbox):
    assert sandbox.call("hostile_calls:forge_result").status == "crash"


def test_readable_folder_is_shown_even_below_a_hidden_one(tmp_path):
    tmp_path.chmod(0o755)  # calls of root run as nobody
    (tmp_path / "data.txt").write_text("shown")
    with Sandbox(preload=(), readable=[tmp_path], limits=SMALL) as sandbox:
        assert sandbox.call("hostile_calls:read_outside", str(tmp_path / "data.txt")).value == "shown"


def test_failing_setup_is_one_clear_error():
    with pytest.raises(MusadataError, match=r"could not be set up.*No module named 'absent'"):
        Sandbox(preload=("absent",)).__enter__()


def test_server_that_was_killed_is_started_again(walled):
    psutil.Process(walled._process.pid).kill()
    walled._process.wait()
    assert walled.call("hostile_calls:echo", 1).value == 1


def test_calls_die_when_their_owner_is_killed(tmp_path):
    script = tmp_path / "owner.py"
    script.write_text(
        "from musadata.sandbox import Sandbox, Limits\n"
        "if __name__ == '__main__':\n"
        "    with Sandbox(preload=(), limits=Limits(seconds=100)) as sandbox:\n"
        "        print('ready', sandbox._process.pid, flush=True)\n"
        "        sandbox.call('hostile_calls:loop')\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{Path(__file__).parent}"}
    owner = subprocess.Popen([os.sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment)
    server = psutil.Process(int(owner.stdout.readline().split()[1]))
    time.sleep(0.5)
    family = [server, *server.children(recursive=True)]
    owner.kill()
    owner.wait()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive


@pytest.mark.parametrize(
    ("function", "arguments", "status"),
    [
        ("echo", [1], "ok"),
        ("loop", [], "timeout"),
        ("allocate", [100], "memory"),
        ("print_without_end", [], "output"),
        ("segfault", [], "crash"),
        ("connect", [], "error"),
        ("leave_a_daemon", [], "ok"),
    ],
)
def test_without_namespaces_limits_still_hold(plain, function, arguments, status):
    assert plain.call(f"hostile_calls:{function}", *arguments).status == status


@pytest.fixture
def template(monkeypatch):
    """A process that sandboxes are forked from, which is not that of other tests."""
    monkeypatch.setattr(client, "_templates", [])
    monkeypatch.setenv("API_TOKEN", "secret")
    start_ahead(modules=("json", "no_such_module"))
    process, sock = client._templates[0]
    with sock:
        yield psutil.Process(process.pid)
        process.kill()
        process.wait()


def test_sandboxes_are_forked_from_the_process_that_was_started_ahead_and_know_no_secrets(template):
    with Sandbox(("hostile_calls",), environment={"MUSADATA_CACHE": "/nowhere"}) as one, Sandbox(()) as other:
        assert {one._process.pid, other._process.pid} == {fork.pid for fork in template.children()}
        found = one.call("hostile_calls:environment").value
        assert other.call("hostile_calls:echo", 1).value == 1
        forks = template.children()
    assert found["MUSADATA_CACHE"] == "/nowhere"
    assert "API_TOKEN" not in found
    assert not psutil.wait_procs(forks, timeout=SLACK)[1]


def test_a_call_goes_on_in_a_process_of_its_own_where_the_template_has_died(template):
    with Sandbox(("hostile_calls",), limits=PATIENT) as sandbox:
        fork = psutil.Process(sandbox._process.pid)
        template.kill()
        fork.wait(timeout=SLACK)
        assert sandbox.call("hostile_calls:echo", 1).value == 1


def test_a_process_that_nobody_takes_ends_with_its_owner():
    script = "from musadata.sandbox import client, start_ahead; start_ahead(); print(client._templates[0][0].pid)"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(timeout=SLACK)


def test_closing_ends_calls_and_does_not_start_again():
    with Sandbox(preload=(), limits=PATIENT) as sandbox, ThreadPoolExecutor(1) as pool:
        call = pool.submit(sandbox.call, "hostile_calls:loop")
        time.sleep(0.5)
        sandbox.close()
        with pytest.raises(MusadataError, match="was closed during a call"):
            call.result(SLACK)
        assert sandbox._process is None
        assert sandbox.call("hostile_calls:echo", 1).value == 1


def test_a_process_whose_owner_closes_without_reading_ends_in_silence(capfd):
    """A verdict that needs no execution does not wait for the warm process to get ready."""
    sandbox = Sandbox(preload=())
    sandbox.launch()
    process, sock = sandbox._process, sandbox._sock
    assert process is not None and sock is not None
    assert select.select([sock], [], [], 60)[0]  # it says that it is ready, which nobody reads
    sock.close()
    assert process.wait(SLACK) == 0
    assert capfd.readouterr().err == ""
    sandbox.close()


def test_a_trial_of_the_jail_whose_server_has_ended_is_silent(monkeypatch):
    """Its process is a copy of the server's: an error there would be printed as the server's own."""
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(server.confine, "enter_jail", lambda *_: None)
    monkeypatch.setattr(server.confine, "fork_into_cell", lambda: (_ for _ in ()).throw(OSError("refused")))
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            server._try_jail([], [], writer)
        os._exit(1)
    os.close(writer)
    assert os.waitpid(pid, 0)[1] == 0


def test_cancelled_work_ends_alone(sandbox):
    work = Cancellation()

    def cancelled():
        with work.applies():
            return sandbox.call("hostile_calls:sleep", limits=PATIENT)

    def answer_late(question):
        time.sleep(1)
        return {"number": 10, "data": b"bytes"}

    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(sandbox.call, "hostile_calls:ask_twice", serve=answer_late)
        ended = pool.submit(cancelled)
        time.sleep(0.5)
        work.cancel()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            ended.result()
        assert time.monotonic() - started < SLACK
        assert other.result().value == [10, "bytes"]
    with pytest.raises(Cancelled), work.applies():
        sandbox.call("hostile_calls:echo", 1)
    assert sandbox.call("hostile_calls:echo", 1).ok
