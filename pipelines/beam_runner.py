"""Beam's runners: the one that the user asked for, or worker processes on this machine's cores."""

import difflib
import os
import shlex
import socket
import sys
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment, SubprocessSDKEnvironment

from musadata.errors import MusadataError
from pipelines.limits import WORKERS
from pipelines.worker import local_workers

_RUNNERS = ("DirectRunner", "FlinkRunner", "PortableRunner", "DataflowRunner")
_UNFIT = {
    "prismrunner": "downloads a program when it starts, and is not tested",
    "sparkrunner": "is not tested: a job whose driver was killed may lose rows",
    "daskrunner": "loses data without an error",
    "interactiverunner": "is for notebooks",
}
_ANSWER_SECONDS = 5.0


def open_pipeline(arguments: Sequence[str]) -> beam.Pipeline:
    """A pipeline on the runner that Beam's own options name, or on this machine's cores."""
    options = PipelineOptions(list(arguments))
    if not runs_here(options):
        return beam.Pipeline(options=options)
    # Beam's own "DirectRunner" first tries to download the Prism binary and falls back in silence; ours is the
    # portable in-process runner by name, so that a run is the same with and without a network.
    return beam.Pipeline(runner=FnApiRunner(default_environment=_use_cores(options, arguments)), options=options)


def _use_cores(options: PipelineOptions, arguments: Sequence[str]) -> Environment | None:
    """The environment of the workers: as many processes as were asked for, or one per core; None for this one."""
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode == "multi_threading":
        raise MusadataError(
            "loses data in Beam 2.77", where="--direct_running_mode=multi_threading", remedy="use multi_processing"
        )
    direct.direct_num_workers = workers = local_workers(arguments)
    direct.direct_running_mode = "in_memory"  # anything else would put Beam's own worker command in place of ours
    os.environ[WORKERS] = str(workers)  # they share the limits of the server that they ask
    if workers == 1:
        return None
    return SubprocessSDKEnvironment.from_command_string(f"exec {shlex.quote(sys.executable)} -m pipelines.worker")


def runs_here(options: PipelineOptions | Sequence[str]) -> bool:
    """Whether the user asked for the local runner, by name or by asking for nothing."""
    options = options if isinstance(options, PipelineOptions) else PipelineOptions(list(options))
    runner = options.view_as(StandardOptions).runner
    return runner is None or str(runner).rsplit(".", 1)[-1].lower() in ("directrunner", "fnapirunner")


def workers_here(options: PipelineOptions) -> int:
    """How many workers share this machine; 0 where a cluster has them."""
    return int(options.view_as(DirectOptions).direct_num_workers) if runs_here(options) else 0


def check_runner(arguments: Sequence[str]) -> None:
    """Check that the runner that was asked for is one that keeps what a run promises, and that its server answers.

    Raises:
        MusadataError: it is not, or what it needs is missing.
    """
    options = PipelineOptions(list(arguments))
    if runs_here(options):
        return
    name = str(options.view_as(StandardOptions).runner).rsplit(".", 1)[-1]
    found = {known.lower(): known for known in _RUNNERS}.get(name.lower())
    if found is None:
        why = _UNFIT.get(name.lower(), "is no runner that musadata knows")
        raise MusadataError(why, where=f"--runner {name}", remedy=f"use {', '.join(_RUNNERS)}")
    if found == "DataflowRunner":
        google = options.view_as(GoogleCloudOptions)
        missing = [key for key in ("project", "temp_location") if not getattr(google, key)]
        if missing:
            flags = " and ".join(f"--{key}" for key in missing)
            raise MusadataError(f"needs {flags}", where="--runner DataflowRunner", remedy=f"give {flags}")
        return
    endpoint = options.view_as(PortableOptions).job_endpoint
    master = options.get_all_options().get("flink_master") if found == "FlinkRunner" else None
    address = str(endpoint or master or "").removeprefix("http://").removeprefix("https://")
    if address == "embed" or options.get_all_options().get("flink_job_server_jar"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        remedy = "start Beam's job server and give --job_endpoint HOST:PORT"
        raise MusadataError("needs the address of a job server", where=f"--runner {found}", remedy=remedy)
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        what, remedy = f"no server answers at {address} ({error})", "start the server, or correct the address"
        raise MusadataError(what, where=f"--runner {found}", remedy=remedy) from None


def refuse_unknown(arguments: Sequence[str]) -> None:
    """Beam drops what it does not know, and a run with a misspelt option would be another one than was asked for."""
    options = PipelineOptions(list(arguments))
    if not runs_here(options):
        return
    known = options.get_all_options()
    unknown = [name for name in options.get_all_options(retain_unknown_options=True) if name not in known]
    if unknown:
        close = difflib.get_close_matches(unknown[0], ["config", "corpus", *known], 1)
        remedy = f"did you mean --{close[0]}?" if close else "leave it out"
        raise MusadataError("neither musadata nor Beam has such an option", where=f"--{unknown[0]}", remedy=remedy)
