"""The service as its users start it, on this machine's cores: `musadata serve`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from musadata.commands.cli import main
from musadata.commands.serve import listen
from musadata.rewards import RewardFunction
from musadata.rewards.scoring import SERVICE
from musadata.serving.client import TOKEN, RemoteVerifier
from tests.verifier.conftest import REFERENCE, RELU

pytest.importorskip("ray", reason="pip install musadata[ray]")
WRONG = RELU.replace("x[i] < 0.0f", "x[i] < 1.0f")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a service with a token, and its process."""
    folder = tmp_path_factory.mktemp("service")
    command = [sys.executable, "-m", "musadata", "serve", "--backend", "emulated", "--port", "0", "--at-once", "2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN, "secret")
        process = subprocess.Popen(
            [*command, "--journal", str(folder), "--policy", "paper"], stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        said = next(line for line in process.stderr if line.startswith("verdicts at "))
        started = psutil.Process(process.pid)
        address = said.split()[2].removesuffix("/v1/verdicts,")
        while get(address, "/health")[0] != 200:
            assert process.poll() is None
            time.sleep(0.2)
        below = started.children(recursive=True)
        yield address, below
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        _, alive = psutil.wait_procs(below, 20)
        assert not alive  # neither Ray nor workers nor sandboxes are left


def get(address, path, token="secret"):
    request = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_candidates_are_judged_once_and_known_the_second_time(service):
    remote = RemoteVerifier(service[0])
    expected = {RELU: None, WRONG: "correctness", "nothing": "compile", "\ud800": "compile"}
    for candidate, error_class in expected.items():
        verdict = remote.verify_text(REFERENCE, candidate)
        assert (verdict.error_class, verdict.accepted) == (error_class, candidate == RELU)
        assert remote.verify_text(REFERENCE, candidate) == verdict
    assert 'musadata_requests_total{outcome="accepted"} 2.0' in get(service[0], "/metrics")[1]


def test_what_a_killed_worker_had_under_way_is_judged_by_its_successor(service):
    (worker,) = [one for one in service[1] if one.is_running() and "JudgeActor" in " ".join(one.cmdline())]
    remote = RemoteVerifier(service[0])
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(remote.verify_text, REFERENCE, f"{text}\n# once more") for text in (RELU, WRONG)]
        while json.loads(get(service[0], "/health")[1])["running"] == 0:
            time.sleep(0.02)
        os.kill(worker.pid, signal.SIGKILL)
        assert [one.result().accepted for one in asked] == [True, False]
    assert "musadata_workers_lost 1.0" in get(service[0], "/metrics")[1]


def test_rewards_come_from_the_service(service, truth, monkeypatch):
    monkeypatch.setenv(SERVICE, service[0])
    with RewardFunction() as function:
        scores = function.score([RELU, WRONG, "nothing", RELU], [truth] * 4)
    assert [score.reward for score in scores][::2] == [1.0, -1.0] and -1.0 <= (scores[1].reward or 0.0) < 0.0
    assert scores[3] == scores[0] and scores[0].accepted


def test_a_request_that_cannot_be_read_and_a_deadline_are_errors_and_no_verdicts(service):
    def status(question):
        data = json.dumps(question).encode()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer secret"}
        request = urllib.request.Request(f"{service[0]}/v1/verdicts", data, headers)
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request)
        return raised.value.code

    assert status({"candidate": RELU}) == 400
    assert status({"candidate": RELU, "ground_truth": "{}"}) == 400
    assert status({"candidate": RELU, "reference": REFERENCE, "policy": "/etc/passwd"}) == 400
    assert status({"reference": REFERENCE}) == 422
    assert status({"candidate": RELU + "# new", "reference": REFERENCE, "seconds": 0.01}) == 504


def test_only_who_has_the_token_may_ask(service):
    assert get(service[0], "/metrics", token="wrong")[0] == get(service[0], "/metrics", token="")[0] == 401
    assert get(service[0], "/health", token="")[0] == 200
    assert "/v1/verdicts" in json.loads(get(service[0], "/openapi.json")[1])["paths"]


@pytest.mark.parametrize("port", ["65536", "taken"])
def test_a_port_that_cannot_be_had_is_one_line(port, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = str(taken.getsockname()[1]) if port == "taken" else port
        assert main(["serve", "--backend", "emulated", "--port", chosen]) == 2
    assert "cannot listen there" in (said := capsys.readouterr().err) and said.count("\n") == 1


def test_the_end_of_a_reply_does_not_wait_for_the_client():
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
