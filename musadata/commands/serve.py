"""`python -m musadata serve`: verdicts over HTTP, by Ray's workers."""

import argparse
import asyncio
import os
import socket
import sys
from contextlib import suppress
from typing import Any

from musadata.commands.verify import add_common, config_of
from musadata.config import VerifierConfig
from musadata.errors import MusadataError
from musadata.serving.client import TOKEN
from musadata.storage.journal import Journal

_IDLE_SECONDS = 600  # for which a connection stays open: a trainer asks again after its step
_STOP_SECONDS = 10  # in which requests that are under way may end


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `serve`."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all, best with a token")
    parser.add_argument("--port", type=int, default=8700, help="0 takes any that is free")
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster, or auto; without it one is started here")
    parser.add_argument("--journal", help="folder or URL that keeps verdicts; a folder in the cache if left out")
    parser.add_argument(
        "--at-once", type=int, default=0, help="candidates per worker; 0 takes one per core, 16 at most"
    )
    parser.add_argument("--most-waiting", type=int, default=4096, help="candidates that may wait; more are sent back")
    parser.add_argument("--most-workers", type=int, default=0, help="let Ray's autoscaler add nodes up to this many")
    add_common(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted."""
    config = config_of(arguments)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(
        "RAY_worker_niceness", "0"
    )  # by 15, verdicts wait for whatever else runs, and times are wrong
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import ray  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MusadataError(f"needs {error.name}", where="serve", remedy="pip install 'musadata[ray]'") from error
    with suppress(KeyboardInterrupt, SystemExit):  # Ray ends a process by the latter on SIGTERM
        asyncio.run(_serve(arguments, config))
    return 0


async def _serve(arguments: argparse.Namespace, config: VerifierConfig) -> None:
    import ray
    import uvicorn

    from musadata.serving.dispatcher import Dispatcher
    from musadata.serving.http_front import create_app
    from musadata.serving.ray_workers import RayWorkers
    from musadata.verifier.compilation.build_cache import cache_folder

    token = os.environ.get(TOKEN, "")
    listening = listen(arguments.host, arguments.port)
    _connect(arguments.ray)
    try:
        with listening, Journal(arguments.journal or cache_folder() / "verdicts", "verdicts") as journal:
            dispatcher = Dispatcher(journal, arguments.most_waiting, _say)
            workers = RayWorkers(config, dispatcher, arguments.at_once, arguments.most_workers)
            app = create_app(dispatcher, workers, token)
            settings = uvicorn.Config(
                app,
                log_level="warning",
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_STOP_SECONDS,
            )
            host, port = listening.getsockname()[:2]
            _say(f"verdicts at http://{host}:{port}/v1/verdicts, the API at http://{host}:{port}/docs")
            if not token and not host.startswith("127."):
                _say(f"anybody who reaches this port may ask: set {TOKEN} to let in only those who send it")
            await uvicorn.Server(settings).serve(sockets=[listening])
    finally:
        ray.shutdown()


def listen(host: str, port: int) -> socket.socket:
    """A socket for the service. Its connections send at once: a reply whose end waits for the client's acknowledgement
    of its beginning takes 40 ms longer.

    Raises:
        MusadataError: the address cannot be had.
    """
    try:
        listening = socket.create_server((host, port), backlog=1024)
    except (OSError, OverflowError) as error:
        raise MusadataError(f"cannot listen there ({error})", where=f"{host}:{port}", remedy="say --port") from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _connect(address: str | None) -> None:
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    try:
        if address:
            ray.init(address=address, **options)
        else:
            ray.init(include_dashboard=False, address="local", **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        what = " ".join(str(error).split())[:200]
        raise MusadataError(f"no Ray cluster there ({what})", where=f"--ray {address}") from error


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
