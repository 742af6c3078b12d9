"""The command line of every stage: our three options, and all of Beam's passed through.

Beam is imported only when there is something to run: its import takes longer than finding that all is done.
"""

import dataclasses
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from musadata.commands.parser import Parser
from musadata.config import Config, load_config
from musadata.errors import BudgetSpent, MusadataError, Outage
from musadata.sandbox import allow_plain
from musadata.storage.files import absolute
from pipelines.lifetime import collect_rarely
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
        retry_buffer: begin a round of retries of tasks whose answers all failed.
        preflight: look for server and device before anything is done.
    """

    config: Config
    corpus: str
    arguments: tuple[str, ...]
    dry_run: bool = False
    retry_failed: bool = False
    retry_buffer: bool = False
    preflight: bool = True


def parse_options(argv: Sequence[str] | None, description: str) -> RunOptions:
    """Read the command line.

    Raises:
        MusadataError: the config is wrong, see `musadata.config.load_config`; or there is an option that neither we nor
            Beam know, and no runner elsewhere that might.
    """
    parser = Parser(description=description, epilog="All other options go to Apache Beam.")
    parser.add_argument("--config", required=True, help="YAML file; configs/ has commented examples")
    parser.add_argument("--corpus", required=True, help="folder or URL of the corpus; made if absent")
    parser.add_argument("--unsandboxed", action="store_true", help=UNSANDBOXED)
    parser.add_argument("--dry-run", action="store_true", help="estimate requests, tokens and cost; do nothing else")
    parser.add_argument("--limit", type=int, metavar="N", help="ask the teacher about N tasks only, for a trial")
    parser.add_argument("--retry-failed", action="store_true", help="send again the requests that failed before")
    parser.add_argument("--retry-buffer", action="store_true", help="try again the tasks whose answers all failed")
    parser.add_argument("--skip-preflight", action="store_true", help="do not look for server and device first")
    known, rest = parser.parse_known_args(argv)
    if known.unsandboxed:
        allow_plain()
    if rest:
        from pipelines.beam_runner import check_runner, refuse_unknown

        refuse_unknown(rest)
        check_runner(rest)
    config = load_config(known.config)
    if known.limit is not None:
        if known.limit < 1:
            raise MusadataError(f"is {known.limit}", where="--limit", remedy="give 1 or more, or leave it out")
        config = dataclasses.replace(config, limit=known.limit)
    flags = known.dry_run, known.retry_failed, known.retry_buffer, not known.skip_preflight
    return RunOptions(config, absolute(known.corpus), tuple(rest), *flags)


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
            collect_rarely()
        main()
    except Outage as error:
        print(f"musadata: {_without_step(str(error))}", file=sys.stderr)
        return 1
    except MusadataError as error:
        print(f"musadata: {_without_step(str(error))}", file=sys.stderr)
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
                return _without_step(message)
    return None


def _without_step(message: str) -> str:
    """A message without the name of the step that Beam adds."""
    return message.split(" [while running", 1)[0].strip()
