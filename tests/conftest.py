"""One fixture corpus, built once by the real pipeline and shared by all test processes."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "tests" / "end_to_end" / "small.yaml"


def run_module(module: str, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """A command of ours, as a user types it."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


def run_pipeline(corpus: Path, *arguments: str, config: Path = CONFIG, stage: str = "all") -> Sequence[str]:
    """A stage that must succeed; its standard error as lines."""
    done = run_module(f"pipelines.{stage}", "--config", str(config), "--corpus", str(corpus), *arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr.splitlines()


@pytest.fixture(scope="session")
def quickstart_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small corpus with mined and generated tasks, repairs and rejects. Read it; do not write to it."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # a worker of pytest-xdist: the folder above is common to all
        shared = shared.parent
    corpus = shared / "quickstart-corpus"
    with FileLock(shared / "quickstart-corpus.lock"):
        if not (corpus / "manifest.json").exists():
            run_pipeline(corpus)
    return corpus
