"""The same command again on a complete corpus: seconds with many shards, HTTP requests on an object store with few.

    python -m benchmarks.noop_rerun --output benchmarks/results/noop_rerun.json

Both corpora are made by the command itself, from four operators, so that most shards are empty: what the second command
does depends on shards and commits, not on rows. The object store is moto's server on loopback, which needs
`pip install 'musadata[benchmarks]'`.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT, Row, python, report

CONFIG = """\
seed: 1
shards: SHARDS
sources: [{kind: operators, count: 4}]
teacher: {kind: compiler, samples: 1, faults: 0}
sampling: {turns: 1}
"""
STORE_SHARDS = 4
MOST_SECONDS, MOST_REQUESTS = 3.0, 60
RERUNS = 5


def run(folder: Path, corpus: str, environment: dict[str, str]) -> tuple[float, float, str]:
    """Wall seconds and CPU seconds of the command, and what it says."""
    command = [python(), "-m", "pipelines.all", "--config", str(folder / "config.yaml"), "--corpus", corpus]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"benchmark: the command fails:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def rerun(folder: Path, corpus: str, environment: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU seconds of the command where nothing is left to do."""
    seconds, cpu, said = run(folder, corpus, environment)
    if said.count("up to date") != 3:
        raise SystemExit(f"benchmark: the corpus is not complete:\n{said}")
    return seconds, cpu


def measure_seconds(shards: int, folder: Path, rows: list[Row], details: dict[str, Any]) -> None:
    (folder / "config.yaml").write_text(CONFIG.replace("SHARDS", str(shards)))
    corpus = str(folder / "corpus")
    details["making_seconds"] = run(folder, corpus, {})[0]
    found = [rerun(folder, corpus, {}) for _ in range(RERUNS)]
    seconds, cpu = (statistics.median(column) for column in zip(*found, strict=True))
    details["seconds"], details["cpu_seconds"] = [wall for wall, _ in found], [used for _, used in found]
    what = f"the same command again, {shards:,} shards, median of {RERUNS}"
    rows.append((what, f"<= {MOST_SECONDS:.0f} s", f"{seconds:.1f} s", seconds <= MOST_SECONDS))
    rows.append(("... CPU seconds of it", "", f"{cpu:.1f} s", True))


@contextmanager
def serve_store(requests: list[str]) -> Iterator[dict[str, str]]:
    """An S3-compatible server that notes its requests; gives the environment in which s3fs finds it."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    store = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], respond: Callable[..., Any]) -> Iterable[bytes]:
        requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}")
        answer: Iterable[bytes] = store(environ, respond)
        return answer

    class Quiet(MotoRequestHandler):
        def log_request(self, *_: object) -> None:
            """Nothing: `requests` has it."""

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.shutdown()


def measure_requests(folder: Path, rows: list[Row], details: dict[str, Any]) -> None:
    import boto3

    (folder / "config.yaml").write_text(CONFIG.replace("SHARDS", str(STORE_SHARDS)))
    requests: list[str] = []
    with serve_store(requests) as environment:
        session = boto3.Session(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"])
        session.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="us-east-1").create_bucket(
            Bucket="bench"
        )
        run(folder, "s3://bench/corpus", environment)
        requests.clear()
        rerun(folder, "s3://bench/corpus", environment)
    details["requests"] = dict(Counter(request.partition(" ")[0] for request in requests))
    details["requests_in_order"] = requests
    count = len(requests)
    what = f"requests of the same command again, S3-compatible store, {STORE_SHARDS} shards"
    rows.append((what, f"<= {MOST_REQUESTS}", str(count), count <= MOST_REQUESTS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=2048, help="0 to leave the first part out")
    parser.add_argument("--no-store", action="store_true", help="leave the second part out")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    rows: list[Row] = []
    details: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if not arguments.no_store:
            measure_requests(Path(folder), rows, details)
        if arguments.shards:
            measure_seconds(arguments.shards, Path(folder), rows, details)
    report("rerun with nothing to do", rows, details, arguments.output)


if __name__ == "__main__":
    main()
