"""A command finds the job that an earlier one has left on a cluster, by a server that answers as Flink's and Beam's."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import grpc
import pytest
from apache_beam.portability.api import beam_job_api_pb2 as api
from apache_beam.portability.api import beam_job_api_pb2_grpc as services

from musadata.errors import MusadataError
from pipelines import cluster_jobs
from pipelines.cluster_jobs import await_earlier_job, with_job_name

CORPUS = "s3://bucket/corpus"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(cluster_jobs, "_LOOK_SECONDS", 0.02)


def name_of(arguments):
    return with_job_name(arguments, CORPUS)[-1].partition("=")[2]


@pytest.fixture
def flink():
    """The address of a REST API whose jobs are the lists that `states` gives, the last one for good."""
    states: list[list[dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            jobs = states.pop(0) if len(states) > 1 else states[0]
            self.send_response(200 if self.path == "/jobs/overview" else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"jobs": jobs}).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{server.server_port}", states
    server.shutdown()
    server.server_close()


def test_the_job_of_a_killed_command_is_waited_for_on_flink(flink, capsys):
    address, states = flink
    arguments = with_job_name(["--runner=FlinkRunner", f"--flink_master={address}"], CORPUS)
    job = {"jid": "0a1b", "name": name_of(arguments[:-1])}
    states += [[{**job, "state": "RUNNING"}]] * 2 + [[{**job, "state": "FINISHED"}, {**job, "name": "x", "state": "?"}]]
    assert await_earlier_job(arguments)
    assert capsys.readouterr().err.count("job 0a1b of an earlier command still works on this corpus") == 1
    assert not await_earlier_job(arguments)
    assert capsys.readouterr().err == ""


def test_the_job_of_a_killed_command_is_waited_for_at_a_job_server(capsys):
    class Jobs(services.JobServiceServicer):
        looks = 0

        def GetJobs(self, request, context):
            self.looks += 1
            job = api.JobInfo(job_id="j1", job_name="job")
            job.pipeline_options.update({"beam:option:job_name:v1": name_of([])})
            job.state = api.JobState.RUNNING if self.looks < 3 else api.JobState.DONE
            return api.GetJobsResponse(job_info=[job])

    server, jobs = grpc.server(ThreadPoolExecutor(1)), Jobs()
    services.add_JobServiceServicer_to_server(jobs, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    await_earlier_job(with_job_name(["--runner=PortableRunner", f"--job_endpoint=127.0.0.1:{port}"], CORPUS))
    server.stop(None)
    assert jobs.looks == 3 and capsys.readouterr().err.count("still works on this corpus") == 1


@pytest.mark.parametrize("flag", ["--flink_master=127.0.0.1:9", "--job_endpoint=127.0.0.1:9"])
def test_a_server_that_does_not_say_is_an_error(flag):
    with pytest.raises(MusadataError, match="does not say which jobs run"):
        await_earlier_job(with_job_name(["--runner=FlinkRunner", flag], CORPUS))


def test_names_differ_by_corpus_and_a_given_one_stays():
    assert with_job_name([], "a") != with_job_name([], "b") and with_job_name([], "a") == with_job_name([], "a")
    assert with_job_name(["--job_name=mine"], "a") == ("--job_name=mine",)
