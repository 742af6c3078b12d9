"""Effects of a reference outside of its process."""

import os
import subprocess
import sys

import pytest

from musadata.tasks.examination import examine
from musadata.tasks.outside_effects import watch_effects

REFERENCE = (
    "import os\nimport torch\nfrom torch import nn\n\n\n"
    "class Model(nn.Module):\n    def forward(self, x):\n{body}\n\n\n"
    "def get_inputs():\n    return [torch.randn(8, 16)]\n\n\ndef get_init_inputs():\n    return []\n"
)


def test_writing_files_starting_processes_and_changing_the_environment_are_effects(tmp_path, monkeypatch):
    monkeypatch.setenv("ODD", "1")
    with watch_effects() as effects:
        (tmp_path / "a").write_text("x")
        os.environ["ODD"] = "2"
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert {"open", "os.putenv", "subprocess.Popen"} <= set(effects)


def test_reading_files_is_none_and_nothing_is_seen_after_the_end(tmp_path):
    (tmp_path / "a").write_text("x")
    with watch_effects() as effects:
        (tmp_path / "a").read_text()
        with open(os.devnull, "w"):  # noqa: PTH123
            pass
    (tmp_path / "b").write_text("x")
    assert effects == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("        os.environ['SEEN'] = '1'\n        return x.tanh()", "effects_outside"),
        ("        return x * 1e-9", "vanishing_output"),
        ("        return x.tanh() * 1e-3", None),
    ],
)
def test_references_with_effects_or_without_visible_outputs_are_unfit(body, reason, monkeypatch):
    monkeypatch.setenv("SEEN", "0")
    assert examine(REFERENCE.format(body=body), 1, 1 << 20).get("reason") == reason
