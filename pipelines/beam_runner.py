"""Beam's runners: the one that the user asked for, or worker processes on this machine's cores."""

import difflib
import os
import shlex
import sys
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment, SubprocessSDKEnvironment

from musadata.errors import MusadataError
from pipelines.resources import WORKERS
from pipelines.worker import local_workers


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
