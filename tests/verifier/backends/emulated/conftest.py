"""One warm emulator process for all tests of this folder: the device must not leak into the test process."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """`run(source, order="forward", sanitize=False, ...)`: what happened when a candidate ran in a fresh child."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("child.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    assert stdout.readline() == "ready\n"

    def run_one(source: str, **options: Any) -> dict[str, Any]:
        stdin.write(json.dumps({"source": source, **options}) + "\n")
        stdin.flush()
        return json.loads(stdout.readline())

    yield run_one
    stdin.close()
    process.wait(timeout=60)
