"""The service over HTTP: JSON in, JSON out. Its page of the API is at /docs."""

import asyncio
import json
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, Field, WithJsonSchema

from musadata.errors import Outage, short_trace
from musadata.rows import plain
from musadata.serving.dispatcher import Busy, Dispatcher, Late
from musadata.serving.ray_workers import RayWorkers
from musadata.verifier.policies import NAMES, apply_policy, load_policy
from musadata.verifier.submission import Submission
from musadata.verifier.verifier import own_version

_MOST_BYTES = 100 << 20  # of a request
# What models write may hold lone surrogates, which are no text to pydantic; the verifier says what is wrong with them.
_Text = Annotated[Any, WithJsonSchema({"type": "string"})]
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Question(BaseModel):
    """A candidate, and either a reference or the ground truth of a row of `rl`."""

    candidate: _Text = Field(description="Python with ModelNew, or a model's reply")
    reference: _Text | None = Field(None, description="Python with Model, get_inputs and get_init_inputs")
    ground_truth: str | None = Field(None, description="`reward_model.ground_truth` of a row of `rl`")
    inputs: list[dict[str, Any]] | None = Field(None, description="what the reference is called with")
    measure: list[dict[str, Any]] | None = Field(None, description="inputs of the size at which it is timed")
    policy: str = Field("paper", description=", ".join(NAMES))
    seconds: float = Field(300.0, gt=0, le=86_400, description="time for the verdict, waiting included")
    priority: int = Field(0, ge=-100, le=100, description="higher ones go first")

    def submission(self) -> Submission:
        """What is judged.

        Raises:
            ValueError: it cannot be read.
        """
        if not isinstance(self.candidate, str):
            raise ValueError("candidate is no text")
        if self.ground_truth is not None:
            try:
                truth = json.loads(self.ground_truth)
                task, sets = truth["task"], truth["shape_sets"]
                return Submission(task["reference"], self.candidate, task=task, shape_sets=sets)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise ValueError("ground_truth is none of musadata") from error
        if not isinstance(self.reference, str):
            raise ValueError("there is neither a reference nor a ground_truth")
        return Submission(self.reference, self.candidate, self.inputs, self.measure)


class _Metrics:
    def __init__(self, dispatcher: Dispatcher, workers: RayWorkers):
        self.registry = CollectorRegistry()
        self.requests = Counter("musadata_requests", "Requests by outcome", ["outcome"], registry=self.registry)
        self.seconds = Histogram(
            "musadata_request_seconds", "From request to verdict", buckets=_SECONDS, registry=self.registry
        )
        for name, about, read in (
            ("waiting", "Submissions that wait for a worker", lambda: dispatcher.waiting),
            ("running", "Submissions that are judged now", lambda: dispatcher.running),
            ("workers_in_service", "Workers that judge", lambda: len(_in_service(workers.states))),
            ("workers_lost", "Workers lost since the start", lambda: dispatcher.lost),
        ):
            Gauge(f"musadata_{name}", about, registry=self.registry).set_function(read)


def _in_service(states: Mapping[str, str]) -> list[str]:
    return [name for name, state in states.items() if state == "in service"]


def create_app(dispatcher: Dispatcher, workers: RayWorkers, token: str = "") -> FastAPI:
    """The service's endpoints. With a token, all but /health want `Authorization: Bearer TOKEN`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(workers.run())
        running.add_done_callback(_end_if_failed)
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    metrics = _Metrics(dispatcher, workers)
    bearer = HTTPBearer(auto_error=False)

    async def check_token(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        said = given.credentials if given else ""
        if token and not secrets.compare_digest(said.encode(), token.encode()):
            raise HTTPException(401, "send the token as Authorization: Bearer")

    async def check_length(request: Request) -> None:
        if int(request.headers.get("content-length") or _MOST_BYTES + 1) > _MOST_BYTES:
            raise HTTPException(413, f"send {_MOST_BYTES} bytes at the most, with a Content-Length")

    app = FastAPI(title="musadata", summary="Verdicts on GPU kernels", version=own_version(), lifespan=lifespan)
    guarded = [Depends(check_token)]

    @app.get("/health")
    async def health(response: Response) -> dict[str, Any]:
        """200 with a worker in service, 503 without."""
        serving = _in_service(workers.states)
        response.status_code = 200 if serving else 503
        counts = {"waiting": dispatcher.waiting, "running": dispatcher.running}
        return {"status": "ok" if serving else "no worker in service", "workers": workers.states, **counts}

    @app.get("/metrics", dependencies=guarded)
    async def read_metrics() -> Response:
        """For Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.post(
        "/v1/verdicts",
        dependencies=[*guarded, Depends(check_length)],
        responses={
            400: {"description": "the request cannot be read"},
            429: {"description": "too many wait: send it again after Retry-After seconds"},
            503: {"description": "an outage: nothing is said of the candidate"},
            504: {"description": "no verdict in the time that was given"},
        },
    )
    async def judge(question: Question, request: Request) -> Response:
        """A verdict on one candidate. An outage or a passed deadline is an error, never a verdict."""
        begun, outcome = time.monotonic(), "cancelled"
        try:
            if question.policy not in NAMES:
                raise HTTPException(400, f"policy is none of {', '.join(NAMES)}")
            verdict, known = await _unless_gone(
                request, dispatcher.judge(question.submission(), question.seconds, question.priority)
            )
            verdict = apply_policy(verdict, load_policy(question.policy))
            outcome = "undecided" if verdict.is_undecided else "accepted" if verdict.accepted else "rejected"
            body = json.dumps({"verdict": plain(verdict), "known": known})
            return Response(body, media_type="application/json")
        except ValueError as error:
            outcome = "invalid"
            raise HTTPException(400, str(error)) from error
        except Busy as error:
            outcome = "busy"
            raise HTTPException(429, "too many wait", {"Retry-After": "1"}) from error
        except Outage as error:
            outcome = "outage"
            raise HTTPException(503, str(error)) from error
        except Late as error:
            outcome = "late"
            raise HTTPException(504, f"no verdict in {question.seconds:g} s") from error
        finally:
            metrics.requests.labels(outcome).inc()
            metrics.seconds.observe(time.monotonic() - begun)

    return app


def _end_if_failed(workers: "asyncio.Task[None]") -> None:
    """Without a cluster the service ends, rather than let requests wait."""
    if not workers.cancelled() and (error := workers.exception()):
        print(f"musadata: lost the cluster ({short_trace(error)})", file=sys.stderr, flush=True)
        signal.raise_signal(signal.SIGTERM)


async def _unless_gone(request: Request, work: Any) -> Any:
    """The result of `work`, which is cancelled when the client goes."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(499, "the client has gone")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()
