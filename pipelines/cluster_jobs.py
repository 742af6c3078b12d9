"""Jobs of one corpus on a cluster: one at a time, also after the command that started one was killed."""

import hashlib
import json
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions, PortableOptions

from musadata.errors import MusadataError

_LOOK_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_ENDED = ("FINISHED", "FAILED", "CANCELED")  # Flink's states


def with_job_name(arguments: Sequence[str], corpus: str) -> tuple[str, ...]:
    """Beam's arguments with a name for the job, by which later runs on this corpus find it; Dataflow itself refuses a
    second job of a name."""
    if PipelineOptions(list(arguments)).view_as(GoogleCloudOptions).job_name:
        return tuple(arguments)
    return *arguments, f"--job_name=musadata-{hashlib.sha256(corpus.encode()).hexdigest()[:12]}"


def await_earlier_job(arguments: Sequence[str]) -> bool:
    """Wait for a job that a killed command has left at work: what it commits is not done twice. Whether there was one.

    Raises:
        MusadataError: the server does not say what it is doing.
    """
    said = False
    while jobs := list(_running(arguments)):
        if not said:
            said = True
            text = f"job {jobs[0]} of an earlier command still works on this corpus; waiting for it"
            print(f"musadata: {text}. Cancel it there to begin anew.", file=sys.stderr, flush=True)
        time.sleep(_LOOK_SECONDS)
    return said


def _running(arguments: Sequence[str]) -> Iterator[str]:
    options = PipelineOptions(list(arguments))
    name = options.view_as(GoogleCloudOptions).job_name
    endpoint = options.view_as(PortableOptions).job_endpoint
    master = str(options.get_all_options().get("flink_master") or "")
    try:
        if endpoint and endpoint != "embed":
            yield from _of_job_server(endpoint, name)
        elif master and not master.startswith("["):  # "[local]" and "[auto]" are no servers
            yield from _of_flink(master if "//" in master else f"http://{master}", name)
    except (OSError, ValueError, LookupError, RuntimeError) as error:
        what = " ".join(f"{type(error).__name__} {error}".split())[:200]
        remedy = "see whether it is the server that the runner needs"
        raise MusadataError(f"does not say which jobs run ({what})", where=endpoint or master, remedy=remedy) from error


def _of_job_server(endpoint: str, name: str) -> Iterator[str]:
    import grpc
    from apache_beam.portability.api import beam_job_api_pb2 as api
    from apache_beam.portability.api import beam_job_api_pb2_grpc as services

    state = api.JobState
    at_work = (state.STARTING, state.RUNNING, state.UPDATING, state.DRAINING, state.CANCELLING)
    try:
        with grpc.insecure_channel(endpoint) as channel:
            found = services.JobServiceStub(channel).GetJobs(api.GetJobsRequest(), timeout=_ANSWER_SECONDS).job_info
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:  # a server without a list can only be trusted
            return
        raise RuntimeError(error.code().name) from error
    for job in found:
        options = dict(job.pipeline_options)
        named = options.get("beam:option:job_name:v1") or job.job_name
        if named == name and job.state in at_work:
            yield job.job_id


def _of_flink(master: str, name: str) -> Iterator[str]:
    with urllib.request.urlopen(f"{master.rstrip('/')}/jobs/overview", timeout=_ANSWER_SECONDS) as reply:
        jobs = json.load(reply)["jobs"]
    yield from (job["jid"] for job in jobs if job["name"] == name and job["state"] not in _ENDED)
