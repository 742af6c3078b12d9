"""The lock on a server that speaks S3: conditional writes decide between racing runs."""

import threading
import time
from contextlib import suppress

import fsspec
import pytest

from musadata.errors import MusadataError
from musadata.storage.lock import lock_corpus

pytest.importorskip("s3fs", reason="pip install musadata[s3]")
moto = pytest.importorskip("moto.server", reason="pip install musadata[benchmarks]")


@pytest.fixture
def bucket(monkeypatch):
    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    fsspec.filesystem("s3", skip_instance_cache=True).mkdir("corpora")
    yield "s3://corpora"
    server.stop()


def test_one_of_four_racing_runs_holds_a_corpus(bucket):
    for number in range(5):
        corpus, held = f"{bucket}/{number}", []

        def race(corpus=corpus, held=held):
            with suppress(MusadataError), lock_corpus(corpus):
                held.append(1)
                time.sleep(0.3)

        racers = [threading.Thread(target=race) for _ in range(4)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert len(held) == 1
    with lock_corpus(f"{bucket}/0"):
        pass
