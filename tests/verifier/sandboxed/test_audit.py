"""What Python's own audit events tell of a candidate's process. Each test has a process of its own, as a hook stays."""

import subprocess
import sys

import pytest

HEAD = "from musadata.verifier.sandboxed.audit import Audit\naudit = Audit('<candidate>')\n"


def run(text):
    return subprocess.run([sys.executable, "-c", HEAD + text], capture_output=True, text=True, check=False, timeout=60)


def test_threads_are_counted_though_they_have_ended():
    ended = run(
        "import threading\nfor _ in range(3): t = threading.Thread(); t.start(); t.join()\nprint(audit.threads)"
    )
    assert ended.stdout.strip() == "3"


def test_a_descriptor_cannot_be_opened_by_its_number():
    assert "PermissionError" in run("open(1, 'w', closefd=False)").stderr


def test_what_the_system_says_of_a_process_cannot_be_read(tmp_path):
    assert "PermissionError" in run("open('/proc/self/stat')").stderr
    (tmp_path / "link").symlink_to("/proc/self/stat")
    assert "PermissionError" in run(f"open({str(tmp_path / 'link')!r})").stderr


@pytest.mark.parametrize(
    "text", ["__import__('sys')", "print.__globals__", "exec('1')", "[c for c in getattr(1, 'x')]"]
)
def test_evaluated_text_that_reaches_for_python_is_refused(text):
    assert "PermissionError" in run(f"eval({text!r})").stderr


@pytest.mark.parametrize(
    "text",
    [
        "eval('dict[str, int]')",
        "import dataclasses\ndataclasses.make_dataclass('A', ['code', 'globals'])",
        "import collections\ncollections.namedtuple('A', 'x globals')",
        "exec(compile('import math', '<candidate>', 'exec'))",
    ],
)
def test_what_libraries_evaluate_is_left_alone(text):
    ended = run(text)
    assert ended.returncode == 0, ended.stderr
