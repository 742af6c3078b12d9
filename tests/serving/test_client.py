"""A client against a server that fails in every way: no outage is ever a verdict or a reward."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from musadata.errors import MusadataError, Outage
from musadata.records import Facts, VerifyStage
from musadata.rewards import RewardFunction, scoring
from musadata.rows import plain
from musadata.serving import client
from musadata.serving.client import RemoteVerifier
from musadata.training_config import OnOutage, RewardsConfig
from musadata.verifier.rules import catalogue as rules
from tests.rewards import test_scoring

RIGHT = replace(test_scoring.RIGHT, facts=Facts(compiles=True, runs=True, right=True, stage=VerifyStage.TIME))
WRONG = replace(test_scoring.WRONG, facts=Facts(findings=(rules.EXTRACT_NO_CODE.worded("There is no code."),)))


@pytest.fixture
def play(monkeypatch):
    """`play(says)`: the address of a server whose answers are what `says(question)` gives: a verdict, a status, or
    bytes after which the connection ends."""
    monkeypatch.setattr(client, "_PAUSES", (0.01,))
    servers = []

    def start(says, closes=False):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                said = says({**asked, "token": self.headers.get("Authorization", "")})
                if isinstance(said, bytes):
                    self.wfile.write(said)
                    self.close_connection = True
                    return
                status, body = (said, {}) if isinstance(said, int) else (200, {"verdict": plain(said), "known": False})
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = closes

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


FAILURES = [429, 500, 502, 503, 504, b"", b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", b"nonsense\r\n\r\n"]


@pytest.mark.parametrize("failure", FAILURES)
def test_what_fails_is_asked_again_and_then_is_an_outage(play, failure):
    answers = [failure, failure, RIGHT]
    assert RemoteVerifier(play(lambda _: answers.pop(0))).verify_text("reference", "candidate").accepted
    with pytest.raises(Outage, match="no verdict"):
        RemoteVerifier(play(lambda _: failure), seconds=0.1).verify_text("reference", "candidate")


def test_a_connection_that_was_closed_while_it_was_idle_is_opened_anew_at_once(play, monkeypatch):
    monkeypatch.setattr(client, "_PAUSES", (60.0,))
    remote = RemoteVerifier(play(lambda _: RIGHT, closes=True), seconds=5)
    assert all(remote.verify_text("reference", str(number)).accepted for number in range(3))


def test_nobody_at_the_address_is_an_outage():
    with pytest.raises(Outage):
        RemoteVerifier("127.0.0.1:9", seconds=0.1).verify_text("reference", "candidate")


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_a_request_that_the_service_refuses_is_an_error(play, status):
    with pytest.raises(MusadataError, match="refuses the request") as raised:
        RemoteVerifier(play(lambda _: status)).verify_text("reference", "candidate")
    assert not isinstance(raised.value, Outage)


def test_the_token_is_sent_and_the_time_that_is_left(play, monkeypatch):
    monkeypatch.setenv(client.TOKEN, "secret")
    asked = []
    RemoteVerifier(play(lambda question: asked.append(question) or RIGHT), seconds=7).verify_text("r", "\ud800")
    assert asked[0]["token"] == "Bearer secret" and 0 < asked[0]["seconds"] <= 7 and asked[0]["candidate"] == "\ud800"


@pytest.mark.parametrize("address", ["ftp://host", "", "http://"])
def test_what_is_no_address_is_an_error(address):
    with pytest.raises(MusadataError, match="no address"):
        RemoteVerifier(address)


def test_rewards_come_from_the_service_and_an_outage_is_masked_or_raised(play, truth, monkeypatch):
    monkeypatch.setattr(scoring, "Verifier", None)  # nothing is judged here
    service = play(lambda question: {"right": RIGHT, "wrong": WRONG}.get(question["candidate"], 503))
    limits = RewardsConfig(service=service, seconds=0.2)
    with RewardFunction(limits=limits) as function:
        scores = function.score(["right", "wrong", "lost"], [truth] * 3)
    assert [score.reward for score in scores] == [2.0, -1.0, None] and scores[2].verdict is None
    monkeypatch.setenv(scoring.SERVICE, service)
    with RewardFunction(limits=RewardsConfig(seconds=0.2, outage=OnOutage.RAISE)) as function:
        assert function.score(["right"], [truth])[0].reward == 2.0
        with pytest.raises(Outage, match="503"):
            function.score(["right", "lost"], [truth] * 2)
