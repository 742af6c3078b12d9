"""A local worker process, without Beam's part of it."""

import subprocess
import sys

from tests.conftest import ROOT

WORK = """
import gc, sys
from apache_beam.runners.worker import sdk_worker_main
from musadata.storage.journal import Journal
from pipelines import lifetime, worker

def work(argv):
    print(gc.get_threshold()[0] >= lifetime.ALLOCATIONS)
    lifetime._open.callback(lambda: print(list(Journal("memory://journal", "answers"))))
    lifetime.keep_open(Journal("memory://journal", "answers")).put("paid", "answer")

sdk_worker_main.main = work
sys.argv = sys.argv[:1]
worker.main()
"""


def test_a_worker_writes_what_its_journals_hold_back_before_it_ends():
    done = subprocess.run([sys.executable, "-u", "-c", WORK], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n['paid']\n"), done.stderr
