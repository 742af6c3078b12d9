"""A local worker process: Beam's own, that keeps quiet and never outlives the command that started it."""

import ctypes
import logging
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    # Every failure reaches the command through the control channel; here it would be printed once more per worker.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command; its end is ours
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the command was killed before we asked to die with it
        sys.exit(1)

    from apache_beam.runners.worker import sdk_worker, sdk_worker_main

    from pipelines import resources

    vars(sdk_worker)["print"] = lambda *_, **__: None  # it prints the traceback as well as sending it
    resources.collect_rarely()
    sdk_worker_main.main(sys.argv)
    resources.close()  # journals on an object store hold back what is not yet worth a segment
    os._exit(0)  # its threads still hold what extensions would complain of at the interpreter's end


if __name__ == "__main__":
    main()
