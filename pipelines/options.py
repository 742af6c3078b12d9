"""The command line of every stage: our three options, and all of Beam's passed through."""

import argparse
import dataclasses
import difflib
import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.environments import Environment, SubprocessSDKEnvironment

from musadata.config import Config, load_config
from musadata.errors import BudgetSpent, MusadataError, Outage
from musadata.sandbox import allow_plain
from musadata.storage.files import absolute
from pipelines.resources import WORKERS
from pipelines.supervision import await_restart, leave, own_scratch_folder, stop_supervising, supervise

# What Beam's local runner says about itself, and each failure of a worker a second and third time: the exception that
# ends the run holds it all.
NOISE = ("apache_beam", "root")
UNSANDBOXED = "where the system gives no namespaces, run foreign code under resource limits alone"


@dataclass(frozen=True)
class RunOptions:
    """One run of one stage.

    Attributes:
        config: what to do.
        corpus: where the corpus is, as an absolute path or URL.
        arguments: Beam's own options.
        dry_run: say what would be asked and what it would cost, and do nothing else.
        retry_failed: send requests again that failed in earlier runs.
        preflight: look for server and device before anything is done.
    """

    config: Config
    corpus: str
    arguments: tuple[str, ...]
    dry_run: bool = False
    retry_failed: bool = False
    preflight: bool = True

    def pipeline(self) -> beam.Pipeline:
        """A pipeline on the runner that the user asked for, or on this machine's cores."""
        options = PipelineOptions(list(self.arguments))
        if not runs_here(options):
            return beam.Pipeline(options=options)
        # Beam's own "DirectRunner" first tries to download the Prism binary and falls back in silence; ours is the
        # portable in-process runner by name, so that a run is the same with and without a network.
        return beam.Pipeline(runner=FnApiRunner(default_environment=self._use_cores(options)), options=options)

    def _use_cores(self, options: PipelineOptions) -> Environment | None:
        """The environment of the workers: as many processes as were asked for, or one per core; None for this one."""
        direct = options.view_as(DirectOptions)
        if direct.direct_running_mode == "multi_threading":
            raise MusadataError(
                "loses data in Beam 2.77", where="--direct_running_mode=multi_threading", remedy="use multi_processing"
            )
        direct.direct_num_workers = workers = self._asked_workers() or len(os.sched_getaffinity(0))
        direct.direct_running_mode = "in_memory"  # anything else would put Beam's own worker command in place of ours
        os.environ[WORKERS] = str(workers)  # they share the limits of the server that they ask
        if workers == 1:
            return None
        return SubprocessSDKEnvironment.from_command_string(f"exec {shlex.quote(sys.executable)} -m pipelines.worker")

    def _asked_workers(self) -> int:
        """How many workers the user asked for, 0 for none: Beam's own options cannot tell a 1 from its default."""
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--direct_num_workers", type=int, default=0)
        asked: int = parser.parse_known_args(self.arguments)[0].direct_num_workers
        return asked


def runs_here(options: PipelineOptions) -> bool:
    """Whether the user asked for the local runner, by name or by asking for nothing."""
    runner = options.view_as(StandardOptions).runner
    return runner is None or str(runner).rsplit(".", 1)[-1].lower() in ("directrunner", "fnapirunner")


def workers_here(options: PipelineOptions) -> int:
    """How many workers share this machine; 0 where a cluster has them."""
    return int(options.view_as(DirectOptions).direct_num_workers) if runs_here(options) else 0


def parse_options(argv: Sequence[str] | None, description: str) -> RunOptions:
    """Read the command line.

    Raises:
        MusadataError: the config is wrong, see `musadata.config.load_config`; or there is an option that neither we nor
            Beam know, and no runner elsewhere that might.
    """
    parser = argparse.ArgumentParser(description=description, epilog="All other options go to Apache Beam.")
    parser.add_argument("--config", required=True, help="YAML file; configs/ has commented examples")
    parser.add_argument("--corpus", required=True, help="folder or URL of the corpus; made if absent")
    parser.add_argument("--unsandboxed", action="store_true", help=UNSANDBOXED)
    parser.add_argument("--dry-run", action="store_true", help="estimate requests, tokens and cost; do nothing else")
    parser.add_argument("--limit", type=int, metavar="N", help="ask the teacher about N tasks only, for a trial")
    parser.add_argument("--retry-failed", action="store_true", help="send again the requests that failed before")
    parser.add_argument("--skip-preflight", action="store_true", help="do not look for server and device first")
    known, rest = parser.parse_known_args(argv)
    if known.unsandboxed:
        allow_plain()
    _refuse_unknown(PipelineOptions(rest))
    config = load_config(known.config)
    if known.limit is not None:
        if known.limit < 1:
            raise MusadataError(f"is {known.limit}", where="--limit", remedy="give 1 or more, or leave it out")
        config = dataclasses.replace(config, limit=known.limit)
    flags = known.dry_run, known.retry_failed, not known.skip_preflight
    return RunOptions(config, absolute(known.corpus), tuple(rest), *flags)


def _refuse_unknown(options: PipelineOptions) -> None:
    """Beam drops what it does not know, and a run with a misspelt option would be another one than was asked for."""
    if not runs_here(options):
        return
    known = options.get_all_options()
    unknown = [name for name in options.get_all_options(retain_unknown_options=True) if name not in known]
    if unknown:
        close = difflib.get_close_matches(unknown[0], ["config", "corpus", *known], 1)
        remedy = f"did you mean --{close[0]}?" if close else "leave it out"
        raise MusadataError("neither musadata nor Beam has such an option", where=f"--{unknown[0]}", remedy=remedy)


def run_command(main: Callable[[], None]) -> int:
    """Run a command so that what a user can mend is one line and exit code 2, wherever on the cluster it came up.

    A run that an outage has kept from its end gives exit code 1 and a line for each cause.
    """
    for name in NOISE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        if getattr(sys.modules["__main__"].__spec__, "parent", None) == "pipelines":  # and no library user's process
            own_scratch_folder()
            supervise()
        main()
    except Outage as error:
        print(f"musadata: {error}", file=sys.stderr)
        return 1
    except MusadataError as error:
        print(f"musadata: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        _end_interrupted()
    except Exception as error:
        if _was_interrupted(error):
            _end_interrupted()
        line = _mendable(str(error))
        if line is None:
            await_restart()
            raise
        print(f"musadata: {line}", file=sys.stderr)
        return 2
    finally:
        stop_supervising()
    return 0


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: where Beam's only worker is this process, it reports that as its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _end_interrupted() -> NoReturn:
    print("musadata: interrupted; the same command continues where it stopped", file=sys.stderr, flush=True)
    leave(130)  # Beam's threads lose their workers now, and would print a traceback each


def _mendable(report: str) -> str | None:
    """The message of a `MusadataError` inside the traceback that a Beam worker sent back as text."""
    for line in report.splitlines():
        for kind in (MusadataError, BudgetSpent, Outage):
            _, marker, message = line.partition(f"{kind.__module__}.{kind.__name__}: ")
            if marker:
                return message.split(" [while running", 1)[0].strip()
    return None
